"""How far a measurement is: a bar in a terminal, a line for each epoch elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from kaggle_workbench import show
from kaggle_workbench.summaries import span


class Shown:
    """Shows one target's events; use it with `with`.

    Args:
        title: What is measured.
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self.bar: Any = None

    def __enter__(self) -> Shown:
        show.note(f"Measuring {self.title}")
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()

    def __call__(self, event: Mapping[str, Any]) -> None:
        """Show one event of the child."""
        kind = event["event"]
        if kind == "said":
            self._line(f"  {event['text']}")
            return
        if self.bar is None and sys.stderr.isatty():
            self.bar = show.progress(event["total"], "  steps", "step")
        if self.bar is not None:
            self.bar.update(event["done"] - self.bar.n)
        if kind == "epoch":
            tried = f", dev accuracy {event['accuracy']:.4f}" if event["whole"] else ""
            left = f", about {span(event['left_s'])} left" if event["done"] < event["total"] else ""
            self._line(
                f"  {'epoch' if event['whole'] else 'block'} {event['epoch']} of {event['epochs']}: "
                f"{show.plural(event['steps'], 'step')} in {event['seconds']:.1f} s{tried}{left}"
            )

    def _line(self, text: str) -> None:
        if self.bar is None:
            show.note(text)
        else:
            # Above the bar, which goes on below.
            self.bar.write(text, file=sys.stderr)
