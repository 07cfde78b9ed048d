"""03-submit: checked, counted, sent when it may be, and read back."""

from __future__ import annotations

from kaggle_workbench.competition import budget
from kaggle_workbench.competition.check import check_file
from kaggle_workbench.competition.submit import submit
from kaggle_workbench.errors import RefusedError
from kaggle_workbench.stages.cards import Card
from kaggle_workbench.stages.stage import SUBMISSION_FILE, Stage


class SubmitStage(Stage):
    """The stage of 03-submit."""

    name = "submit"
    next = "Next: change something in 02-train, run it again, and see whether both scores follow."

    def check(self) -> Card:
        """Check the run's submission against the sample; nothing is spent.

        Raises:
            RefusedError: It has faults; all of them are told.
        """
        file = self.folder / SUBMISSION_FILE
        metric = self.competition.metric if self.competition else None
        report = check_file(self.settings, file, source=self.source, metric=metric)
        if not report.ok:
            raise RefusedError(str(report), hint="Correct 02-train, run it again, then this notebook.")
        warnings = ["\n".join(warning.lines("Warning:")).strip() for warning in report.warnings]
        return Card(report.verdict, {"file": self.short(file)}, warnings, "good")

    def budget(self) -> Card:
        """How many submissions are left, and whether the competition takes any."""
        source, competition = self.connected()
        left = budget.left_today(source.client, competition)
        day = competition.max_daily_submissions
        facts = {
            "left today": "the server does not say" if left is None else f"{left:,}" + (f" of {day:,}" if day else ""),
            "rules": "accepted" if competition.user_has_entered else "not accepted yet",
            "closed": "takes no submissions any more" if competition.submissions_disabled else None,
            "form": "takes notebooks, not files" if competition.notebooks_only else None,
        }
        good = left != 0 and competition.user_has_entered and not competition.submissions_disabled
        return Card("Budget", facts, mood="good" if good else "bad")

    def submit(self, message: str = "") -> Card:
        """Submit and wait for the score: in practice always, on Kaggle only with SUBMIT = True.

        Args:
            message: What is new in this submission; shown in your list. By default the run, its CV score and its model.

        Raises:
            RefusedError: Refused before anything was spent.
        """
        source, competition = self.connected()
        message = message or self._message()
        if source.kind == "kaggle" and not self.settings.submit:
            notes = [
                "On Kaggle it costs one of your submissions, so it is sent only when you say so:",
                "write SUBMIT = True in the parameters cell, then run all cells again;",
                f'or in a terminal: ./kwb submit {self.short(self.folder / SUBMISSION_FILE)} -m "{message}"',
            ]
            return Card("Nothing was submitted", notes=notes)
        result = submit(self.settings, source, self.folder / SUBMISSION_FILE, message, run=self.run)
        if result.status == "pending":
            again = "Run this cell again later; the same file is not sent twice."
            return Card(f"Submission {result.ref} is not scored yet", {"list": result.url}, [again])
        cv = (self.run.read()["cv"] or {}).get("score")
        facts = {
            "CV": None if cv is None else f"{cv:.5f}",
            "public score": result.public,
            "private score": result.private,
            "rank": f"{result.rank:,} of {result.entries or 0:,}" if result.rank else None,
            "left today": result.left_today,
        }
        how = "was submitted before (nothing was sent now)" if result.already else f"is submitted to {competition.slug}"
        return Card(f"{result.file} {how}", facts, mood="good")

    def _message(self) -> str:
        cv = self.run.read()["cv"] or {}
        if cv.get("score") is None:
            return f"run {self.run.id}"
        by = f" by {cv['model']}" if cv.get("model") else ""
        return f"run {self.run.id}: CV {cv.get('metric')} {cv['score']:.5f}{by}"
