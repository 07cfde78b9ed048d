"""Private datasets of this account: made, renewed, and waited for."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kaggle_workbench.kaggle_api.errors import (
    DeniedError,
    GoneError,
    KaggleError,
    TimeLimitError,
    UnexpectedError,
    UploadError,
)
from kaggle_workbench.show import note

if TYPE_CHECKING:
    from kaggle_workbench.kaggle_api.client import Client

METADATA_FILE = "dataset-metadata.json"
READY_S = 900.0
POLL_S = 5.0


def send(client: Client, ref: str, folder: Path, notes: str) -> None:
    """Make a folder's files a private dataset, or the newest version of one.

    Args:
        client: The connection.
        ref: "owner/slug", the slug of 6 to 50 characters.
        folder: Files without subfolders; the metadata is written beside them.
        notes: What is new, for the version's page.

    Raises:
        DeniedError: The service refused.
        KaggleError: Any other fault.
    """
    slug = ref.rpartition("/")[2]
    document = {"id": ref, "title": slug, "licenses": [{"name": "other"}], "isPrivate": True}
    (folder / METADATA_FILE).write_text(json.dumps(document), encoding="utf-8")
    size = sum(file.stat().st_size for file in folder.iterdir())
    limit_s = 2 * client.pace.call_s + size / client.pace.upload_bytes_per_s
    call = "version_dataset" if status(client, ref) else "create_dataset"
    try:
        answer = client.call(call, tries=1, waits=False, limit_s=limit_s, folder=str(folder.resolve()), notes=notes)
    except UnexpectedError as error:
        if "unsuccessful" not in error.reason.lower():
            raise
        # The client's own words for storage that refuses a file.
        raise UploadError(
            f"The files of the dataset {ref} did not get through; nothing was started.",
            hint="Check the network connection, then push again.",
            reason=error.reason,
        ) from error
    if answer.get("error") or str(answer.get("status", "ok")).lower() not in ("ok", ""):
        reason = str(answer.get("error") or answer.get("status"))
        raise DeniedError(
            f'{client.label} refused the dataset {ref}; nothing was started. It says: "{reason.rstrip(".")}."',
            hint=f"Look at {client.endpoint.web}/datasets for what is there under that name.",
            reason=reason,
        )


def status(client: Client, ref: str) -> str:
    """The service's word, such as "ready"; "" when there is no such dataset."""
    try:
        return str(client.call("dataset_status", dataset=ref)).lower()
    except (GoneError, DeniedError):
        return ""


def wait_ready(client: Client, ref: str, *, limit_s: float = READY_S, poll_s: float = POLL_S) -> None:
    """Wait until a dataset can be attached; a new one is processed first.

    Raises:
        DeniedError: Its processing failed.
        TimeLimitError: It takes too long.
    """
    ends, said = time.monotonic() + limit_s, False
    while True:
        now = status(client, ref)
        if now == "ready":
            return
        if now in ("failed", "deleted"):
            raise DeniedError(f"{client.label} could not process the dataset {ref}.", hint="Push again.")
        if time.monotonic() > ends:
            raise TimeLimitError(
                f"The dataset {ref} is not ready after {limit_s / 60:.0f} min.",
                hint=f"See {client.endpoint.web}/datasets/{ref}, then push again.",
            )
        if not said:
            note(f"Waiting until {client.label} has processed the dataset {ref} ...")
            said = True
        time.sleep(poll_s)


def owner(client: Client) -> str:
    """The account's name.

    Raises:
        KaggleError: It is not known.
    """
    name = str(client.call("whoami"))
    if not name:
        raise KaggleError("The account's name is not known.", hint="Set KAGGLE_USERNAME.")
    return name
