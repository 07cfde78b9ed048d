"""Run records for people: listings, one record told in full, several compared, CV against the leaderboard."""

from __future__ import annotations

from kaggle_workbench.summaries.comparison import Comparison, compare
from kaggle_workbench.summaries.details import details
from kaggle_workbench.summaries.listing import SORTS, chosen, groups, sort, table
from kaggle_workbench.summaries.parting import partings
from kaggle_workbench.summaries.row import computes, reached, span, summary, told

__all__ = [
    "SORTS",
    "Comparison",
    "chosen",
    "compare",
    "computes",
    "details",
    "groups",
    "partings",
    "reached",
    "sort",
    "span",
    "summary",
    "table",
    "told",
]
