"""Checkpoints: everything a training needs to go on, in one file with a checksum; NumPy only, no pickle."""

from kaggle_workbench.checkpoints.checkpoint import Checkpoint, DamagedError, read, write
from kaggle_workbench.checkpoints.folder import CheckpointFolder
from kaggle_workbench.checkpoints.lock import TrainingLock, release
from kaggle_workbench.checkpoints.writer import BackgroundWriter

__all__ = [
    "BackgroundWriter",
    "Checkpoint",
    "CheckpointFolder",
    "DamagedError",
    "TrainingLock",
    "read",
    "release",
    "write",
]
