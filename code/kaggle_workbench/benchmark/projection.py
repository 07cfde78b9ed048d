"""The time of the whole fit from a few hundred steps of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from kaggle_workbench.benchmark.workload import Workload

WARM_UP_STEPS = 30
# Blocks in a round; all steps of a round are steps of one epoch.
BLOCKS = 6
MOST_ROUNDS = 3
# Enough to average out a busy machine's moods, and to stay under two minutes with all that comes before and after.
BUDGET_S = 70.0
MOST_EPOCHS = 8
LEAST_STEPS = 10
LEAST_BLOCKS = 3
# A pass forward costs about a third of a training step.
FORWARD_SHARE = 1 / 3


@dataclass(frozen=True)
class Block:
    """A measured piece of training and the pass over the held-back rows after it; times in seconds."""

    steps: int
    train_s: float
    dev_s: float
    train_cpu_s: float
    dev_cpu_s: float

    def epoch_s(self, workload: Workload) -> float:
        """What an epoch takes when all of it goes as this block."""
        return workload.steps * self.train_s / self.steps + self.dev_s


@dataclass(frozen=True)
class Plan:
    """How the measuring is cut.

    Attributes:
        rounds: Calls of `fit`.
        blocks: Pieces in a round, each followed by a whole pass over the held-back rows.
        steps: Training steps in a block; None means whole epochs.
    """

    rounds: int
    blocks: int
    steps: int | None


def plan(step_s: float, workload: Workload, *, budget_s: float = BUDGET_S) -> Plan:
    """Cut the measuring by what a step took in the warm-up.

    Fast devices run whole epochs, since there what happens between epochs counts, too; slow ones run pieces of an
    epoch.

    Args:
        step_s: Seconds of a step.
        workload: What is projected.
        budget_s: Seconds that the measuring may take.
    """
    dev_s = -(-workload.dev_rows // workload.batch_size) * step_s * FORWARD_SHARE
    epoch_s = workload.steps * step_s + dev_s
    if LEAST_BLOCKS * epoch_s <= budget_s:
        return Plan(1, min(MOST_EPOCHS, int(budget_s / epoch_s)), None)
    most = max(1, workload.steps // BLOCKS)
    round_s = BLOCKS * (most * step_s + dev_s)
    if round_s <= budget_s:
        return Plan(min(MOST_ROUNDS, int(budget_s / round_s)), BLOCKS, most)
    steps = int((budget_s / BLOCKS - dev_s) / step_s)
    return Plan(1, BLOCKS, min(most, max(LEAST_STEPS, steps)))


def project(blocks: Sequence[Block], workload: Workload, *, compile_s: float, compile_cpu_s: float) -> dict[str, Any]:
    """The whole fit: compilation, then `epochs` times (all steps and a pass over the held-back rows).

    The median block stands for all: a machine that was busy for a moment does not move it. The spread is what
    the fastest and the slowest block would give.

    Args:
        blocks: At least one.
        workload: What is projected.
        compile_s: Seconds of the first step, with building and compiling.
        compile_cpu_s: CPU seconds of it.

    Returns:
        `wall_s`, `wall_low_s`, `wall_high_s`, `cpu_s`, `epoch_s`, in seconds.
    """
    step_s = median(block.train_s / block.steps for block in blocks)
    dev_s = median(block.dev_s for block in blocks)
    epoch_s = workload.steps * step_s + dev_s
    each = [block.epoch_s(workload) for block in blocks]
    step_cpu_s = median(block.train_cpu_s / block.steps for block in blocks)
    dev_cpu_s = median(block.dev_cpu_s for block in blocks)
    return {
        "wall_s": compile_s + workload.epochs * epoch_s,
        "wall_low_s": compile_s + workload.epochs * min(each),
        "wall_high_s": compile_s + workload.epochs * max(each),
        "cpu_s": compile_cpu_s + workload.epochs * (workload.steps * step_cpu_s + dev_cpu_s),
        "epoch_s": epoch_s,
    }
