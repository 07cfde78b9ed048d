"""The Kaggle gateway: the only room that imports `kaggle`, and only in a process of its own."""

from kaggle_workbench.kaggle_api.client import Client, Pace, partial
from kaggle_workbench.kaggle_api.credentials import Credentials, find_credentials
from kaggle_workbench.kaggle_api.endpoint import Endpoint, kaggle_endpoint, local_endpoint
from kaggle_workbench.kaggle_api.errors import KaggleError
from kaggle_workbench.kaggle_api.types import Competition, LeaderboardRow, Limits, RemoteFile, Submission

__all__ = [
    "Client",
    "Competition",
    "Credentials",
    "Endpoint",
    "KaggleError",
    "LeaderboardRow",
    "Limits",
    "Pace",
    "RemoteFile",
    "Submission",
    "find_credentials",
    "kaggle_endpoint",
    "local_endpoint",
    "partial",
]
