"""Everything `kwb up` decides before it touches the engine; `--dry-run` prints it."""

from __future__ import annotations

import hmac
import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from kaggle_workbench.container.board import board_app
from kaggle_workbench.container.containerfile import user_name
from kaggle_workbench.container.engine import Bind, ContainerRequest, Engine
from kaggle_workbench.container.environment import Variables, collect
from kaggle_workbench.container.folders import Owner, owner_of
from kaggle_workbench.container.gpus import GpuDecision, asked_for, count_present, decide
from kaggle_workbench.container.image import Recipe, recipe
from kaggle_workbench.container.jupyter import lab_app
from kaggle_workbench.container.mounts import HostMount, choose, other_binds
from kaggle_workbench.container.running import COMPUTES_LABEL, PARTS_LABEL, PROJECT_LABEL, ROOT_LABEL
from kaggle_workbench.container.spec import read_spec
from kaggle_workbench.container.spec_model import App, Spec
from kaggle_workbench.container.state import Machine, State
from kaggle_workbench.errors import UsageError
from kaggle_workbench.settings import ROOT_MARK, Settings, load_settings

SPEC_BASE = "spec"


@dataclass(frozen=True)
class Options:
    """What the command line says; None or empty means "not given".

    Attributes:
        gpus: Number of GPUs, 0 for the CPU.
        input: Folder of this machine for competition data.
        output: Folder of this machine for runs.
        mounts: `DIR:TARGET` for other host mounts of the spec.
        base: Image instead of the spec's; `spec` goes back to it.
        port: JupyterLab's port on 127.0.0.1.
    """

    gpus: int | None = None
    input: str | None = None
    output: str | None = None
    mounts: Sequence[str] = ()
    base: str | None = None
    port: int | None = None


@dataclass(frozen=True)
class Plan:
    """One start of the container, decided but not done."""

    root: Path
    spec: Spec
    app: App
    board: App | None
    settings: Settings
    state: State
    machine: Machine
    owner: Owner
    mounts: list[HostMount]
    binds: list[Bind]
    gpu: GpuDecision
    recipe: Recipe
    variables: Variables = field(repr=False)
    port: int | None = None

    @property
    def name(self) -> str:
        """The container's name, `project-<name>`, unless another project on this machine has it."""
        return self.recipe.repository

    @property
    def inner_port(self) -> int:
        """JupyterLab's port inside."""
        return self.app.port or 0

    @property
    def board_port(self) -> int | None:
        """TensorBoard's port inside; None when the spec has no such app."""
        return self.board.port if self.board else None

    def ports(self, lab: int | None, board: int | None) -> dict[int, int | None]:
        """Port inside -> port on 127.0.0.1, None for a free one."""
        return {self.inner_port: lab} | ({self.board_port: board} if self.board_port else {})

    def labels(self, token: str) -> dict[str, str]:
        """Labels by which the container is found again and its age told."""
        return {
            PROJECT_LABEL: self.state.project_id,
            ROOT_LABEL: str(self.root),
            PARTS_LABEL: json.dumps(self.parts(token)),
            COMPUTES_LABEL: self.gpu.line,
        }

    def parts(self, token: str) -> dict[str, str]:
        """A fingerprint of each part of the container; a part that differs means a restart.

        Keyed with the token, so that nobody can guess a short secret from its fingerprint.
        """
        meta, execution = self.spec.meta, self.spec.execution
        parts: dict[str, Any] = {
            "the image": self.recipe.content_id,
            ".project/spec.yaml": [meta.name, repr(self.spec.apps), repr(execution)],
            "variables": {name: value for name, value in self.variables.plain.items() if name != "GPU_COUNT"},
            "secrets": self.variables.secret,
            "the mounts": [repr(bind) for bind in self.all_binds()],
            "the GPUs": [self.gpu.given, self.gpu.route, self.variables.plain.get("GPU_COUNT")],
            "the port": self.port,
            "TensorBoard's port": self.board_port,
        }
        return {name: _fingerprint(token, part) for name, part in parts.items()}

    def all_binds(self) -> list[Bind]:
        """All mounts, outermost first."""
        return [*(mount.bind() for mount in self.mounts), *self.binds]

    def request(self, token: str, *, name: str, ports: dict[int, int | None], gpu: GpuDecision) -> ContainerRequest:
        """What the engine creates the container from."""
        variables = self.variables.merged()
        if gpu.given == 0:
            variables["GPU_COUNT"] = "0"
        return ContainerRequest(
            image=self.recipe.tag,
            name=name,
            user=user_name(self.spec, self.owner),
            environment=variables,
            labels={**self.labels(token), COMPUTES_LABEL: gpu.line},
            mounts=self.all_binds(),
            ports=ports,
            shm_mb=self.spec.execution.resources.shared_memory_mb,
            gpus=gpu.given,
            gpu_route=gpu.route,
        )

    def run_line(self) -> str:
        """The equivalent `docker run` line; secrets by name only."""
        words = ["docker", "run", "--detach", "--name", self.name, "--user", user_name(self.spec, self.owner)]
        if self.spec.execution.resources.shared_memory_mb:
            words += ["--shm-size", f"{self.spec.execution.resources.shared_memory_mb}m"]
        if self.gpu.given:
            cdi = [word for number in range(self.gpu.given) for word in ("--device", f"nvidia.com/gpu={number}")]
            words += cdi if self.gpu.route == "cdi" else ["--gpus", str(self.gpu.given)]
        for inner, outer in self.ports(self.port, None).items():
            words += ["--publish", f"127.0.0.1:{outer or ''}:{inner}"]
        for bind in self.all_binds():
            source = f",source={bind.source}" if bind.source else ""
            words += ["--mount", f"type={bind.kind}{source},target={bind.target}{',readonly' * bind.read_only}"]
        for name, value in sorted(self.variables.plain.items()):
            words += ["--env", f"{name}={value}"]
        for name in sorted(self.variables.secret):
            words += ["--env", name]
        return " ".join(shlex.quote(word) for word in [*words, self.recipe.tag])

    def to_dict(self) -> dict[str, Any]:
        """The plan as a document (secrets by name only)."""
        ports = self.ports(self.port, None).items()
        return {
            "project": self.spec.meta.name,
            "root": str(self.root),
            "container": self.name,
            "image": self.recipe.tag,
            "base": self.recipe.base,
            "user": {"name": user_name(self.spec, self.owner), "uid": self.owner.uid, "gid": self.owner.gid},
            "gpu": {"asked": self.gpu.asked.count, "given": self.gpu.given, "line": self.gpu.line},
            "shared_memory_mb": self.spec.execution.resources.shared_memory_mb,
            "ports": [
                {"app": app.name, "inside": inner, "host": f"127.0.0.1:{outer or '(a free one)'}"}
                for app, (inner, outer) in zip(filter(None, (self.app, self.board)), ports, strict=True)
            ],
            "mounts": [
                {"target": bind.target, "source": bind.source or "(temporary)", "type": bind.kind, "from": origin}
                for bind, origin in zip(self.all_binds(), self._origins(), strict=True)
            ],
            "variables": self.variables.plain,
            "secrets": sorted(self.variables.secret),
            "secrets_without_value": list(self.variables.missing),
            "containerfile": self.recipe.containerfile,
            "run": self.run_line(),
        }

    def _origins(self) -> list[str]:
        return [*(mount.origin for mount in self.mounts), *(".project/spec.yaml" for _ in self.binds)]


def make_plan(root: Path, options: Options, engine: Engine | None) -> Plan:
    """Decide everything about a start; nothing is made, built or started.

    Args:
        root: The project's folder.
        options: The command line.
        engine: The engine; None when none answers (a dry run).

    Raises:
        UsageError: Spec, settings, options or build files that cannot be used.
        MissingError: A folder that is not there.
    """
    spec = read_spec(root / ROOT_MARK)
    settings = load_settings(start=root)
    app = lab_app(spec)
    state = State(root)
    machine = state.load()
    given = _given_mounts(options)
    mounts = choose(spec, settings, given, machine.mounts)
    machine.mounts |= {mount.target: str(mount.source) for mount in mounts if mount.target in given}
    if options.base is not None:
        machine.base = "" if options.base == SPEC_BASE else options.base
    owner = owner_of(root)
    if engine is not None and engine.is_rootless and not engine.is_podman:
        # A rootless Docker shows this user's files as root's inside, and the other way round.
        owner = Owner(0, 0)
    ask = asked_for(spec, settings, options.gpus)
    gpu = decide(ask, engine, *(count_present() if ask.count else (0, "")))
    return Plan(
        root=root,
        spec=spec,
        app=app,
        board=board_app(spec),
        settings=settings,
        state=state,
        machine=machine,
        owner=owner,
        mounts=mounts,
        binds=other_binds(spec, f"project-{spec.meta.name}"),
        gpu=gpu,
        recipe=recipe(root, spec, owner=owner, base=machine.base),
        variables=collect(spec, settings, gpu),
        port=_port(options.port),
    )


def describe(plan: Plan) -> str:
    """The plan for people."""
    from kaggle_workbench.show import table

    document = plan.to_dict()
    variables = [{"variable": name, "value": value} for name, value in sorted(plan.variables.plain.items())]
    variables += [{"variable": name, "value": "(secret)"} for name in sorted(plan.variables.secret)]
    variables += [{"variable": name, "value": "(secret, no value)"} for name in plan.variables.missing]
    user = document["user"]
    return "\n".join(
        [
            f"Project {document['project']} in {document['root']}",
            f"Image {document['image']} on {document['base']}, container {document['container']}, "
            f"user {user['name']} ({user['uid']}:{user['gid']})",
            plan.gpu.line,
            "",
            "Containerfile",
            "-------------",
            plan.recipe.containerfile,
            table(document["mounts"]),
            "",
            table(document["ports"]),
            "",
            table(variables),
            "",
            "The same with Docker's own command, once the image is built:",
            document["run"],
        ]
    )


def _given_mounts(options: Options) -> dict[str, str]:
    given = {}
    if options.input is not None:
        given["/project/data/input"] = options.input
    if options.output is not None:
        given["/project/data/output"] = options.output
    for text in options.mounts:
        # The last ":/" parts them, so that a drive's colon stays with the folder.
        source, colon, target = text.rpartition(":/")
        if not colon or not source:
            raise UsageError(f"--mount {text!r} is not DIR:/TARGET/.", hint="For example: --mount ~/models:/models/")
        given["/" + target.strip("/")] = source
    return given


def _port(port: int | None) -> int | None:
    if port is not None and not 1 <= port <= 65535:
        raise UsageError(f"--port {port} is not a port.", hint="Use a number from 1024 to 65535, or leave it out.")
    return port


def _fingerprint(token: str, part: Any) -> str:
    text = json.dumps(part, sort_keys=True, default=str)
    return hmac.new(token.encode(), text.encode(), sha256).hexdigest()[:16]
