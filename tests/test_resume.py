"""A training that is stopped at any moment and goes on ends as the one that was never stopped, bit for bit."""

from __future__ import annotations

import importlib.util
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kaggle_workbench.checkpoints import CheckpointFolder
from resume_tools import KILLED, Trainer

RESULT = ("weights", "optimizer", "history", "epochs", "recorded", "own", "stopping", "scores")
# A checkpoint at nearly every step.
OFTEN = 0.0005


@pytest.fixture(scope="module")
def trainer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trainer]:
    with Trainer(tmp_path_factory.mktemp("output")) as made:
        yield made


@pytest.fixture(scope="module")
def wholes(trainer: Trainer) -> Any:
    """Trainings that were never stopped, by their options; each is made once."""
    made: dict[str, Any] = {}

    def whole(**options: Any) -> Any:
        key = repr(sorted(options.items()))
        if key not in made:
            made[key] = trainer.train(f"whole-{len(made)}", **options)
            assert made[key].code == 0, made[key].said
        return made[key]

    return whole


def assert_equal(one: Any, whole: Any) -> None:
    for name in RESULT:
        assert getattr(one, name) == getattr(whole, name), name
    assert one.initial_epoch is None, "a later fit would begin there"


def names(trainer: Trainer, run: str, series: int = 1) -> list[str]:
    return CheckpointFolder(trainer.output / "runs" / run / "checkpoints", series=series).names()


# --- Killed ---


def test_killed_in_an_epoch_in_a_write_and_between_epochs(trainer: Trainer, wholes: Any) -> None:
    kills = [
        {"at": "batch", "epoch": 1, "batch": 4},
        {"at": "write", "number": 2, "share": 0.5},
        {"at": "epoch", "epoch": 3},
    ]
    done, met = trainer.until_done("killed", kills, minutes=OFTEN)
    assert met == 3
    assert_equal(done, wholes())
    assert "goes on after step" in done.said or "goes on after epoch" in done.said
    assert not [path for path in (trainer.output / "runs/killed/checkpoints").iterdir() if path.name.startswith(".")]


def test_killed_when_all_epochs_are_done_the_end_is_made_up_for(trainer: Trainer, wholes: Any) -> None:
    options = {"epochs": 12, "patience": 1, "delta": 0.1}
    whole = wholes(**options)
    assert len(whole.epochs) < 12, "stopped early"
    done, met = trainer.until_done("at-the-end", [{"at": "end"}], **options)
    assert met == 1
    assert_equal(done, whole)
    assert f"ended by a callback after epoch {len(whole.epochs)}" in done.said


@pytest.mark.slow
@pytest.mark.parametrize("how", ["plateau", "schedule"])
def test_killed_at_random_moments(trainer: Trainer, wholes: Any, how: str) -> None:
    choice = random.Random(how)
    options = {"how": how, "epochs": 5, "slow_s": 0.01}
    whole = wholes(**options)
    met = 0
    for chain in range(12):
        kills: list[dict[str, Any]] = []
        for number in range(4):
            if number % 2:
                kills.append({"at": "write", "number": choice.randint(1, 4), "share": choice.choice([0.0, 0.5, 1.0])})
            else:
                kills.append({"at": "time", "s": choice.uniform(0.05, whole.seconds)})
        minutes = choice.choice([OFTEN, 10.0])
        done, count = trainer.until_done(f"random-{how}-{chain}", kills, minutes=minutes, **options)
        met += count
        assert_equal(done, whole)
        if met >= 10:
            return
    pytest.fail(f"only {met} kills have met a training")


@pytest.mark.slow
def test_the_reference_network_killed_twice(trainer: Trainer, wholes: Any) -> None:
    options = {"network": "reference", "epochs": 3, "rows": 96}
    kills = [{"at": "batch", "epoch": 0, "batch": 4}, {"at": "write", "number": 3, "share": 0.9}]
    done, met = trainer.until_done("reference", kills, minutes=OFTEN, **options)
    assert met == 2
    assert_equal(done, wholes(**options))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_the_other_backends(tmp_path: Path, backend: str) -> None:
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    with Trainer(tmp_path, backend) as trainer:
        # Keras' PyTorch trainer takes one step at a time.
        for count in (1,) if backend == "torch" else (1, 4):
            options = {"per_execution": count, "epochs": 4}
            whole = trainer.train(f"whole-{count}", **options)
            assert whole.code == 0, whole.said
            assert trainer.train(f"cut-{count}", pause=4, **options).code == 1
            kills = [{"at": "batch", "epoch": 1, "batch": 3}, {"at": "write", "number": 2, "share": 0.5}]
            done, met = trainer.until_done(f"cut-{count}", kills, minutes=OFTEN, **options)
            assert met == 2
            assert_equal(done, whole)


# --- Paused ---


@pytest.mark.parametrize(("per_execution", "questions"), [(1, 4), (1, 8), (4, 2), (4, 5)])
def test_paused_within_an_epoch_and_at_its_end(
    trainer: Trainer, wholes: Any, per_execution: int, questions: int
) -> None:
    run, options = f"paused-{per_execution}-{questions}", {"per_execution": per_execution, "epochs": 4}
    stopped = trainer.train(run, pause=questions, **options)
    assert stopped.code == 1
    assert "PausedError: Ctrl-C. The training is paused, saved after " in stopped.said
    assert f"./kwb run train --resume {run}" in stopped.said
    done = trainer.train(run, **options)
    assert_equal(done, wholes(**options))


def test_stopped_before_the_session_ends(trainer: Trainer, wholes: Any) -> None:
    stopped = trainer.train("ends", due=18)
    assert stopped.code == 1
    assert "PausedError: The session ends soon. The training is paused, saved after step 1 of epoch 3" in stopped.said
    assert_equal(trainer.train("ends"), wholes())


@pytest.mark.parametrize("how", ["schedule", "ema", "scaled"])
def test_other_optimizers(trainer: Trainer, wholes: Any, how: str) -> None:
    options = {"how": how, "epochs": 3}
    assert trainer.train(f"how-{how}", pause=12, **options).code == 1
    assert_equal(trainer.train(f"how-{how}", **options), wholes(**options))


def test_a_network_whose_weights_are_made_by_its_first_batch(trainer: Trainer, wholes: Any) -> None:
    options = {"network": "lazy", "epochs": 3}
    assert trainer.train("lazy", pause=12, **options).code == 1
    assert_equal(trainer.train("lazy", **options), wholes(**options))


@pytest.mark.slow
def test_several_replicas(trainer: Trainer) -> None:
    options = {"replicas": 2, "epochs": 3}
    whole = trainer.train("replicas", **options)
    assert whole.code == 0, whole.said
    assert trainer.train("replicas-cut", pause=12, **options).code == 1
    done = trainer.train("replicas-cut", **options)
    assert done.code == 0, done.said
    assert_equal(done, whole)


def test_paused_here_continued_in_another_folder(trainer: Trainer, wholes: Any, tmp_path: Path) -> None:
    assert trainer.train("moved", pause=12).code == 1
    shutil.copytree(trainer.output / "runs" / "moved", tmp_path / "runs" / "moved")
    assert_equal(trainer.train("moved", output=str(tmp_path)), wholes())


# --- Done, longer, damaged ---


def test_what_is_done_is_not_trained_again_and_goes_on_with_more_epochs(trainer: Trainer, wholes: Any) -> None:
    first = trainer.train("done", epochs=3, patience=9)
    again = trainer.train("done", epochs=3, patience=9)
    assert "is trained already: 3 epochs" in again.said
    assert_equal(again, first)
    assert "1/3" not in again.said
    longer = trainer.train("done", epochs=5, patience=9)
    assert "goes on after epoch 3 (5 in all" in longer.said
    assert_equal(longer, wholes(epochs=5, patience=9))
    assert trainer.train("done", epochs=4, patience=9).weights != first.weights, "5 epochs are 5 epochs"


def test_a_damaged_newest_checkpoint_is_left_out(trainer: Trainer, wholes: Any) -> None:
    assert trainer.train("damaged", kill={"at": "epoch", "epoch": 3}).code == KILLED
    newest = trainer.output / "runs/damaged/checkpoints" / names(trainer, "damaged")[0]
    newest.write_bytes(newest.read_bytes()[:-1])
    done = trainer.train("damaged")
    assert "epoch-0003.ckpt is damaged" in done.said
    assert "goes on after epoch 2 " in done.said
    assert_equal(done, wholes())


def test_when_all_are_damaged_a_training_begins_anew_and_keeps_its_checkpoints(trainer: Trainer) -> None:
    assert trainer.train("all-damaged", kill={"at": "epoch", "epoch": 4}).code == KILLED
    folder = trainer.output / "runs/all-damaged/checkpoints"
    for name in names(trainer, "all-damaged"):
        (folder / name).write_bytes(b"")
    again = trainer.train("all-damaged", kill={"at": "epoch", "epoch": 3})
    assert again.code == KILLED
    assert again.said.count("has no whole checkpoint: the training begins anew") == 1
    assert names(trainer, "all-damaged") == ["epoch-0003.ckpt", "epoch-0002.ckpt", "epoch-0001.ckpt"]


def test_a_second_fit_of_a_run_is_another_training(trainer: Trainer) -> None:
    whole = trainer.train("twice", twice=True, epochs=2)
    assert whole.code == 0, whole.said
    assert (names(trainer, "twice")[0], names(trainer, "twice", 2)[0]) == ("epoch-0002.ckpt", "fit-2-epoch-0002.ckpt")
    cut = trainer.train("twice-cut", twice=True, epochs=2, pause=20)
    assert cut.code == 0, "each fit of this child has a pause of its own, and too few steps for it"
    (trainer.output / "runs/twice-cut/checkpoints/fit-2-epoch-0002.ckpt").unlink()
    done = trainer.train("twice-cut", twice=True, epochs=2)
    assert_equal(done, whole)


# --- Another training ---


@pytest.fixture(scope="module")
def begun(trainer: Trainer) -> str:
    assert trainer.train("begun", pause=8).code == 1
    return "begun"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"units": 32}, "layer 2 (Dense): units 16 -> 32"),
        ({"how": "schedule"}, "the optimizer: learning_rate"),
        ({"seed": 8}, "the seed: 7 -> 8"),
        ({"rows": 128}, "the training data: shape (112, 12, 12, 1) -> (128, 12, 12, 1)"),
        ({"scale": 2.0}, "the training data: other values"),
        ({"shift_by": 3}, "augment: values it uses have changed"),
        ({"augment": False}, "augment: none now"),
    ],
)
def test_a_checkpoint_of_another_training_is_refused(
    trainer: Trainer, begun: str, change: dict[str, Any], words: str
) -> None:
    refused = trainer.train(begun, **change)
    assert refused.code == 1
    assert "UsageError: Run begun has a checkpoint (epoch 1) of another training: " in refused.said
    assert words in refused.said
    assert "FORCE_RESUME=true" in refused.said


def test_forced_it_goes_on_with_what_fits(trainer: Trainer, begun: str) -> None:
    for run in ("forced", "anew"):
        shutil.copytree(trainer.output / "runs" / begun, trainer.output / "runs" / run)
    forced = trainer.train("forced", scale=1.5, force=True)
    assert "another training, as asked: the training data: other values" in forced.said
    assert "goes on after epoch 1" in forced.said
    assert forced.epochs == [0, 1, 2, 3, 4]
    anew = trainer.train("anew", units=32, force=True, epochs=2)
    assert "weights do not fit" in anew.said
    assert "begins anew" in anew.said
    assert anew.epochs == [0, 1]
    assert names(trainer, "anew") == ["epoch-0002.ckpt", "epoch-0001.ckpt"]


def test_more_patience_is_no_other_training(trainer: Trainer) -> None:
    options = {"epochs": 12, "how": "none", "delta": 0.1}
    assert trainer.train("patient", pause=10, patience=1, **options).code == 1
    done = trainer.train("patient", patience=9, **options)
    assert done.code == 0, done.said
    assert_equal(done, trainer.train("patient-whole", patience=9, **options))


# --- What cannot be kept, and what goes wrong ---


def test_other_data_than_batches_go_on_at_an_epochs_beginning(trainer: Trainer) -> None:
    stopped = trainer.train("arrays", arrays=True, kill={"at": "batch", "epoch": 2, "batch": 3}, minutes=OFTEN)
    assert stopped.code == KILLED
    assert "The training data are not training.Batches" in stopped.said
    assert names(trainer, "arrays") == ["epoch-0002.ckpt", "epoch-0001.ckpt"]
    done = trainer.train("arrays", arrays=True)
    assert "goes on after epoch 2 " in done.said
    assert done.epochs == [0, 1, 2, 3, 4]
    assert trainer.train("arrays", arrays=True, rows=128).code == 1, "other data are refused here too"


def test_what_cannot_be_kept_is_said_once_by_name(trainer: Trainer) -> None:
    done = trainer.train("odd", extra="odd", epochs=2)
    assert done.said.count("Own.odd cannot be kept in a checkpoint (object)") == 1
    assert "Own.lock" not in done.said


def test_weights_that_are_no_numbers_are_not_kept(trainer: Trainer) -> None:
    stopped = trainer.train("nan", extra="nan")
    assert stopped.code == 1
    assert "its loss is no number any more" in stopped.said
    assert names(trainer, "nan") == ["epoch-0002.ckpt", "epoch-0001.ckpt"]
    assert trainer.train("nan").code == 0


def test_a_checkpoint_that_cannot_be_written_does_not_stop_the_training(trainer: Trainer, wholes: Any) -> None:
    assert trainer.train("blocked", pause=1).code == 1
    blocked = trainer.output / "runs/blocked/checkpoints"
    assert not blocked.exists(), "nothing was done yet, so nothing is kept"
    blocked.write_text("no folder")
    done = trainer.train("blocked")
    assert "The checkpoint of epoch 1 was not written" in done.said
    assert "The training goes on" in done.said
    assert_equal(done, wholes())
