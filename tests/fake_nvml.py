"""A small NVML of our own: a C library that counts as many GPUs as it is told.

No test machine has a GPU, so the driver's library is the one part that is made up; who asks it is real.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

_SOURCE = r"""
#include <stdlib.h>
#include <string.h>
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned int version; unsigned long long total, reserved, free, used; } memory_v2_t;
int nvmlInit_v2(void) { return 0; }
int nvmlInitWithFlags(unsigned int flags) { return 0; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { return "made up"; }
int nvmlDeviceGetCount_v2(unsigned int *count) { *count = atoi(getenv("FAKE_GPUS")); return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device) {
    *device = (void *)(size_t)(index + 1);
    return 0;
}
int nvmlDeviceGetName(void *device, char *name, unsigned int length) { strncpy(name, "Made Up T4", length); return 0; }
int nvmlDeviceGetUUID(void *device, char *uuid, unsigned int length) {
    strncpy(uuid, "GPU-00000000-0000-0000-0000-00000000000x", length);
    uuid[39] = (char)('0' + (size_t)device);
    return 0;
}
int nvmlDeviceGetMemoryInfo(void *device, memory_t *memory) {
    memory->total = 16000000000ULL; memory->free = 15000000000ULL; memory->used = 1000000000ULL;
    return 0;
}
int nvmlDeviceGetMemoryInfo_v2(void *device, memory_v2_t *memory) {
    memory->total = 16000000000ULL; memory->reserved = 0; memory->free = 15000000000ULL; memory->used = 1000000000ULL;
    return 0;
}
"""


def environment(folder: Path, gpus: int) -> dict[str, str]:
    """Variables under which a process counts `gpus` GPUs."""
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / "libnvidia-ml.so.1"
    if not library.exists():
        source = folder / "nvml.c"
        source.write_text(_SOURCE)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    return {"LD_LIBRARY_PATH": str(folder), "FAKE_GPUS": str(gpus)}
