"""Stores: any fsspec address as a place for checkpoints and a run's files. The only importer of fsspec."""

from kaggle_workbench.stores.address import masked, secrets_in
from kaggle_workbench.stores.store import Entry, NotStoredError, Store, open_store
from kaggle_workbench.stores.uploader import Uploader

__all__ = ["Entry", "NotStoredError", "Store", "Uploader", "masked", "open_store", "secrets_in"]
