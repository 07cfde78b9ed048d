"""Run records for people: listings, one record told in full, several compared, CV against the leaderboard."""

from __future__ import annotations

from kaggle_workbench.summaries.comparison import Comparison, compare
from kaggle_workbench.summaries.details import details
from kaggle_workbench.summaries.listing import SORTS, chosen, groups, sort, table
from kaggle_workbench.summaries.parting import partings
from kaggle_workbench.summaries.row import span, summary, told

__all__ = [
    "SORTS",
    "Comparison",
    "chosen",
    "compare",
    "details",
    "groups",
    "partings",
    "sort",
    "span",
    "summary",
    "table",
    "told",
]
