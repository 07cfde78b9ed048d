"""Which TensorFlow `./kwb` installs here: the CUDA build for a GPU that it supports, else the CPU build.

Run by ./kwb as `python -m kaggle_workbench.devices.build`: prints the extra to install on stdout, and why on stderr.
"""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass

from kaggle_workbench.devices import nvml
from kaggle_workbench.errors import MissingError, WorkbenchError
from kaggle_workbench.settings import Settings, load_settings

# TensorFlow's wheels hold code for GPUs from here on (tf.sysconfig.get_build_info() of 2.21: sm_60 to sm_89, and
# compute_90 for later ones), and are built with CUDA 12, which every driver that serves a CUDA 12 runs.
CAPABILITY_FROM = (6, 0)
CUDA_FROM = 12
MACHINES = ("x86_64", "aarch64")


@dataclass(frozen=True)
class Build:
    """The extra of pyproject.toml to install, "cpu" or "cuda", and why."""

    extra: str
    reason: str


def choose(settings: Settings) -> Build:
    """The build for this machine; TENSORFLOW_BUILD overrides."""
    if settings.tensorflow_build != "auto":
        origin = settings.origins.get("TENSORFLOW_BUILD", "the settings")
        return Build(settings.tensorflow_build, f"as TENSORFLOW_BUILD says, in {origin}")
    try:
        gpus = nvml.driver_gpus()
    except (MissingError, ModuleNotFoundError) as error:
        return Build("cpu", f"since GPUs cannot be counted: {error}".splitlines()[0].rstrip("."))
    if not gpus:
        return Build("cpu", "since there is no NVIDIA GPU here")
    if platform.system() != "Linux" or platform.machine() not in MACHINES:
        return Build("cpu", f"since TensorFlow has no CUDA build for {platform.system()} on {platform.machine()}")
    served = gpus[0].cuda
    if served and int(served.split(".")[0]) < CUDA_FROM:
        return Build("cpu", f"since the driver {gpus[0].driver} serves CUDA {served}, and {CUDA_FROM}.0 is needed")
    fitting = [gpu for gpu in gpus if gpu.capability is None or gpu.capability >= CAPABILITY_FROM]
    if not fitting:
        least = ".".join(map(str, CAPABILITY_FROM))
        return Build("cpu", f"since TensorFlow has no code for the {gpus[0].name} (compute capability below {least})")
    return Build("cuda", f"for the {fitting[0].name}")


def main() -> int:
    """Print the extra on stdout and the sentence on stderr."""
    try:
        build = choose(load_settings())
    except WorkbenchError as error:
        print(f"kwb: {error.message}", file=sys.stderr)
        for line in error.hint.splitlines():
            print(f"     {line}", file=sys.stderr)
        return error.exit_code
    name = "CUDA build (several GB)" if build.extra == "cuda" else "CPU build"
    print(f"kwb: TensorFlow's {name}, {build.reason}; TENSORFLOW_BUILD chooses", file=sys.stderr)
    print(build.extra)
    return 0


if __name__ == "__main__":
    sys.exit(main())
