"""01-data: the competition's files, fetched and doubted."""

from __future__ import annotations

from kaggle_workbench import show
from kaggle_workbench.competition.doubts import find_doubts
from kaggle_workbench.files import human_bytes
from kaggle_workbench.stages.cards import Card, Grid
from kaggle_workbench.stages.stage import Stage, executed


class DataStage(Stage):
    """The stage of 01-data."""

    name = "data"
    next = "Next: 02-train fits models to these data."

    def download(self) -> Grid:
        """Have the competition's files on this disk; only what is missing is fetched."""
        files = self.files
        rows = [
            {"file": file.name, "size": human_bytes(file.size), "SHA-256": file.sha256[:12]} for file in files.files
        ]
        title = f"{show.plural(len(files.files), 'file')} in {self.short(files.folder)}"
        return Grid(title, rows, ["Downloaded just now." if files.fetched else "Already here, and whole."], "good")

    def overview(self) -> Card:
        """What was read; said in the terminal, too, when `kwb run` executes the notebook."""
        card = super().overview()
        if executed():
            print(card)
        return card

    def doubts(self) -> Grid:
        """What to doubt in the data before training on them."""
        found = find_doubts(self.problem)
        rows = [{"": "✓" if doubt.ok else "?", "question": doubt.question, "answer": doubt.finding} for doubt in found]
        open_ = sum(not doubt.ok for doubt in found)
        title = f"{show.plural(open_, 'doubt')} about the data" if open_ else "No doubts about the data"
        if executed():
            print("\n".join([title, *(f"  {doubt.question}: {doubt.finding}" for doubt in found if not doubt.ok)]))
        return Grid(title, rows, mood="plain" if open_ else "good")
