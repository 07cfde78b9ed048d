"""The table of all metrics, and finding one by the name that Kaggle shows.

A new metric is a function in the module of what its cells hold, a line here, and a worked example in
tests/test_metrics.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kaggle_workbench.errors import UsageError
from kaggle_workbench.metrics import labels, masks, numbers, probabilities, rankings
from kaggle_workbench.metrics.metric import Metric, Score, Values, hinted

# Depths of MAP@K that competitions have used; where Kaggle's title leaves K open, 3 is the usual one.
DEPTHS = (1, 3, 5, 7, 10, 12, 20, 25, 100, 200)
USUAL_DEPTH = 3


def _up(name: str, title: str, values: Values, score: Score, *also: str) -> Metric:
    return Metric(name, title, greater_is_better=True, values=values, score=hinted(score), also=also)


def _down(name: str, title: str, values: Values, score: Score, *also: str) -> Metric:
    return Metric(name, title, greater_is_better=False, values=values, score=hinted(score), also=also)


_ALL = (
    _up("accuracy", "Categorization Accuracy", "label", labels.accuracy, "Accuracy Score", "Classification Accuracy",
        "Categorisation Accuracy", "Multiclass Accuracy"),
    _up("balanced_accuracy", "Balanced Accuracy", "label", labels.balanced_accuracy, "Balanced Accuracy Score",
        "Macro Recall", "Macro-averaged Recall"),
    _up("f1", "F1 Score", "label", labels.f1_binary, "F-Score", "F1", "F1 Binary", "Binary F1 Score"),
    _up("f1_macro", "Macro F1 Score", "label", labels.f1_macro, "F1 Macro", "F-Score (Macro)", "MacroFScore",
        "Macro F-Score", "Macro-averaged F1", "F1 Score (Macro)", "Macro averaged F1 Score"),
    _up("f1_micro", "Micro F1 Score", "label", labels.f1_micro, "F1 Micro", "F-Score (Micro)", "Micro-averaged F1",
        "F1 Score (Micro)"),
    _up("f1_weighted", "Weighted F1 Score", "label", labels.f1_weighted, "F1 Weighted", "F-Score (Weighted)",
        "F1 Score (Weighted)"),
    _up("mcc", "Matthews Correlation Coefficient", "label", labels.mcc, "MCC", "Matthews Corrcoef",
        "Matthews Correlation Coefficient (MCC)"),
    _up("kappa", "Cohen Kappa", "label", labels.kappa, "Cohen's Kappa", "Kappa"),
    _up("quadratic_weighted_kappa", "Quadratic Weighted Kappa", "label", labels.quadratic_weighted_kappa, "QWK",
        "QuadraticWeightedKappa", "Cohen Kappa Score (quadratic)", "Quadratic Kappa"),
    _down("hamming", "Hamming Loss", "label", labels.hamming, "HammingLoss"),
    _up("auc", "Area Under Receiver Operating Characteristic Curve", "probability", probabilities.auc, "AUC", "ROC AUC",
        "AUC ROC", "AUROC", "Area Under the ROC Curve", "ROC AUC Score", "Roc Auc Score",
        "Area under the receiver operating characteristic curve"),
    _up("mean_columnwise_auc", "Mean Columnwise Area Under Receiver Operating Characteristic Curve", "probability",
        probabilities.auc, "Mean Columnwise AUC", "MCAUC", "Mean Column-wise ROC AUC", "Mean Column-wise AUC",
        "Mean Columnwise Area Under the ROC Curve"),
    _up("gini", "Normalized Gini Index", "probability", probabilities.gini, "Normalized Gini Coefficient", "Gini"),
    _up("average_precision", "Average Precision", "probability", probabilities.average_precision,
        "Average Precision Score", "Area Under Precision Recall Curve", "PR AUC", "AUPRC"),
    _down("log_loss", "Log Loss", "probability", probabilities.log_loss, "LogLoss", "Logarithmic Loss",
          "Multi Class Log Loss", "Multiclass Loss", "MulticlassLoss", "Multi-class Logarithmic Loss",
          "Binary Cross Entropy", "Cross Entropy"),
    _down("mean_columnwise_log_loss", "Mean Columnwise Log Loss", "probability", probabilities.mean_columnwise_log_loss,
          "Mean Column-wise Log Loss", "Multi-label Log Loss", "MCLogLoss", "Columnwise Log Loss",
          "Mean Columnwise LogLoss"),
    _down("balanced_log_loss", "Balanced Log Loss", "probability", probabilities.balanced_log_loss,
          "Balanced Logarithmic Loss"),
    _down("brier", "Brier Score", "probability", probabilities.brier, "Brier Score Loss", "Brier"),
    _down("rmse", "Root Mean Squared Error", "number", numbers.rmse, "RMSE", "Root Mean Square Error",
          "RootMeanSquaredError", "Root Mean Squared Error (RMSE)"),
    _down("mse", "Mean Squared Error", "number", numbers.mse, "MSE", "Mean Square Error"),
    _down("rmsle", "Root Mean Squared Logarithmic Error", "number", numbers.rmsle, "RMSLE",
          "Root Mean Squared Log Error", "Root Mean Square Logarithmic Error", "RootMeanSquaredLogarithmicError",
          "Root Mean Squared Logarithmic Error (RMSLE)"),
    _down("mae", "Mean Absolute Error", "number", numbers.mae, "MAE", "Mean Absolute Error (MAE)"),
    _down("medae", "Median Absolute Error", "number", numbers.medae, "MedAE"),
    _down("mape", "Mean Absolute Percentage Error", "number", numbers.mape, "MAPE"),
    _down("smape", "Symmetric Mean Absolute Percentage Error", "number", numbers.smape, "SMAPE",
          "Symmetric Mean Absolute Percent Error"),
    _up("r2", "R2 Score", "number", numbers.r2, "R2", "R^2", "Coefficient of Determination", "R Squared", "R-Squared",
        "R²", "R2Score"),
    _up("pearson", "Pearson Correlation Coefficient", "number", numbers.pearson, "Pearson Correlation", "Pearson"),
    _up("spearman", "Mean Columnwise Spearman Correlation", "number", numbers.spearman, "Spearman Correlation",
        "Spearman's Rank Correlation Coefficient", "Mean Columnwise Spearman's Correlation Coefficient", "Spearman",
        "Spearman Rank Correlation"),
    _down("mean_columnwise_rmse", "Mean Columnwise Root Mean Squared Error", "number", numbers.mean_columnwise_rmse,
          "MCRMSE", "Mean Column-wise Root Mean Squared Error"),
    _down("mean_columnwise_rmsle", "Mean Columnwise Root Mean Squared Logarithmic Error", "number",
          numbers.mean_columnwise_rmsle, "MCRMSLE", "Mean Column-wise Root Mean Squared Logarithmic Error",
          "Mean Columnwise RMSLE", "Mean column-wise RMSLE"),
    *(
        _up(f"map@{depth}", f"Mean Average Precision @ {depth}", "ranking", rankings.map_at(depth), f"MAP at {depth}")
        for depth in DEPTHS
    ),
    _up("mean_f_score", "Mean F-Score", "ranking", rankings.mean_f_score, "Mean F1-Score", "Mean F1", "MeanFScore",
        "Samples F1 Score", "F1 Score (Samples)"),
    _up("dice", "Dice", "mask", masks.dice, "Dice Coefficient", "Dice Score", "Mean Dice Coefficient", "DICE"),
)  # fmt: skip
METRICS: Mapping[str, Metric] = {each.name: each for each in _ALL}


def metric(name: str) -> Metric:
    """The metric of that name.

    Raises:
        UsageError: There is none; the hint lists those there are.
    """
    if name not in METRICS:
        raise UsageError(f"There is no metric {name!r}.", hint="Known metrics: " + ", ".join(sorted(METRICS)) + ".")
    return METRICS[name]


def find(text: str) -> Metric | None:
    """The metric that a name means: ours, the title that Kaggle shows, or a usual other name.

    Upper and lower case, spaces, dashes and brackets do not count; every letter else does, so that no metric is taken
    for one with a name alike.

    Args:
        text: Such as "RMSLE" or "Root Mean Squared Logarithmic Error".

    Returns:
        The metric, or None when it is not known here.
    """
    if ranked := re.fullmatch(
        r"(?:mean\s+average\s+precision|map)\s*(?:@|at|top)?\s*\{?\(?(k|\d+)\)?\}?", text.strip(), re.IGNORECASE
    ):
        depth = ranked.group(1).lower()
        return METRICS.get(f"map@{USUAL_DEPTH if depth == 'k' else int(depth)}")
    return _BY_NAME.get(_plain(text))


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9²@^]", "", text.lower())


_BY_NAME = {_plain(name): each for each in _ALL for name in (each.name, each.title, *each.also)}
