"""Rules for a spec alone: versions, names, base image, layout, resources and secrets.

Strengths follow what is known of AI Workbench: an error is what it refuses or what is plainly wrong, a
warning what works today and hurts later. Apps have `app_rules`, mounts `mount_rules`, and what
needs the project's other files is in `project_rules`.
"""

from __future__ import annotations

import re

from kaggle_workbench.container.app_rules import check_apps
from kaggle_workbench.container.findings import Mark
from kaggle_workbench.container.mount_rules import check_mounts
from kaggle_workbench.container.pasted import find_pasted
from kaggle_workbench.container.spec_model import (
    LAYOUT_STORAGES,
    LAYOUT_TYPES,
    NEWEST_MINOR,
)
from kaggle_workbench.container.spec_read import Document

_REGISTRY = re.compile(r"(nvcr\.io|docker\.io|gcr\.io|ghcr\.io|quay\.io|registry\.gitlab\.com)/")


def check_spec(document: Document) -> None:
    """Apply all rules that need nothing but the spec; findings go into the document."""
    _pasted(document)
    if not document.readable or not _versions(document):
        return
    _meta(document)
    _layout(document)
    _base(document)
    _compose(document)
    check_apps(document)
    _resources(document)
    _secrets(document)
    check_mounts(document)


def _versions(document: Document) -> bool:
    """Whether the file is of a version whose keys are known."""
    spec = document.spec
    if spec.spec_version == "v1":
        document.warn(
            "old-version",
            Mark(),
            "This is the format of 2022 and 2023 (v1); whether today's AI Workbench still reads it is not known, "
            "and nothing more of this file was checked.",
            "Write the file anew as v2 (AI Workbench does so when it saves the project).",
        )
        return False
    if not document.has("specVersion"):
        document.error(
            "spec-version", "", "specVersion is missing.", "Write specVersion: v2 and specMinorVersion: 2 at the top."
        )
    elif spec.spec_version != "v2":
        document.error(
            "spec-version", "specVersion", f"specVersion {spec.spec_version!r} is not known.", "Write specVersion: v2."
        )
    minor = spec.spec_minor_version
    if minor > NEWEST_MINOR:
        document.error(
            "spec-minor",
            "specMinorVersion",
            f"specMinorVersion {minor} is newer than the newest one known here ({NEWEST_MINOR}).",
            f"Write {NEWEST_MINOR}, or check the file with a newer kwb.",
        )
    elif minor < 0:
        document.error("spec-minor", "specMinorVersion", f"specMinorVersion is {minor}.", f"Write {NEWEST_MINOR}.")
    _newer_fields(document, minor)
    return True


def _newer_fields(document: Document, minor: int) -> None:
    since = {"logfile_path": 1, "timeout_seconds": 1, "compose_file_path": 2}
    for path, place in sorted(document.key_marks.items()):
        name = path.rpartition(".")[2]
        known = since.get(name, 0) if path.startswith(("execution.apps[", "environment.")) else 0
        if document.has("specVersion") and known > minor:
            document.warn(
                "newer-field",
                place,
                f"{path} came with minor version {known}; the file says {minor}.",
                f"Write specMinorVersion: {NEWEST_MINOR}.",
            )
        if name == "is_root" and minor > 0:
            document.warn("old-field", place, f"{path} went away with minor version 1.", "Delete the line.")


def _meta(document: Document) -> None:
    meta = document.spec.meta
    if not meta.name:
        document.error("meta-name", "meta.name", "meta.name is missing.", "Write a name of letters, digits, - and _.")
    elif not re.fullmatch(r"[A-Za-z0-9_-]+", meta.name):
        document.error(
            "meta-name",
            "meta.name",
            f"meta.name {meta.name!r} holds other characters than letters, digits, - and _.",
            f"Write {re.sub(r'[^A-Za-z0-9_-]+', '-', meta.name).strip('-') or 'my-project'}.",
        )
    wanted = f"project-{meta.name.lower()}"
    if meta.name and meta.image != wanted:
        document.warn(
            "image-name",
            "meta.image",
            f"meta.image is {meta.image!r}; for a project called {meta.name} AI Workbench itself writes {wanted}.",
            f"Write image: {wanted} (the image is then built anew under that name).",
        )
    if document.has("meta.createdOn") and not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", meta.created_on):
        document.warn(
            "created-on",
            "meta.createdOn",
            f"meta.createdOn {meta.created_on!r} is not a UTC time.",
            'Write it as "2025-01-31T12:00:00Z".',
        )


def _layout(document: Document) -> None:
    for index, entry in enumerate(document.spec.layout):
        at = f"layout[{index}]"
        for field, value, allowed in (("type", entry.type, LAYOUT_TYPES), ("storage", entry.storage, LAYOUT_STORAGES)):
            if value not in allowed:
                document.error(
                    f"layout-{field}",
                    f"{at}.{field}",
                    f"The layout entry for {entry.path or '(no path)'} has {field} {value!r}.",
                    "Write one of " + ", ".join(allowed) + ".",
                )
        if not entry.path or entry.path.startswith("/") or ".." in entry.path.split("/"):
            document.error(
                "layout-path",
                f"{at}.path",
                f"The layout path {entry.path!r} is not a folder below the project.",
                "Write a relative path, such as code/.",
            )
        elif not entry.path.endswith("/"):
            document.warn(
                "layout-slash",
                f"{at}.path",
                f"The layout path {entry.path} has no / at its end.",
                f"Write {entry.path}/.",
            )


def _base(document: Document) -> None:
    base, at = document.spec.environment.base, "environment.base"
    if not document.has(at):
        document.error(
            "base-missing",
            at,
            "environment.base is missing, so there is no image to build on.",
            "Write environment.base with registry, image, os, os_distro, os_distro_release and schema_version.",
        )
        return
    for field, value in (("registry", base.registry), ("image", base.image)):
        if not value:
            document.error(
                "base-missing",
                f"{at}.{field}",
                f"{at}.{field} is missing.",
                "Write the registry (gcr.io) and, without it, the image (kaggle-gpu-images/python:v170).",
            )
    for field, value in (("os", base.os), ("os_distro", base.os_distro), ("os_distro_release", base.os_distro_release)):
        if not value:
            document.error(
                "base-os",
                f"{at}.{field}",
                f"{at}.{field} is missing; AI Workbench refuses an image without it.",
                'Write os: linux, os_distro: ubuntu, os_distro_release: "22.04", as the image has them.',
            )
    _image(document)
    if not base.description:
        document.warn(
            "base-description",
            f"{at}.description",
            f"{at}.description is empty; AI Workbench has refused or mishandled such projects.",
            "Describe the image in a few words.",
        )
    if base.schema_version not in ("", "v2"):
        document.error(
            "schema-version",
            f"{at}.schema_version",
            f"{at}.schema_version is {base.schema_version!r} in a spec of version v2.",
            "Write schema_version: v2.",
        )
    elif not base.schema_version:
        document.warn(
            "schema-version", f"{at}.schema_version", f"{at}.schema_version is empty.", "Write schema_version: v2."
        )
    if base.build_timestamp and not re.fullmatch(r"\d{14}", base.build_timestamp):
        document.warn(
            "build-timestamp",
            f"{at}.build_timestamp",
            f"{at}.build_timestamp {base.build_timestamp!r} is not 14 digits (YYYYMMDDHHMMSS).",
            'Write "" when it is not known.',
        )
    for field, value in (("uid", base.user_info.uid), ("gid", base.user_info.gid)):
        if value and not value.isdecimal():
            document.warn(
                "user-id",
                f"{at}.user_info.{field}",
                f"{at}.user_info.{field} {value!r} is not a number.",
                "Write the number the image's user really has, in quotes.",
            )


def _image(document: Document) -> None:
    base, at = document.spec.environment.base, "environment.base.image"
    repeated = _REGISTRY.match(base.image)
    if (base.registry and base.image.startswith(f"{base.registry}/")) or repeated:
        written = base.registry if base.image.startswith(f"{base.registry}/") else base.image.split("/")[0]
        document.error(
            "registry-repeated",
            at,
            f"The image begins with the registry {written}, so the full name would be {base.reference}.",
            f"Write image: {base.image.removeprefix(written + '/')}.",
        )
    if not base.image or "@sha256:" in base.image:
        return
    if not base.tag:
        document.warn(
            "image-tag",
            at,
            f"The image {base.image} has no tag, which means latest, and that moves.",
            f"Name a version: {base.image}:VERSION.",
        )
    elif base.tag == "latest":
        document.warn(
            "image-tag",
            at,
            f"The image {base.image} is named by the tag latest, which moves; a later build can break.",
            f"Name a version: {base.image.removesuffix('latest')}VERSION.",
        )


def _compose(document: Document) -> None:
    path = document.spec.environment.compose_file_path
    if path.startswith("/"):
        document.error(
            "compose-absolute",
            "environment.compose_file_path",
            f"compose_file_path {path} is absolute.",
            f"Write it relative to the project: {path.removeprefix('/project/').lstrip('/')}.",
        )


def _resources(document: Document) -> None:
    resources = document.spec.execution.resources
    for path, value in (
        ("execution.resources.gpu.requested", resources.gpu.requested),
        ("execution.resources.sharedMemoryMB", resources.shared_memory_mb),
    ):
        if value < 0:
            document.error("negative", path, f"{path} is {value}.", "Write a whole number from 0.")


def _secrets(document: Document) -> None:
    names = [secret.variable for secret in document.spec.execution.secrets]
    for index, name in enumerate(names):
        at = f"execution.secrets[{index}].variable"
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            document.error(
                "secret-name",
                at,
                f"The secret's variable {name!r} cannot be a variable's name.",
                f"Write {re.sub(r'[^A-Za-z0-9_]', '_', name) or 'MY_SECRET'}.",
            )
        elif name in names[:index]:
            document.error("secret-twice", at, f"The secret {name} is listed twice.", "Delete one of the two.")


def _pasted(document: Document) -> None:
    for mark, kind in find_pasted(document.text):
        document.error(
            "pasted-key",
            mark,
            f"This looks like a real {kind}; git would keep it for ever.",
            "Delete it here, revoke it where it was made, and type the new one in as the secret's value.",
        )
