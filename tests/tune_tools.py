"""A project whose training is tiny: the real session, checkpoints and record, a network of a few weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat

from arena_tools import tiny_competition
from project_tools import Project, make_project

PARAMETERS = """SEED = None
EPOCHS = None
RUN_ID = None
RATE = 0.01  # search: 0.001..0.1 log
UNITS = 4  # search: 2, 4, 8
FAIL = False
"""

# Each training notes when it begins and when it is done, for tests that count.
TRAINING = """
import os, time, pathlib
import numpy as np
import keras
from kaggle_workbench import open_stage, training

stage = open_stage("train", SEED=SEED, EPOCHS=EPOCHS, RUN_ID=RUN_ID)
if FAIL:
    raise ValueError("this one fails")
keras.utils.set_random_seed(stage.settings.seed)
random = np.random.default_rng(0)
x = random.random((64, 4), dtype="float32")
y = (x.sum(axis=1) > 2).astype("int32")
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(UNITS, "relu"), keras.layers.Dense(2, "softmax")])
model.compile(optimizer=keras.optimizers.Adam(RATE), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
gate = stage.run.folder.parent.parent / "gate"

def wait(epoch, logs):
    # The first trials pass; the others stop in their middle as long as the gate is there.
    while epoch == 2 and gate.exists() and int(stage.run.id.rpartition("-t")[2]) >= 3:
        time.sleep(0.02)

wait = keras.callbacks.LambdaCallback(on_epoch_begin=wait)
batches = training.Batches(x, y, 16, seed=0)
model.fit(batches, epochs=stage.settings.epochs, validation_data=(x, y), verbose=0,
          callbacks=[wait, *training.callbacks(stage, batches)])
"""
SCORE = """
stage.score(y, model.predict(x, verbose=0).argmax(axis=1))
stage.finish()
"""


def tuning_project(folder: Path, env: Mapping[str, str] | None = None) -> Project:
    """A project whose 02-train learns in a second; its trials are as slow as WAIT says.

    A file `gate` in its output folder holds every trial from the fourth on after two epochs.
    """
    clean = {
        "SOURCE": "practice",
        "COMPETITION": "tiny-digits",
        "EPOCHS": "2",
        "TF_NUM_INTRAOP_THREADS": "1",
        **(env or {}),
    }
    project = make_project(folder, env=clean)
    tiny_competition(project.hosted, "tiny-digits", rows=40, test_rows=20, side=8)
    parts = [nbformat.v4.new_code_cell(source) for source in (PARAMETERS, TRAINING, SCORE)]
    parts[0].metadata["tags"] = ["parameters"]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    document = nbformat.v4.new_notebook(
        cells=parts, metadata={"kernelspec": kernel, "language_info": {"name": "python"}}
    )
    nbformat.write(document, project.folder / "code" / "02-train.ipynb")
    return project


def records(project: Project, study: str) -> dict[str, dict[str, Any]]:
    """The records of a study's runs, by name."""
    files = project.output.glob(f"runs/{study}-t*/record.json")
    return {file.parent.name: json.loads(file.read_text()) for file in files}
