"""A study: what was asked, Optuna's storage of what came of it, one folder."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kaggle_workbench.errors import MissingError, UsageError
from kaggle_workbench.files import locked, make_folder, write_json
from kaggle_workbench.settings import Settings
from kaggle_workbench.tuning.space import Dimension, parse
from kaggle_workbench.tuning.trial import Trial

STUDY_FILE, JOURNAL, JOBS, PICTURES, TABLE = "study.json", "journal.log", "jobs", "pictures", "table"
VARIANT, PARAMETERS, ERROR, RUN = "variant", "parameters", "error", "run"
STUDIES = "studies"


class Study:
    """A study's folder and its storage.

    Args:
        folder: `OUTPUT_DIR/studies/<id>`.
        asked: What study.json holds: metric, greater_is_better, trials, variants, space, overrides, seed, prune.
        storage: Address of an Optuna storage; None: the journal in the folder.

    Attributes:
        optuna: Optuna's own study, for whatever Optuna can do with it.
    """

    def __init__(self, folder: Path, asked: Mapping[str, Any], *, storage: str | None = None) -> None:
        self.folder, self.id = folder, folder.name
        self.asked = dict(asked)
        self.space = [_dimension(entry) for entry in asked["space"]]
        self.greater_is_better = bool(asked["greater_is_better"])
        self.metric = str(asked["metric"])
        # Beside the search space: what only variants move.
        moved = {name for variant in asked["variants"] for name in variant} - {each.name for each in self.space}
        self._dimensions = {each.name: each for each in [*self.space, *(self._moved(name) for name in sorted(moved))]}
        self.optuna = _open(folder, self.asked, storage)

    @classmethod
    def create(cls, settings: Settings, name: str | None, asked: Mapping[str, Any], *, storage: str | None) -> Study:
        """Make a study and enqueue its variants.

        Raises:
            UsageError: One of that name exists, or the name is none.
            MissingError: The storage does not answer.
        """
        name = name or f"tune-{datetime.now(UTC):%Y%m%d-%H%M%S}"
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}", name):
            raise UsageError(
                f"{name!r} is no name for a study.", hint="Letters, digits, dots, '-' and '_', at most 60."
            )
        folder = settings.output_dir / STUDIES / name
        make_folder(folder.parent)
        try:
            folder.mkdir()
        except FileExistsError:
            raise UsageError(
                f"There is a study {name} already.",
                hint=f"Go on with it: ./kwb tune --resume {name}; or take another name.",
            ) from None
        study = cls(folder, asked, storage=storage)
        for number, variant in enumerate(asked["variants"]):
            known = {name: value for name, value in variant.items() if study.holds(name, value)}
            study.optuna.enqueue_trial(known, user_attrs={VARIANT: number})
        # Last: a folder with this file is a whole study.
        write_json(folder / STUDY_FILE, study.asked)
        return study

    @classmethod
    def open(cls, settings: Settings, name: str, *, storage: str | None) -> Study:
        """Open a study by its name or an unambiguous beginning of it.

        Raises:
            UsageError: No such study, several, or its storage is another one.
            MissingError: The storage does not answer.
        """
        studies = settings.output_dir / STUDIES
        found = sorted(
            file.parent.name for file in studies.glob(f"*/{STUDY_FILE}") if file.parent.name.startswith(name)
        )
        if name in found:
            found = [name]
        if len(found) != 1:
            what = f"{name!r} could be {len(found)} studies" if found else f"There is no study {name!r} in {studies}"
            raise UsageError(f"{what}.", hint=f"There are: {', '.join(found) or 'none'}.")
        asked = json.loads((studies / found[0] / STUDY_FILE).read_bytes())
        if asked.get("elsewhere") and storage is None:
            raise UsageError(
                f"The study {found[0]} is kept in another storage.", hint="Set TUNE_STORAGE, or give --storage again."
            )
        return cls(studies / found[0], asked, storage=storage if asked.get("elsewhere") else None)

    def holds(self, name: str, value: Any) -> bool:
        """Whether a variant's value lies in what Optuna knows of the parameter."""
        each = self._dimensions[name]
        if each.choices:
            return any(value == choice and type(value) is type(choice) for choice in each.choices)
        is_number = isinstance(value, int if each.whole else int | float) and not isinstance(value, bool)
        # With a step, what lies between is no value of the range.
        return bool(is_number and each.step is None and each.low <= value <= each.high)

    def _moved(self, name: str) -> Dimension:
        values = [variant[name] for variant in self.asked["variants"] if name in variant]
        numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
        if len(numbers) == len(values) and min(numbers) < max(numbers):
            return Dimension(name, min(numbers), max(numbers))
        plain = [value for value in values if isinstance(value, bool | int | float | str)]
        return Dimension(name, choices=tuple({repr(value): value for value in plain}.values()))

    def lock(self) -> AbstractContextManager[None]:
        """Held by the one client that runs this study.

        Raises:
            MissingError: Another one does.
        """
        return locked(self.folder / ".lock", what=f"the study {self.id}", timeout_s=5)

    def save(self) -> None:
        """Write study.json anew."""
        write_json(self.folder / STUDY_FILE, self.asked)

    @property
    def jobs(self) -> Path:
        """Folder of what trials leave beside their runs."""
        return self.folder / JOBS

    @property
    def planned(self) -> int:
        """How many trials there shall be, variants among them."""
        return len(self.asked["variants"]) + int(self.asked["trials"])

    def trials(self) -> list[Any]:
        """Optuna's trials that were started, by number."""
        return [trial for trial in self.optuna.get_trials(deepcopy=False) if trial.state.name != "WAITING"]

    def ask(self) -> Any:
        """The next trial: a variant while there are any, then a sampled one."""
        return self.optuna.ask()

    def running(self) -> list[Any]:
        """Trials that were started and have no result, as Optuna's live ones."""
        from optuna.trial import Trial as Live

        return [Live(self.optuna, trial._trial_id) for trial in self.trials() if trial.state.name == "RUNNING"]

    def trial(self, live: Any) -> Trial:
        """What a trial runs; the same whenever it is asked."""
        number = live.user_attrs.get(VARIANT)
        if number is None:
            parameters = {dimension.name: dimension.ask(live) for dimension in self.space}
        else:
            parameters = dict(self.asked["variants"][number])
            for name, value in parameters.items():
                if self.holds(name, value):
                    # Optuna gives back what was enqueued, and knows the parameter for its pictures.
                    self._dimensions[name].ask(live)
        run_id = f"{self.id}-t{live.number}"
        if PARAMETERS not in live.user_attrs:
            live.set_user_attr(RUN, run_id)
            live.set_user_attr(PARAMETERS, parameters)
        return Trial(live.number, run_id, parameters, {**self.asked["overrides"], **parameters})


def entries(space: Sequence[Dimension]) -> list[dict[str, Any]]:
    """A search space as JSON holds it."""
    return [
        {"name": each.name, "choices": list(each.choices)}
        if each.choices
        else {"name": each.name, "low": each.low, "high": each.high, "log": each.log, "step": each.step}
        for each in space
    ]


def _dimension(entry: Mapping[str, Any]) -> Dimension:
    rest = {key: value for key, value in entry.items() if key != "name"}
    return parse(entry["name"], rest.get("choices") or rest, STUDY_FILE)


def _open(folder: Path, asked: Mapping[str, Any], storage: str | None) -> Any:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    begin = max(3, min(10, int(asked["trials"]) // 3))
    pruner = optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=1)
    try:
        return optuna.create_study(
            storage=storage or _journal(folder / JOURNAL),
            study_name=folder.name,
            direction="maximize" if asked["greater_is_better"] else "minimize",
            sampler=optuna.samplers.TPESampler(seed=asked["seed"], n_startup_trials=begin),
            pruner=pruner if asked["prune"] else optuna.pruners.NopPruner(),
            load_if_exists=True,
        )
    except Exception as error:
        if storage is None:
            raise
        # The message of a database driver may hold the address, and with it the password.
        raise MissingError(
            f"Optuna's storage does not answer ({type(error).__name__}).",
            hint="Check TUNE_STORAGE or --storage: an address as Optuna takes it, such as sqlite:///study.db.",
        ) from None


def _journal(file: Path) -> Any:
    from optuna.storages.journal import JournalFileBackend, JournalStorage

    if file.is_file():
        content = file.read_bytes()
        if content and not content.endswith(b"\n"):
            # A client that was killed while it wrote: its last line is half.
            file.write_bytes(content[: content.rfind(b"\n") + 1])
    return JournalStorage(JournalFileBackend(str(file)))
