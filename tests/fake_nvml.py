"""A small NVML of our own: a C library that counts and describes as many GPUs as it is told.

No test machine has a GPU, so the driver's library is the one part that is made up; who asks it is the real
nvidia-ml-py. It reads variables of the environment at each call, so that what it says can change meanwhile.
"""

from __future__ import annotations

import ctypes
import functools
import subprocess
import tempfile
from pathlib import Path

MISMATCH, LOST, UNKNOWN, NO_PERMISSION, NOT_LOADED = 18, 15, 999, 4, 9

_SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned int gpu, memory; } rates_t;
typedef struct { unsigned int pid; unsigned long long used; unsigned int gpu, compute; } process_t;
enum { OK = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, IS_LOST = 15 };
static int asked[64];

/* The n-th word of a variable such as "7.5;8.0"; its last word serves for all behind it. */
static const char *word(const char *name, unsigned n, const char *otherwise) {
    static char kept[16][200];
    static int next = 0;
    const char *text = getenv(name);
    if (!text || !*text) return otherwise;
    for (; n; n--) {
        const char *more = strchr(text, ';');
        if (!more) break;
        text = more + 1;
    }
    char *found = kept[next++ % 16];
    snprintf(found, 200, "%s", text);
    found[strcspn(found, ";")] = 0;
    return found;
}
static unsigned index_of(void *device) { return (unsigned)(size_t)device - 1; }
static int gpus(void) { return atoi(word("FAKE_GPUS", 0, "0")); }
/* FAKE_NVML_LOST="1" : GPU 1 is lost; "1:3": from the third time on that its memory is asked for. */
static int lost(unsigned index, int counts) {
    const char *text = getenv("FAKE_NVML_LOST");
    if (!text || !*text || (unsigned)atoi(text) != index) return 0;
    const char *from = strchr(text, ':');
    if (counts) asked[index]++;
    return !from || asked[index] >= atoi(from + 1);
}
static int silent(void) { return getenv("FAKE_NVML_SILENT") != NULL; }

int nvmlInit_v2(void) { return atoi(word("FAKE_NVML_INIT", 0, "0")); }
int nvmlInitWithFlags(unsigned flags) { return nvmlInit_v2(); }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { return "made up"; }
int nvmlSystemGetDriverVersion(char *text, unsigned length) {
    snprintf(text, length, "%s", word("FAKE_NVML_DRIVER", 0, "570.86.15"));
    return OK;
}
int nvmlSystemGetCudaDriverVersion(int *version) { *version = atoi(word("FAKE_NVML_CUDA", 0, "12080")); return OK; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = gpus(); return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    if (lost(index, 0)) return IS_LOST;
    *device = (void *)(size_t)(index + 1);
    return index < (unsigned)gpus() ? OK : NOT_FOUND;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
    unsigned index = (unsigned)(uuid[strlen(uuid) - 1] - '1');
    return nvmlDeviceGetHandleByIndex_v2(index, device);
}
int nvmlDeviceGetName(void *device, char *name, unsigned length) {
    snprintf(name, length, "%s", word("FAKE_NVML_NAME", index_of(device), "Made Up T4"));
    return OK;
}
int nvmlDeviceGetUUID(void *device, char *uuid, unsigned length) {
    snprintf(uuid, length, "GPU-00000000-0000-0000-0000-00000000000%u", index_of(device) + 1);
    return OK;
}
int nvmlDeviceGetMemoryInfo(void *device, memory_t *memory) {
    if (lost(index_of(device), 1)) return IS_LOST;
    if (silent()) return NOT_SUPPORTED;
    memory->total = 16000000000ULL;
    memory->free = strtoull(word("FAKE_NVML_FREE", index_of(device), "15000000000"), 0, 10);
    memory->used = memory->total - memory->free;
    return OK;
}
int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor) {
    return sscanf(word("FAKE_NVML_CAPABILITY", index_of(device), "7.5"), "%d.%d", major, minor) == 2 && !silent()
        ? OK : NOT_SUPPORTED;
}
int nvmlDeviceGetNumGpuCores(void *device, unsigned *cores) {
    *cores = atoi(word("FAKE_NVML_CORES", index_of(device), "2560"));
    return silent() ? NOT_SUPPORTED : OK;
}
int nvmlDeviceGetMaxClockInfo(void *device, int kind, unsigned *mhz) {
    *mhz = kind == 2 ? 5001 : 1590;
    return silent() ? NOT_SUPPORTED : OK;
}
int nvmlDeviceGetUtilizationRates(void *device, rates_t *rates) {
    rates->gpu = atoi(word("FAKE_NVML_BUSY", index_of(device), "40"));
    rates->memory = 10;
    return silent() ? NOT_SUPPORTED : OK;
}
int nvmlDeviceGetMigMode(void *device, unsigned *current, unsigned *pending) {
    *current = *pending = atoi(word("FAKE_NVML_MIG", index_of(device), "0"));
    return silent() ? NOT_SUPPORTED : OK;
}
/* FAKE_NVML_PROCESS="0:1234:14000000000": on GPU 0 process 1234 holds so many bytes. */
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, process_t *found) {
    unsigned index = 0, pid = 0;
    unsigned long long used = 0;
    const char *text = getenv("FAKE_NVML_PROCESS");
    if (silent()) return NOT_SUPPORTED;
    int there = text && sscanf(text, "%u:%u:%llu", &index, &pid, &used) == 3 && index == index_of(device);
    if (there && *count < 1) { *count = 1; return TOO_SMALL; }
    if (there) { found[0].pid = pid; found[0].used = used; }
    *count = there;
    return OK;
}
"""


@functools.cache
def library() -> Path:
    """The library, built once a process."""
    folder = Path(tempfile.mkdtemp(prefix="fake-nvml-"))
    build(folder, "libnvidia-ml.so.1", _SOURCE)
    return folder / "libnvidia-ml.so.1"


def build(folder: Path, name: str, source: str) -> Path:
    """Compile C into a shared library of this name."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.c").write_text(source)
    words = ["cc", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", str(folder / name), str(folder / f"{name}.c")]
    subprocess.run(words, check=True)
    return folder / name


def environment(folder: Path, gpus: int) -> dict[str, str]:
    """Variables under which a process counts `gpus` GPUs."""
    if not (folder / "libnvidia-ml.so.1").exists():
        build(folder, "libnvidia-ml.so.1", _SOURCE)
    return {"LD_LIBRARY_PATH": str(folder), "FAKE_GPUS": str(gpus)}


@functools.cache
def load() -> ctypes.CDLL:
    """Load it into this process; whoever asks the system for the driver's library by name gets this one."""
    return ctypes.CDLL(str(library()), mode=ctypes.RTLD_GLOBAL)
