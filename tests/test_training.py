"""Training: the reference network, batches that depend on seed and epoch alone, what the callbacks keep."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from kaggle_workbench import models, plots, recipes, training
from kaggle_workbench.competition.doubts import find_doubts
from kaggle_workbench.competition.predictions import write_submission
from kaggle_workbench.competition.problem import Problem, read_problem
from kaggle_workbench.errors import UsageError, WorkError
from kaggle_workbench.records import Run

ROOT = Path(__file__).resolve().parent.parent


@dataclass
class Held:
    """What stands for a stage: anything with a run."""

    run: Run


@pytest.fixture
def held(tmp_path: Path) -> Held:
    return Held(Run.create(tmp_path, stage="train", competition="digits", source="practice"))


def another(held: Held) -> Held:
    """A run of its own: one and the same would go on from its checkpoint."""
    return Held(Run.create(held.run.folder.parent.parent, stage="train", competition="digits", source="practice"))


def data(rows: int = 96, side: int = 8) -> tuple[Any, Any]:
    random = np.random.default_rng(1)
    labels = np.arange(rows) % 3
    pictures = random.random((rows, side, side, 1), dtype=np.float32)
    pictures[np.arange(rows), labels * 2] += 1
    return pictures, labels


def net(rate: float = 0.01) -> Any:
    import keras
    from keras import layers

    keras.utils.set_random_seed(5)
    hidden = [layers.Flatten(), layers.Dense(8, activation="relu"), layers.Dropout(0.5)]
    model = keras.Sequential([keras.Input((8, 8, 1)), *hidden, layers.Dense(3, activation="softmax")])
    model.compile(optimizer=keras.optimizers.Adam(rate), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def fit(held: Held, *, epochs: int = 3, seed: int = 7, model: Any = None, **options: Any) -> Any:
    inputs, targets = data()
    batches = training.Batches(inputs, targets, 32, seed=seed, augment=options.pop("augment", None))
    model = model or net()
    callbacks = training.callbacks(held, batches)
    model.fit(batches, epochs=epochs, validation_data=data(30), callbacks=callbacks, verbose=0, **options)
    return model


def order(batches: Any) -> list[int]:
    return [int(row) for index in range(len(batches)) for row in batches[index][1]]


# --- The reference network ---


def test_the_reference_network_has_the_published_number_of_parameters() -> None:
    assert models.reference_cnn().count_params() == 887_530
    assert models.reference_cnn((8, 8, 1), 3).output_shape == (None, 3)
    with pytest.raises(UsageError, match="too small"):
        models.reference_cnn((3, 28, 1), 10)


def test_the_notebooks_network_is_the_reference_network() -> None:
    notebook = json.loads((ROOT / "code" / "02-train.ipynb").read_text(encoding="utf-8"))
    source = "".join(next(cell["source"] for cell in notebook["cells"] if cell["id"] == "model"))
    names: dict[str, Any] = {"data": SimpleNamespace(activation="softmax")}
    exec(source, names)

    def layers(model: Any) -> list[tuple[str, dict[str, Any]]]:
        return [(type(layer).__name__, {**layer.get_config(), "name": ""}) for layer in model.layers]

    assert layers(names["build_model"]((28, 28, 1), 10)) == layers(models.reference_cnn())


# --- The fast recipe ---


def test_the_fast_network_suits_pictures_of_every_size() -> None:
    assert models.fast_cnn().count_params() == 157_634
    for side in (4, 8, 12, 20, 64):
        assert models.fast_cnn((side, side, 1), 3).output_shape == (None, 3)


def test_shifts_move_each_picture_by_at_most_a_pixel() -> None:
    pictures = np.random.default_rng(0).normal(size=(200, 6, 6, 1)).astype("float32")
    moved = recipes.shift(pictures, np.random.default_rng(1))
    assert (moved.shape, moved.dtype) == (pictures.shape, pictures.dtype)
    padded = np.pad(pictures, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="edge")
    found = set()
    for before, after in zip(padded, moved, strict=True):
        places = [(d, r) for d in range(3) for r in range(3) if (before[d : d + 6, r : r + 6] == after).all()]
        assert len(places) == 1
        found.add(places[0])
    assert len(found) == 9, "all nine shifts occur, the one that changes nothing included"


def test_the_smoothed_loss_is_the_published_one() -> None:
    import keras

    probabilities = np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]], "float32")
    truth = np.array([0, 1])
    smoothed = np.eye(3)[truth] * 0.9 + 0.1 / 3
    expected = -(smoothed * np.log(probabilities)).sum(axis=1)
    for shape in ((2,), (2, 1)):
        loss = keras.ops.convert_to_numpy(recipes.smoothed_loss(truth.reshape(shape), probabilities))
        assert np.allclose(loss, expected, atol=1e-6)


def test_the_fast_recipe_learns(held: Held) -> None:
    import keras

    inputs, targets = data(300)
    model = recipes.fast.build_model(inputs.shape[1:], 3)
    batches = training.Batches(inputs, targets, 32, seed=0, augment=recipes.fast.augment)
    recipes.fast.learn(model, 6 * len(batches))
    model.fit(batches, epochs=6, validation_data=data(60), callbacks=training.callbacks(held, batches), verbose=0)
    history = held.run.read()["history"]
    assert history[-1]["val_accuracy"] > 0.9, "the accuracy is that of class numbers, smoothed labels or not"
    # The rate has come down to nearly nothing.
    assert float(keras.ops.convert_to_numpy(model.optimizer.learning_rate)) < recipes.PEAK / 100


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_the_fast_recipe_learns_on_other_backends(backend: str, tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; import pytest, test_training as own\n"
        "run = own.Run.create(Path(sys.argv[1]), stage='train', competition='digits', source='practice')\n"
        "own.test_the_fast_recipe_learns(own.Held(run))\n"
        "import keras; print(keras.backend.backend())\n"
    )
    path = os.pathsep.join((str(ROOT / "code"), str(ROOT / "tests")))
    words = [sys.executable, "-c", script, str(tmp_path)]
    env = {**os.environ, "KERAS_BACKEND": backend, "PYTHONPATH": path}
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300, env=env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == backend


# --- Batches ---


def test_an_epoch_holds_every_row_once_and_the_last_batch_is_short() -> None:
    batches = training.Batches(np.arange(10), np.arange(10), 4, seed=1)
    assert [len(batches[index][0]) for index in range(len(batches))] == [4, 4, 2]
    assert sorted(order(batches)) == list(range(10))
    assert (batches[1][0] == batches[1][1]).all(), "inputs and targets stay together"


def test_the_order_is_a_function_of_seed_and_epoch() -> None:
    def epochs(seed: int, start: int, count: int) -> list[list[int]]:
        batches = training.Batches(np.arange(50), np.arange(50), 8, seed=seed)
        batches.start_epoch(start)
        found = []
        for _ in range(count):
            batches.on_epoch_begin()
            found.append(order(batches))
        return found

    whole = epochs(3, 0, 4)
    assert len({tuple(one) for one in whole}) == 4
    assert epochs(3, 2, 2) == whole[2:]
    assert epochs(4, 0, 1) != whole[:1]


def test_augmenting_is_a_function_of_seed_epoch_and_batch() -> None:
    def noisy(batch: Any, random: np.random.Generator) -> Any:
        return batch + random.random()

    inputs = np.zeros(20)
    first, second = (training.Batches(inputs, inputs, 5, seed=2, augment=noisy) for _ in range(2))
    values = [first[index][0][0] for index in (3, 1, 1)]
    assert values[0] != values[1] == values[2] == second[1][0][0]
    second.start_epoch(1)
    assert second[1][0][0] != values[1]
    assert not inputs.any(), "the data themselves stay as they are"


def test_batches_refuse_what_does_not_fit() -> None:
    with pytest.raises(UsageError, match="3 inputs and 2 targets"):
        training.Batches(np.zeros(3), np.zeros(2), 2)
    with pytest.raises(UsageError, match="at least one"):
        training.Batches(np.zeros(0), np.zeros(0), 2)


# --- Fitting ---


def test_two_runs_with_one_seed_are_equal_bit_for_bit(held: Held) -> None:
    def shift(batch: Any, random: np.random.Generator) -> Any:
        return np.roll(batch, random.integers(-1, 2, size=2), axis=(1, 2))

    first, second = (fit(another(held), augment=shift) for _ in range(2))
    for one, other in zip(first.get_weights(), second.get_weights(), strict=True):
        assert (one == other).all()
    other = fit(another(held), seed=8)
    assert any((one != two).any() for one, two in zip(first.get_weights(), other.get_weights(), strict=True))


def test_a_training_in_two_parts_sees_the_same_batches_as_one_in_one(held: Held) -> None:
    whole = fit(another(held), epochs=4)
    parts = fit(held, epochs=2)
    fit(held, epochs=4, initial_epoch=2, model=parts)
    for one, other in zip(whole.get_weights(), parts.get_weights(), strict=True):
        assert (one == other).all()
    assert [entry["epoch"] for entry in held.run.read()["history"]] == [1, 2, 3, 4]


def test_each_epoch_is_in_the_record(held: Held) -> None:
    fit(held, epochs=3)
    history = held.run.read()["history"]
    assert [entry["epoch"] for entry in history] == [1, 2, 3]
    assert {"seconds", "loss", "accuracy", "val_loss", "val_accuracy"} <= history[0].keys()
    checkpoint = held.run.read()["checkpoint"]
    assert (checkpoint["epoch"], checkpoint["file"]) == (3, "checkpoints/epoch-0003.ckpt")
    assert (held.run.folder / checkpoint["file"]).is_file()


def test_a_loss_that_is_no_number_stops_the_training(held: Held) -> None:
    model = net()
    model.set_weights([weights * np.nan for weights in model.get_weights()])
    with pytest.raises(WorkError, match="epoch 1: its loss is no number"):
        fit(held, model=model)
    assert held.run.read()["history"][0]["loss"] is None


def test_in_one_notebook_a_fit_that_broke_off_goes_on(held: Held) -> None:
    import keras

    class Break(keras.callbacks.Callback):  # type: ignore[misc]
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            if epoch == 2:
                raise KeyboardInterrupt

    def slower() -> Any:
        return keras.callbacks.ReduceLROnPlateau(monitor="loss", patience=1, factor=0.5, min_delta=9.0)

    def once(held: Held, model: Any, *more: Any) -> Any:
        batches = training.Batches(*data(), 32, seed=7)
        return model.fit(batches, epochs=4, callbacks=[*training.callbacks(held, batches), *more], verbose=0)

    whole = net()
    history = once(another(held), whole, slower())
    model = net()
    with pytest.raises(KeyboardInterrupt):
        once(held, model, slower(), Break())
    again = once(held, model, slower())
    assert again.history == history.history
    assert again.history["learning_rate"][-1] < 0.01, "the rate was lowered before it broke off"
    for one, other in zip(whole.get_weights(), model.get_weights(), strict=True):
        assert (one == other).all()


def test_in_one_notebook_a_changed_network_begins_anew(held: Held, capsys: pytest.CaptureFixture[str]) -> None:
    import keras

    class Break(keras.callbacks.Callback):  # type: ignore[misc]
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            if epoch == 2:
                raise KeyboardInterrupt

    batches = training.Batches(*data(), 32, seed=7)
    with pytest.raises(KeyboardInterrupt):
        net().fit(batches, epochs=4, callbacks=[*training.callbacks(held, batches), Break()], verbose=0)
    other = net(rate=0.02)
    history = other.fit(batches, epochs=3, callbacks=training.callbacks(held, batches), verbose=0)
    assert len(history.epoch) == 3
    assert "the optimizer: learning_rate" in capsys.readouterr().err
    # In another process, with the first network again, that is another training's checkpoint.
    with pytest.raises(UsageError, match=r"has a checkpoint .* of another training"):
        net().fit(batches, epochs=3, callbacks=training.callbacks(Held(Run(held.run.folder)), batches), verbose=0)


def test_a_loop_of_ones_own_keeps_checkpoints_too(held: Held, capsys: pytest.CaptureFixture[str]) -> None:
    def loop(held: Held) -> None:
        model = net()
        batches = training.Batches(*data(), 32, seed=7)
        first = training.Checkpointer(held.run, batches)
        first.set_model(model)
        first.on_train_begin()
        for epoch in range(2):
            first.on_epoch_begin(epoch)
            for number in range(len(batches)):
                first.on_train_batch_begin(number)
                model.train_on_batch(*batches[number])
            first.on_epoch_end(epoch, {"loss": 0.5})
        first.on_train_end()

    loop(held)
    assert sorted(path.name for path in (held.run.folder / "checkpoints").iterdir())[-1] == "epoch-0002.ckpt"
    assert "other callbacks of this training cannot be found" in capsys.readouterr().err
    loop(Held(Run(held.run.folder)))
    said = capsys.readouterr().err
    assert "goes on after epoch 2 (checkpoint of" in said
    assert "begins with epoch 1 from a checkpoint of epoch 2" in said


def test_one_network_built_twice_is_the_same_training() -> None:
    import keras
    from keras import layers

    from kaggle_workbench.callbacks.fingerprint import fingerprint
    from kaggle_workbench.callbacks.fitting import Fit
    from kaggle_workbench.checkpoints.differences import compare

    def told(*, factor: float = 2.0, swapped: bool = False, hidden: int = 4, loss: Any = "mse") -> dict[str, Any]:
        class Scaled(layers.Layer):  # type: ignore[misc]
            def call(self, inputs: Any) -> Any:
                return inputs * (3 if factor > 5 else 1)

        left, right = keras.Input((6, 2)), keras.Input((6, 2))
        first = layers.Bidirectional(layers.LSTM(3))(left)
        second = keras.Sequential([layers.Flatten(), layers.Dense(hidden), layers.Dropout(0.5)])(right)
        doubled = layers.Lambda(lambda value: value * factor, output_shape=(6,))(first)
        joined = layers.Concatenate()([second, Scaled()(doubled)] if swapped else [Scaled()(doubled), second])
        model = keras.Model([left, right], layers.Dense(1)(joined))
        adam = keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(0.1, 100))
        model.compile(keras.optimizers.LossScaleOptimizer(adam), loss=loss, metrics=[keras.metrics.MeanSquaredError()])
        return fingerprint(model, Fit(), None)

    def mine(truth: Any, guess: Any) -> Any:
        return keras.ops.mean(keras.ops.abs(truth - guess))

    plain = json.loads(json.dumps(told()))
    assert compare(plain, told()).differences == ()
    assert "(Lambda): values it uses have changed" in compare(plain, told(factor=2.5)).sentence()
    assert "(Sequential): layers" in compare(plain, told(hidden=5)).sentence()
    assert "the network: its layers are connected in another way" in compare(plain, told(swapped=True)).differences
    assert compare(plain, told(loss=mine)).sentence() == "the loss: mse -> a function of your own"
    assert compare(told(loss=mine), told(loss=mine)).differences == ()


def test_progress_is_one_line_per_epoch(held: Held, capsys: pytest.CaptureFixture[str]) -> None:
    fit(held, epochs=2)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["epoch", "1/2", "2/2"]
    assert "dev accuracy" in lines[0]
    assert "\b" not in "".join(lines)


# --- Data and predictions ---


def problem(folder: Path, train: str, test: str, sample: str) -> Problem:
    folder.mkdir(exist_ok=True)
    for name, text in (("train", train), ("test", test), ("sample_submission", sample)):
        (folder / f"{name}.csv").write_text(text)
    return read_problem("digits", folder)


def pixels(rows: Sequence[Sequence[int]], labels: Sequence[Any] = ()) -> str:
    head = [*(["label"] if labels else []), *(f"pixel{n}" for n in range(len(rows[0])))]
    lines = [[*([labels[n]] if labels else []), *row] for n, row in enumerate(rows)]
    return "\n".join(",".join(map(str, line)) for line in [head, *lines]) + "\n"


def test_pictures_and_classes_come_from_the_data(tmp_path: Path) -> None:
    rows = [[(n * 7 + k) % 256 for k in range(64)] for n in range(6)]
    found = problem(tmp_path, pixels(rows, "abcabc"), pixels(rows[:2]), "id,Label\n1,a\n2,a\n")
    assert (found.side, found.classes, found.target, found.id) == (8, ("a", "b", "c"), "label", "id")
    assert found.pictures().shape == (6, 8, 8)
    assert found.pictures("test").dtype == np.uint8
    doubts = {doubt.question: doubt for doubt in find_doubts(found)}
    assert doubts["Test rows seen in training"].finding.startswith("2 test rows")
    assert doubts["Missing values"].ok


def test_small_pictures_are_pictures_and_large_numbers_are_not(tmp_path: Path) -> None:
    rows = [[n, *range(15)] for n in range(3)]
    found = problem(tmp_path, pixels(rows, "012"), pixels(rows), "id,Label\n1,0\n2,0\n3,0\n")
    assert (found.side, found.pictures().dtype) == (4, np.uint8)
    rows[0][0] = 256
    assert problem(tmp_path, pixels(rows, "012"), pixels(rows), "id,Label\n1,0\n2,0\n3,0\n").side == 0


def test_a_table_is_no_picture_and_its_doubts_are_found(tmp_path: Path) -> None:
    train = "Id,Age,Name,Survived\n1,,a,0\n2,30,b,1\n3,30,b,0\n4,30,b,0\n"
    found = problem(tmp_path, train, "Id,Age,Name\n5,30,b\n", "Id,Survived\n5,0\n")
    assert (found.side, found.target, found.features) == (0, "Survived", ("Age", "Name"))
    doubts = {doubt.question: doubt.finding for doubt in find_doubts(found)}
    assert doubts["Missing values"] == "train: 1 cell (Age 1)"
    assert doubts["Equal rows"] == "2 training rows equal to another one"
    assert doubts["Equal rows, different answers"] == "1 row with more than one answer"
    assert "largest (0) 3.0 times" in doubts["Classes of uneven size"]
    with pytest.raises(UsageError, match="no pictures"):
        found.pictures()


def test_a_competition_without_tables_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no train\.csv"):
        read_problem("whales", tmp_path)


def test_the_submission_has_the_samples_form(tmp_path: Path) -> None:
    rows = [[n] * 16 for n in range(3)]
    found = problem(tmp_path, pixels(rows, "012"), pixels(rows), "Label,ImageId\n0,007\n0,008\n0,009\n")
    file = tmp_path / "submission.csv"
    assert write_submission(file, found, np.array([2, 1, 0])) == 3
    assert file.read_text() == "Label,ImageId\n2,007\n1,008\n0,009\n"
    with pytest.raises(UsageError, match="2 predictions for 3 test rows"):
        write_submission(file, found, np.array([2, 1]))


def test_predictions_follow_the_ids_of_the_test_table(tmp_path: Path) -> None:
    train = "Id,Age,Survived\n1,20,0\n2,30,1\n"
    found = problem(tmp_path, train, "Id,Age\n8,1\n9,2\n", "Id,Survived\n9,0\n8,0\n")
    write_submission(tmp_path / "s.csv", found, ["first", "second"])
    assert (tmp_path / "s.csv").read_text() == "Id,Survived\n9,second\n8,first\n"


# --- Pictures ---


def test_every_picture_is_drawn_and_described() -> None:
    inputs, truth = data(60)
    pictures = inputs[..., 0]
    guess = truth.copy()
    guess[:4] = (guess[:4] + 1) % 3
    history = [{"epoch": 1, "seconds": 1.0, "loss": 0.5, "accuracy": 0.8, "val_loss": None, "val_accuracy": 0.9}]
    cv = {"metric": "accuracy", "score": 0.9}
    runs = [{"created": f"2026-12-0{day}T10:00:00Z", "cv": cv, "lb": {"public": 0.8}} for day in (1, 2)]
    figures = [
        plots.samples(pictures, truth, each=3),
        plots.class_balance(truth),
        plots.class_balance(np.arange(50) // 2),
        plots.curves(history),
        plots.confusion(truth, guess),
        plots.mistakes(pictures, truth, guess, np.linspace(0, 1, 60)),
        plots.mistakes(pictures, truth, truth, np.ones(60)),
        plots.cv_lb(runs),
        plots.cv_lb([{"created": "", "cv": None}]),
    ]
    for figure in figures:
        assert plots.png(figure).startswith(b"\x89PNG")
        assert len(figure.get_label()) > 20
    assert "4 of 60 rows are wrong" in figures[4].get_label()
    with pytest.raises(UsageError):
        plots.curves([])
