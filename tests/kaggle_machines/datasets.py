"""DatasetApiService and BlobApiService: uploads, datasets, their versions and downloads."""

from __future__ import annotations

import hashlib
import secrets
import shutil
import tarfile
import time
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flask import Response, request

from kaggle_workbench.arena.answers import ApiError, page, when, whole, wire

from .asked import KAGGLE, Asked
from .state import Blob, Dataset, DatasetVersion, World

DENIED = "Permission 'datasets.get' was denied"
ZIP_TIME = (2026, 1, 1, 0, 0, 0)


def start_upload(asked: Asked) -> dict[str, Any]:
    """B/StartBlobUpload: a place for one file."""
    name, size = asked.text("name"), whole(asked.body, "contentLength")
    if not name or "/" in name or name in (".", ".."):
        raise ApiError(400, f"{name!r} is not a usable file name.")
    token = secrets.token_urlsafe(24)
    key = hashlib.sha256(token.encode()).hexdigest()
    path = asked.world.folder / "blobs" / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    asked.world.blobs[key] = Blob(key, name, size, path)
    return wire(token=token, create_url=asked.call.signed("PUT", f"/machines/blobs/{key}"))


def receive(world: World, key: str) -> Response:
    """PUT of a blob: all at once, or the rest after a break (`Content-Range`), as Google's storage takes it."""
    blob = world.blobs.get(key)
    if blob is None or blob.used:
        raise ApiError(404, "Not found")
    have = blob.path.stat().st_size
    where = request.headers.get("Content-Range", "")
    if where.startswith("bytes */"):
        if blob.done:
            return Response(status=200)
        return Response(status=308, headers={"Range": f"bytes=0-{have - 1}"} if have else {})
    start = int(where.removeprefix("bytes ").partition("-")[0]) if where else 0
    if start > have:
        raise ApiError(400, "A part is missing before this one.")
    with blob.path.open("r+b") as file:
        file.truncate(start)
        file.seek(start)
        while chunk := request.stream.read(1 << 20):
            file.write(chunk)
    blob.done = blob.path.stat().st_size == blob.size
    return Response(status=201 if blob.done else 503)


def create_dataset(asked: Asked) -> dict[str, Any]:
    """D/CreateDataset: the first version."""
    world, owner, slug = asked.world, asked.text("ownerSlug"), asked.text("slug")
    title = asked.text("title")
    if owner != asked.call.who:
        raise ApiError(403, "Permission 'datasets.create' was denied")
    if not 6 <= len(slug) <= 50 or not 6 <= len(title) <= 50:
        return wire(status="error", error="Slug and title must have 6 to 50 characters.")
    with world.lock:
        if f"{owner}/{slug}" in world.datasets:
            return wire(status="error", error=f'The requested slug "{slug}" is already in use by a dataset.')
        if any(each.title == title for each in world.datasets.values()):
            return wire(status="error", error="The requested title is already in use by a dataset.")
        licence, private = asked.text("licenseName"), bool(asked.body.get("isPrivate"))
        dataset = Dataset(world.number(), owner, slug, title, licence, private)
        _add(asked, dataset, asked.body.get("files", []), "Initial release")
        world.datasets[dataset.ref] = dataset
    return wire(ref=f"/datasets/{dataset.ref}", url=f"{KAGGLE}/datasets/{dataset.ref}", status="ok")


def create_version(asked: Asked) -> dict[str, Any]:
    """D/CreateDatasetVersion: holds what was uploaded this time, and nothing else."""
    dataset = _dataset(asked)
    body = asked.body.get("body", {})
    with asked.world.lock:
        if body.get("deleteOldVersions"):
            dataset.versions = dataset.versions[-1:]
        _add(asked, dataset, body.get("files", []), str(body.get("versionNotes", "")))
    return wire(ref=f"/datasets/{dataset.ref}", url=f"{KAGGLE}/datasets/{dataset.ref}", status="ok")


def get_status(asked: Asked) -> dict[str, Any]:
    """D/GetDatasetStatus: of the newest version."""
    return wire(status=_dataset(asked).versions[-1].status(time.time()))


def get_dataset(asked: Asked) -> dict[str, Any]:
    """D/GetDataset."""
    dataset = _dataset(asked)
    return wire(
        id=dataset.id,
        ref=dataset.ref,
        title=dataset.title,
        is_private=dataset.private,
        license_name=dataset.licence,
        current_version_number=dataset.versions[-1].number,
        last_updated=when(dataset.versions[-1].made),
    )


def get_metadata(asked: Asked) -> dict[str, Any]:
    """D/GetDatasetMetadata."""
    dataset = _dataset(asked)
    info = wire(
        dataset_id=dataset.id,
        dataset_slug=dataset.slug,
        owner_user=dataset.owner,
        title=dataset.title,
        is_private=dataset.private,
        licenses=[{"name": dataset.licence}],
    )
    return {"info": info}


def list_files(asked: Asked) -> dict[str, Any]:
    """D/ListDatasetFiles."""
    version = _usable(asked)
    rows, following = page(_files(version.folder), asked.body)
    files = [
        wire(name=name, total_bytes=(version.folder / name).stat().st_size, creation_date=when(version.made))
        for name in rows
    ]
    return wire(dataset_files=files, next_page_token=following)


def list_datasets(asked: Asked) -> dict[str, Any]:
    """D/ListDatasets: the caller's own."""
    found = [each for each in asked.world.datasets.values() if each.owner == asked.call.who]
    wanted = asked.text("search").lower()
    found = [each for each in found if wanted in f"{each.slug} {each.title}".lower()]
    rows, following = page(found, asked.body)
    return wire(
        datasets=[wire(id=each.id, ref=each.ref, title=each.title, is_private=each.private) for each in rows],
        next_page_token=following,
    )


def download(asked: Asked) -> Response:
    """D/DownloadDataset: redirect to a zip of all, or to one file."""
    dataset, version = _dataset(asked), _usable(asked)
    base = f"/machines/datasets/{dataset.owner}/{dataset.slug}/{version.number}"
    name = asked.text("fileName")
    if name and name not in _files(version.folder):
        raise ApiError(404, "Not found")
    return asked.call.to_storage(f"{base}/files/{name}" if name else f"{base}/all/{dataset.slug}.zip")


def delete_dataset(asked: Asked) -> dict[str, Any]:
    """D/DeleteDataset."""
    dataset = _dataset(asked)
    del asked.world.datasets[dataset.ref]
    return {}


def stored(world: World, ref: str, number: int, name: str) -> Path:
    """A file for storage: the zip of a version (`name` ""), or one of its files.

    Raises:
        ApiError: There is none (404).
    """
    dataset = world.datasets.get(ref)
    found = [each for each in dataset.versions if each.number == number] if dataset else []
    if not found:
        raise ApiError(404, "Not found")
    version = found[0]
    if name:
        if name not in _files(version.folder):
            raise ApiError(404, "Not found")
        return version.folder / name
    path = version.folder.with_suffix(".zip")
    with world.lock:
        if not path.exists():
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
                for each in _files(version.folder):
                    archive.writestr(zipfile.ZipInfo(each, ZIP_TIME), (version.folder / each).read_bytes())
    return path


def _dataset(asked: Asked) -> Dataset:
    slug = asked.text("datasetSlug") or asked.text("slug")
    found = asked.world.datasets.get(f"{asked.text('ownerSlug')}/{slug}")
    if found is None or (found.private and found.owner != asked.call.who):
        raise ApiError(403, DENIED)
    return found


def _usable(asked: Asked) -> DatasetVersion:
    """The version that is asked for, by default the newest that is ready; 403 as long as there is none."""
    dataset, now = _dataset(asked), time.time()
    number = whole(asked.body, "datasetVersionNumber")
    if number:
        found = [each for each in dataset.versions if each.number == number and each.status(now) == "READY"]
        version = found[0] if found else None
    else:
        version = dataset.newest_ready(now)
    if version is None:
        raise ApiError(403, DENIED)
    return version


def _add(asked: Asked, dataset: Dataset, files: Any, notes: str) -> None:
    world, now = asked.world, time.time()
    number = dataset.versions[-1].number + 1 if dataset.versions else 1
    blobs = []
    for each in files:
        blob = world.blobs.get(hashlib.sha256(str(each.get("token", "")).encode()).hexdigest())
        if blob is None or blob.used or not blob.done:
            raise ApiError(400, "An uploaded file is unknown, incomplete, or was used before.")
        blobs.append(blob)
    folder = world.folder / "datasets" / dataset.owner / dataset.slug / str(number)
    folder.mkdir(parents=True)
    for blob in blobs:
        _place(blob, folder, unpack=world.options.archives == "unpacked")
        blob.used = True
    dataset.versions.append(DatasetVersion(number, folder, now, now + world.options.dataset_processing_s, notes))


def _place(blob: Blob, folder: Path, *, unpack: bool) -> None:
    """Archives are unpacked into a folder of their name; a folder that the client packed becomes one again."""
    name = Path(blob.name)
    if unpack and name.suffix in (".zip", ".tar"):
        inside = folder / name.stem
        inside.mkdir()
        if name.suffix == ".zip":
            with zipfile.ZipFile(blob.path) as archive:
                archive.extractall(inside)
        else:
            with tarfile.open(blob.path) as tar:
                tar.extractall(inside, filter="data")
        blob.path.unlink()
    else:
        shutil.move(blob.path, folder / name)


def _files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


METHODS: Mapping[str, Callable[[Asked], dict[str, Any] | Response]] = {
    "CreateDataset": create_dataset,
    "CreateDatasetVersion": create_version,
    "GetDatasetStatus": get_status,
    "GetDataset": get_dataset,
    "GetDatasetMetadata": get_metadata,
    "ListDatasetFiles": list_files,
    "ListDatasets": list_datasets,
    "DownloadDataset": download,
    "DeleteDataset": delete_dataset,
}
BLOBS: Mapping[str, Callable[[Asked], dict[str, Any] | Response]] = {"StartBlobUpload": start_upload}
