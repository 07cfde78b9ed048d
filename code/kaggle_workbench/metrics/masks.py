"""Metrics of masks written as run-length text: "start length start length ...", pixels counted from 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaggle_workbench.errors import UsageError
from kaggle_workbench.metrics.metric import pair

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

# What stands for "nothing here".
EMPTY = ("", "-1", "nan", "-")


def dice(solution: ArrayLike, submission: ArrayLike) -> float:
    """Dice coefficient of each row's mask, averaged: 2 |both| / (|true| + |predicted|); two empty masks agree (1).

    Raises:
        UsageError: A cell is no run-length text: pairs of whole numbers, each start after the run before.
    """
    import numpy as np

    true, guess = pair(np.asarray(solution).astype(str), np.asarray(submission).astype(str), columns=1)
    total = 0.0
    for row, (one, other) in enumerate(zip(true.tolist(), guess.tolist(), strict=True), 1):
        real, said = runs(one, f"row {row} of the solution"), runs(other, f"row {row} of the submission")
        size = sum(end - start for start, end in real) + sum(end - start for start, end in said)
        total += 2 * _shared(real, said) / size if size else 1.0
    return total / len(true)


def runs(text: str, where: str) -> list[tuple[int, int]]:
    """Half-open runs of pixels, in order.

    Args:
        text: Run-length text; "", "-1" and "-" are the empty mask.
        where: For the message.

    Raises:
        UsageError: It is none.
    """
    if text.strip().lower() in EMPTY:
        return []
    words = text.split()
    if len(words) % 2 or not all(word.isascii() and word.isdigit() for word in words):
        raise UsageError(f"{where}: {text[:40]!r} is no run-length text (pairs of start and length).")
    found = [(int(start), int(start) + int(length)) for start, length in zip(words[::2], words[1::2], strict=True)]
    for (start, end), before in zip(found, [(0, 1), *found], strict=False):
        if start < before[1] or end <= start:
            raise UsageError(f"{where}: the run at {start} begins before the last one ends, or is empty.")
    return found


def _shared(first: list[tuple[int, int]], second: list[tuple[int, int]]) -> int:
    """Pixels in both, by walking along both lists."""
    one = other = total = 0
    while one < len(first) and other < len(second):
        start = max(first[one][0], second[other][0])
        end = min(first[one][1], second[other][1])
        total += max(0, end - start)
        if first[one][1] < second[other][1]:
            one += 1
        else:
            other += 1
    return total
