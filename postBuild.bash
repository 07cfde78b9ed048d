#!/bin/bash
# Last step of the container's build, as the container's user; the project is not there. It fails when a framework
# of the image was moved, and readies what the container's user needs.
set -euo pipefail

freeze=${KWB_FREEZE_FOLDER:-/etc/kaggle-workbench}

if [ ! -f "$freeze/image.tsv" ]; then
    echo "postBuild.bash: preBuild.bash left no record of the image's frameworks; build with both files." >&2
    exit 1
fi

python3 "$freeze/survey.py" >"$freeze/built.tsv"
python3 - "$freeze/image.tsv" "$freeze/built.tsv" <<'PYTHON'
import sys


def read(path):
    with open(path, encoding="utf-8") as file:
        return [(line.rstrip("\n") + "\t\t\t").split("\t")[:4] for line in file]


def kept(rows, kind):
    found = {}
    for row_kind, name, what, folder in rows:
        if row_kind == kind:
            found.setdefault(name, set()).add((what, folder))
    return found


def said(entries):
    return " and ".join(f"{what} in {folder}" if folder else what for what, folder in sorted(entries))


image, built = read(sys.argv[1]), read(sys.argv[2])
faults, explained = [], set()
before, now = kept(image, "import"), kept(built, "import")
for name, entries in before.items():
    if now.get(name, set()) != entries:
        came = now.get(name, set()) - entries
        also = "also " if entries <= now.get(name, set()) else ""
        faults.append(f"In the image `import {name}` was {said(entries)}; now it is {also}{said(came) or 'gone'}.")
        explained.update(text.split()[0] for text, _ in entries | came)
        explained.add(name)
before, now = kept(image, "origin"), kept(built, "origin")
for name, entries in before.items():
    if now.get(name) != entries and name not in explained:
        came = said(now.get(name, set())) or "nowhere"
        faults.append(f"In the image `import {name}` came from {said(entries)}; now it comes from {came}.")
before, now = kept(image, "frozen"), kept(built, "frozen")
for name, entries in before.items():
    if now.get(name, set()) != entries and name not in explained:
        came = said(now.get(name, set())) or "gone"
        faults.append(f"In the image {name} was {said(entries)}; now it is {came}.")
moved = bool(faults)
for path in sorted(set(kept(built, "driver")) - set(kept(image, "driver"))):
    faults.append(f"The build put the driver library {path} into the image; it hides the host's, and no GPU is found.")
for fault in faults:
    print(f"postBuild.bash: {fault}", file=sys.stderr)
if moved:
    print(
        "postBuild.bash: The image's frameworks fit its CUDA and must stay as they are. Take out of requirements.txt "
        "or the build scripts what asks for the other one.",
        file=sys.stderr,
    )
if faults:
    sys.exit(1)
for driver in sorted(kept(image, "driver")):
    print(f"postBuild.bash: note: the base image holds a driver library of its own, {driver}; it may hide the host's.")
print("postBuild.bash: the image's frameworks are where they were.")
PYTHON

# `kwb` as a word in terminals; the package itself comes by PYTHONPATH (variables.env).
mkdir -p "$HOME/.local/bin"
printf '#!/bin/sh\nexec python3 -m kaggle_workbench "$@"\n' >"$HOME/.local/bin/kwb"
chmod 755 "$HOME/.local/bin/kwb"

# Mounted folders may belong to another id than this user's (Docker Desktop, WSL); git refuses those unasked.
if command -v git >/dev/null; then
    git config --global --replace-all safe.directory '*'
fi
