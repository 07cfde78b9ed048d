"""What computes, how many, and why: one decision from settings, driver, framework and proof."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from kaggle_workbench.devices import causes, choice, framework, nvml
from kaggle_workbench.devices.cpu import cpu_cores
from kaggle_workbench.devices.framework import FRAMEWORKS
from kaggle_workbench.devices.nvml import Gpu
from kaggle_workbench.errors import MissingError
from kaggle_workbench.settings import Settings
from kaggle_workbench.show import plural

ON = "To compute on the CPU: GPU_COUNT=0; or ALLOW_CPU=1, which tries the GPU again next time."


@dataclass(frozen=True)
class Decision:
    """What computes, how many, and why.

    Attributes:
        kind: "gpu" or "cpu".
        count: Number of GPUs, or of CPU cores this process may use.
        names: Names of the GPUs.
        reason: Why, in one sentence.
        nvml: GPUs the driver counts; None when it could not be asked.
        framework: GPUs the framework counts; None when it was not asked.
        proof_s: Seconds of the computation that proved it, on all devices; None when there was none.
        backend: The framework that computes; None when it was not asked.
        gpus: The GPUs that compute, with the driver's facts.
        avoid: The framework has devices that must not be used: computation has to be put on the CPU.
        each_s: Of `proof_s`, the seconds on each device.
    """

    kind: Literal["gpu", "cpu"]
    count: int
    names: tuple[str, ...]
    reason: str
    nvml: int | None = None
    framework: int | None = None
    proof_s: float | None = None
    backend: str | None = None
    gpus: tuple[Gpu, ...] = ()
    avoid: bool = False
    each_s: tuple[float, ...] = ()

    @property
    def line(self) -> str:
        """The decision in one line, as every training shows it."""
        if self.kind == "gpu":
            what = f"{plural(self.count, 'GPU')} ({', '.join(dict.fromkeys(self.names)) or 'unnamed'})"
        else:
            what = f"CPU ({plural(self.count, 'core')})"
        return f"{what}: {self.reason}"

    @property
    def capability(self) -> tuple[int, int] | None:
        """The lowest compute capability of the GPUs that compute; None on the CPU and when one is unknown."""
        known = [gpu.capability for gpu in self.gpus]
        return min((one for one in known if one), default=None) if all(known) else None

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain values for the record; of the GPUs only what does not tell whose they are."""
        facts = {**asdict(self), "names": list(self.names)}
        del facts["each_s"]
        private = ("uuid", "processes", "free", "utilisation")
        facts["gpus"] = [{k: v for k, v in gpu.to_dict().items() if k not in private} for gpu in self.gpus]
        return facts


@dataclass(frozen=True)
class _Found:
    """What was found before the framework is asked."""

    settings: Settings
    gpus: tuple[Gpu, ...]
    visible: tuple[Gpu, ...]
    trouble: str
    seen: int | None = None

    @property
    def backend(self) -> str:
        return self.settings.keras_backend

    @property
    def name(self) -> str:
        return FRAMEWORKS[self.backend]

    @property
    def nvml(self) -> int | None:
        return None if self.trouble else len(self.gpus)

    def on_cpu(self, reason: str, *, prove: bool = True, avoid: bool = False) -> Decision:
        if not prove:
            return Decision("cpu", cpu_cores(), (), reason, self.nvml, self.seen)
        other = framework.other_device(self.backend)
        if other and not avoid:
            # What is said to compute on the CPU must not compute elsewhere.
            reason = f"{reason}; the {other} that {self.name} would take by itself is not used"
        each_s = tuple(framework.prove(self.backend, "cpu", 1))
        decision = Decision("cpu", cpu_cores(), (), reason, self.nvml, self.seen, round(sum(each_s), 3), self.backend)
        return replace(decision, avoid=avoid or bool(other), each_s=each_s)


def decide(settings: Settings, *, prove: bool = True) -> Decision:
    """Find out what computes.

    Args:
        settings: Settings in force (GPU_COUNT, ALLOW_CPU, KERAS_BACKEND).
        prove: Ask the framework, which imports it, and let it compute something; without, only the driver and
            the installed packages' names are asked.

    Raises:
        MissingError: The driver does not work, driver and framework disagree, or the computation failed, and
            ALLOW_CPU is not set.
        UsageError: GPU_COUNT=0, but the framework holds a GPU already.
    """
    if settings.gpu_count == 0:
        return _by_request(settings, prove=prove)
    gpus, trouble = _driver(settings)
    # Usable are those that CUDA shows, and of them as many as are asked for.
    found = _Found(settings, gpus, choice.freest(choice.visible(gpus), settings.gpu_count), trouble)
    if not prove:
        return _unproved(found)
    found = replace(found, seen=_count(found))
    if _disagree(found):
        return _stop_or_go_on(found, _counts(found), "")
    if not found.seen:
        return found.on_cpu(_no_gpu(found))
    return _proved(found)


def _by_request(settings: Settings, *, prove: bool) -> Decision:
    found = _Found(settings, (), (), "the driver was not asked")
    if prove:
        choice.hide_gpus()
        # With every GPU hidden this makes no CUDA call; a framework that was imported before shows here.
        found = replace(found, seen=_count(found))
        if found.seen:
            raise choice.too_late(found.name, "GPU_COUNT is 0")
    return found.on_cpu("by request (GPU_COUNT=0)", prove=prove)


def _driver(settings: Settings) -> tuple[tuple[Gpu, ...], str]:
    """The driver's GPUs, and what is wrong with it ("" when nothing is)."""
    try:
        return nvml.driver_gpus(), ""
    except ModuleNotFoundError as error:
        trouble = "the driver could not be asked (nvidia-ml-py is not installed)"
        if nvml.has_driver() and not settings.allow_cpu:
            raise MissingError(
                "This machine has an NVIDIA driver, and its GPUs cannot be counted: nvidia-ml-py is not installed.",
                hint=f"Run: pip install nvidia-ml-py\n{ON}",
            ) from error
        return (), trouble
    except MissingError as error:
        if not settings.allow_cpu:
            raise
        return (), error.message.rstrip(".")


def _count(found: _Found) -> int:
    try:
        return framework.count(found.backend)
    except ModuleNotFoundError as error:
        if error.name != found.backend:
            raise
        raise not_installed(found.backend) from error


def not_installed(backend: str) -> MissingError:
    """The error for a framework that is not there, with what brings it."""
    extra = {"tensorflow": "cpu (or cuda, with an NVIDIA GPU)"}.get(backend, "frameworks")
    first = extra.split()[0]
    return MissingError(
        f"{FRAMEWORKS[backend]} is not installed in this environment.",
        hint=f"./kwb installs it by itself; with pip: pip install 'kaggle-workbench[local,{first}]'. "
        f"The extra for {FRAMEWORKS[backend]} is {extra}.",
    )


def _disagree(found: _Found) -> bool:
    if found.trouble:
        return False
    if any(gpu.split for gpu in found.visible):
        # CUDA shows one part of a GPU that is cut into parts, whatever their number.
        return not found.seen
    return found.seen != len(found.visible)


def _counts(found: _Found) -> str:
    return f"the driver has {plural(len(found.visible), 'usable GPU')}, {found.name} sees {found.seen}"


def _no_gpu(found: _Found) -> str:
    reason = choice.hidden_by(found.gpus) or found.trouble
    if not reason:
        reason = "no NVIDIA GPU here"
        if nvml.gpus_on_the_bus():
            reason = "an NVIDIA GPU is in this machine, but no driver for it"
    asked = found.settings.gpu_count
    return f"{plural(asked, 'GPU')} asked for, 0 there: {reason}" if asked else reason


def _proved(found: _Found, went_on: str = "") -> Decision:
    seen = found.seen or 0
    try:
        seconds = framework.prove(found.backend, "gpu", seen)
    except Exception as error:
        text = str(error).strip() or type(error).__name__
        return _stop_or_go_on(found, f"{found.name} sees {plural(seen, 'GPU')} but cannot compute there", text)
    parts = [went_on, found.trouble, _other_number(found, seen), _one_of(found, seen)]
    parts += [f"computed on each in {sum(seconds):.1f} s, equal to NumPy", causes.little_memory(found.visible)]
    used = 1 if found.backend == "torch" else seen
    gpus = found.visible[:used]
    names = tuple(gpu.name for gpu in gpus)
    reason = "; ".join(part for part in parts if part)
    proof_s = round(sum(seconds), 3)
    each_s = tuple(seconds)
    return Decision("gpu", used, names, reason, found.nvml, seen, proof_s, found.backend, gpus, each_s=each_s)


def _other_number(found: _Found, seen: int) -> str:
    asked = found.settings.gpu_count
    return f"{asked} asked for, {seen} there" if asked is not None and asked != seen else ""


def _one_of(found: _Found, seen: int) -> str:
    return f"one of {seen}, since Keras trains on one GPU with PyTorch" if found.backend == "torch" and seen > 1 else ""


def _stop_or_go_on(found: _Found, what: str, text: str) -> Decision:
    """Counts disagree (`text` is empty) or the computation failed: stop with the cause, or go on and say so."""
    settings, seen = found.settings, found.seen or 0
    # Where it sees some, but not those that are meant, it was most often loaded before they were chosen.
    hint = "Restart the kernel, so that the framework sees the GPUs that are meant; run: ./kwb gpus"
    if text or len(found.visible) > seen:
        built = _built(found)
        # Its own words are asked for only where it should see a GPU and could.
        words = text or (framework.own_words(found.backend) if built is None or built.cuda is not None else "")
        cause = causes.explain(found.backend, built, found.visible, words)
        what = f"{what}: {cause.sentence}"
        if text or not seen or cause.name != "unknown":
            hint = cause.hint
    if not settings.allow_cpu:
        raise MissingError(f"GPU trouble: {what}.", hint=f"{hint}\n{ON}")
    if seen and not text:
        return _proved(found, f"{what}; going on with what {found.name} sees (ALLOW_CPU)")
    return found.on_cpu(f"{what}; going on without (ALLOW_CPU)", avoid=bool(seen))


def _built(found: _Found) -> framework.Build | None:
    try:
        return framework.build(found.backend)
    except (AttributeError, KeyError, RuntimeError):
        return None


def _unproved(found: _Found) -> Decision:
    """By the driver and by the installed packages alone."""
    names = tuple(gpu.name for gpu in found.visible)
    if not found.visible:
        return found.on_cpu(_no_gpu(found), prove=False)
    if framework.cannot_use_gpus(found.backend):
        what = f"the driver has {plural(len(names), 'usable GPU')}, but this {found.name} is built for the CPU only"
        if not found.settings.allow_cpu:
            cause = causes.explain(found.backend, framework.Build(None), found.visible, "")
            raise MissingError(f"GPU trouble: {what}.", hint=f"{cause.hint}\n{ON}")
        return found.on_cpu(f"{what}; going on without (ALLOW_CPU)", prove=False)
    used = 1 if found.backend == "torch" else len(names)
    asked = f"as the driver counts, {found.name} was not asked"
    parts = [_other_number(found, len(names)), _one_of(found, len(names)), asked]
    reason = "; ".join(part for part in [*parts, causes.little_memory(found.visible)] if part)
    return Decision("gpu", used, names[:used], reason, found.nvml, gpus=found.visible[:used])
