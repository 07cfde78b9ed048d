#!/bin/bash
# First step of the container's build, before apt.txt and requirements.txt. It runs as the container's user with
# sudo; the project is not there yet. It keeps the image's frameworks where they are: pip gets a constraint with
# their versions, and postBuild.bash compares the end of the build with the beginning.
set -euo pipefail

freeze=${KWB_FREEZE_FOLDER:-/etc/kaggle-workbench}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

# A folder of this user's own, even below another's home.
own_folder() {
    if mkdir -p "$1" 2>/dev/null && [ -w "$1" ]; then return; fi
    as_root mkdir -p "$1"
    as_root chown -R "$(id -u):$(id -g)" "$1"
    local above=$1
    while [ "$above" != / ]; do
        above=$(dirname "$above")
        [ -x "$above" ] || as_root chmod a+x "$above"
    done
}

# Kaggle's image sets PYTHONUSERBASE=/root/.local for everybody: without this, `pip install --user` fails.
own_folder "$(python3 -m site --user-base)"
own_folder "$HOME"
own_folder "$freeze"

if [ -n "${PIP_CONSTRAINT:-}" ]; then
    echo "preBuild.bash: the image sets PIP_CONSTRAINT=$PIP_CONSTRAINT, which hides the constraint that keeps its" \
        "frameworks. Choose an image without it." >&2
    exit 1
fi

# Prints, sorted, what stands in Python's folders: frozen distributions, who answers `import tensorflow` and the
# like, and NVIDIA driver libraries that are part of the image. postBuild.bash runs it again.
cat >"$freeze/survey.py" <<'PYTHON'
import importlib.metadata
import importlib.util
import os
import re

IMPORTS = ("tensorflow", "keras", "tf_keras", "jax", "jaxlib", "torch", "torchvision", "torchaudio", "numpy", "cupy")
FROZEN = re.compile(
    r"(intel-)?tensorflow(-.+)?|tf-nightly.*|tf-keras.*|tensorboard|keras(-nightly)?|jax(lib)?|jax-.+"
    r"|torch|torchvision|torchaudio|(pytorch-)?triton|numpy|ml-dtypes"
    r"|nvidia-(?!ml-py$).+|cuda-.+|.+-cu1\d"
)
VERSION = re.compile(r"\d[0-9A-Za-z.+!_-]*")
DRIVER = re.compile(r"lib(cuda|nvidia-ml)\.so(\.\d+)*")
LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/local/nvidia")


def answers(distribution, name):
    if name in (distribution.read_text("top_level.txt") or "").split():
        return True
    return re.search(rf"^{name}/__init__\.py,", distribution.read_text("RECORD") or "", re.MULTILINE) is not None


def distributions():
    for distribution in importlib.metadata.distributions():
        name, version = distribution.metadata["Name"], distribution.version
        if name and version:
            yield re.sub(r"[-_.]+", "-", name).lower(), version, distribution


def drivers():
    # What an engine lends to the build (a mount, its empty mount point, a link to it) is not part of the image.
    with open("/proc/self/mountinfo") as file:
        lent = {line.split()[4] for line in file}
    for top in {os.path.realpath(folder) for folder in LIBRARIES}:
        for folder, folders, files in os.walk(top):
            # Link-time stubs and CUDA's forward compatibility belong there; Python's packages hold none.
            folders[:] = [name for name in folders if name not in ("stubs", "compat") and name[:6] != "python"]
            for path in (os.path.join(folder, name) for name in files if DRIVER.fullmatch(name)):
                if path not in lent and not os.path.islink(path) and os.path.getsize(path):
                    yield path


rows, seen = set(), set()
for name, version, distribution in distributions():
    folder = str(distribution.locate_file(""))
    answered = [imported for imported in IMPORTS if answers(distribution, imported)]
    rows.update(("import", imported, f"{name} {version}", folder) for imported in answered)
    # Debian's and Kaggle's folders may hold the same package twice; Python takes the first, and so does pip.
    if (answered or FROZEN.fullmatch(name)) and VERSION.fullmatch(version) and name not in seen:
        rows.add(("frozen", name, version, folder))
    seen.add(name)
for imported in IMPORTS:
    spec = importlib.util.find_spec(imported)
    if spec and spec.origin:
        rows.add(("origin", imported, spec.origin, ""))
rows.update(("driver", path, "", "") for path in drivers())
for row in sorted(rows):
    print("\t".join(row).rstrip("\t"))
PYTHON

python3 "$freeze/survey.py" >"$freeze/image.tsv"
awk -F '\t' '$1 == "frozen" { print $2 "==" $3 }' "$freeze/image.tsv" | sort -u >"$freeze/constraints.txt"
python3 -m pip config --user set global.constraint "$freeze/constraints.txt" >/dev/null

if [ -s "$freeze/constraints.txt" ]; then
    echo "preBuild.bash: frozen at the image's versions:"
    sed 's/^/  /' "$freeze/constraints.txt"
else
    echo "preBuild.bash: the image holds no framework, so there is nothing to freeze."
fi
