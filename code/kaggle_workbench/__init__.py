"""Kaggle Workbench: a competition from data to leaderboard, in one container and everywhere the same."""

__version__ = "0.1.0"
