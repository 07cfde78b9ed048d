"""The container's variables: variables.env and secrets.env as Docker reads them, and what `kwb up` decides.

As in AI Workbench, secrets are variables of the running container; they are in no image, no label
and on no command line.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from kaggle_workbench.container.gpus import GpuDecision
from kaggle_workbench.container.mounts import SETTING_OF_TARGET
from kaggle_workbench.container.spec_model import Spec
from kaggle_workbench.settings import SECRET_NAMES, SECRETS_FILE, SETTINGS, VARIABLES_FILE, Settings


@dataclass(frozen=True)
class Variables:
    """Variables of a container, secrets apart.

    Attributes:
        plain: Values that may be shown.
        secret: Values that may not.
        missing: Secrets that the spec declares and nobody gave.
    """

    plain: dict[str, str]
    secret: dict[str, str] = field(repr=False)
    missing: tuple[str, ...] = ()

    def merged(self) -> dict[str, str]:
        """All of them, as the engine takes them."""
        return {**self.plain, **self.secret}


def collect(spec: Spec, settings: Settings, gpu: GpuDecision) -> Variables:
    """Gather the variables of a container.

    The caller's environment wins over secrets.env and this over variables.env, as everywhere; only
    settings and declared secrets are taken from it.
    """
    root = settings.root or Path.cwd()
    declared = [secret.variable for secret in spec.execution.secrets]
    secret_names = {*SECRET_NAMES, *declared}
    plain = read_as_docker(root / VARIABLES_FILE)
    secret = read_as_docker(root / SECRETS_FILE)
    plain |= {name: os.environ[name] for name in SETTINGS if name not in secret_names and os.environ.get(name)}
    secret |= {name: os.environ[name] for name in sorted(secret_names) if os.environ.get(name)}
    # A name that holds a secret is one wherever it stands.
    secret |= {name: plain.pop(name) for name in sorted(secret_names) if name in plain}
    plain = {name: value for name, value in plain.items() if value and name not in secret}
    secret = {name: value for name, value in secret.items() if value}
    plain |= _decided(spec, plain, gpu)
    return Variables(plain, secret, tuple(name for name in declared if name not in secret))


def read_as_docker(path: Path) -> dict[str, str]:
    """An env-file by Docker's rules: split at the first "=", the rest of the line is the value, unchanged.

    A malformed line has been refused when the settings were read.
    """
    if not path.is_file():
        return {}
    values = {}
    for line in path.read_text(encoding="utf-8-sig").splitlines():
        entry = line.lstrip()
        if entry and not entry.startswith("#"):
            name, _, value = entry.partition("=")
            values[name] = value
    return values


def _decided(spec: Spec, plain: dict[str, str], gpu: GpuDecision) -> dict[str, str]:
    decided = {"KWB_PLACE": "container"}
    # Inside, the folders are where the spec mounts them, whatever they are called on this machine.
    for mount in spec.host_mounts:
        name = SETTING_OF_TARGET.get(mount.target.rstrip("/"))
        if name and name in plain:
            decided[name] = mount.target.rstrip("/")
    if gpu.given == 0 or "GPU_COUNT" in plain:
        decided["GPU_COUNT"] = str(gpu.given)
    return decided
