"""The Containerfile: the steps AI Workbench's own builds take, as one deterministic text.

Order: user, preBuild.bash, entry point, apt.txt, requirements.txt, postBuild.bash. It must build
with Docker's classic builder and with Podman, so it uses nothing of BuildKit (`COPY --chmod`); the
entry point's mode comes from the build context.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping

from kaggle_workbench.container.folders import Owner
from kaggle_workbench.container.spec_model import Spec
from kaggle_workbench.errors import UsageError

BUILD_FOLDER = "/opt/project/build"
BUILD_FILES = ("preBuild.bash", "apt.txt", "requirements.txt", "postBuild.bash")
USER = "workbench"


def says_something(text: str) -> bool:
    """Whether a build file holds more than comments and blank lines."""
    return any(line.strip() and not line.strip().startswith("#") for line in text.splitlines())


def user_name(spec: Spec, owner: Owner) -> str:
    """The container's user: the image's own where it has one, `workbench` otherwise, root for uid 0."""
    own = spec.environment.base.user_info.username
    return "root" if owner.uid == 0 else own if own not in ("", "root") else USER


def render(spec: Spec, files: Mapping[str, str], *, base: str, owner: Owner) -> str:
    """The text of the Containerfile.

    Args:
        spec: The project's spec.
        files: The build files that the project has, by name; one that says nothing is left out.
        base: Image to build on.
        owner: Ids of the user inside: those of the host's user.

    Raises:
        UsageError: A line of apt.txt that is not a package's name.
    """
    name = user_name(spec, owner)
    said = {file for file, text in files.items() if says_something(text)}
    lines = [
        "# Made by `kwb up` from .project/spec.yaml and the build files; the same input gives the same text.",
        f"FROM {base}",
        f"WORKDIR {BUILD_FOLDER}/",
        'SHELL ["/bin/bash", "-c"]',
        "USER root",
        "",
        "# 1. The user, with the ids of the host's user, so that files on the mounts are his.",
        *_user(spec, name, owner),
        _apt("sudo", "gosu", if_missing=True),
        f"RUN printf '%s\\tALL=(ALL) NOPASSWD:ALL\\n' {name} > /etc/sudoers.d/workbench"
        " && chmod 440 /etc/sudoers.d/workbench",
        f"ENV NVWB_UID={owner.uid}",
        f"ENV NVWB_GID={owner.gid}",
        f"ENV NVWB_USERNAME={name}",
        *([f"ENV PATH=/home/{USER}/.local/bin:$PATH"] if name == USER else []),
        f"USER {name}",
    ]
    if "preBuild.bash" in said:
        lines += ["", "# 2. preBuild.bash, as the user.", *_script("preBuild.bash", owner)]
    lines += ["", "# 3. The entry point.", "USER root", 'COPY ["entrypoint.sh", "/"]']
    if spec.environment.base.entrypoint_script:
        lines.append(f"ENV NVWB_BASE_ENV_ENTRYPOINT={spec.environment.base.entrypoint_script}")
    if "apt.txt" in said:
        lines += ["", "# 4. apt.txt, as root.", _apt(*_packages(files["apt.txt"]))]
    if "requirements.txt" in said:
        lines += [
            "",
            "# 5. requirements.txt, as the user, into the user's own site-packages.",
            f"USER {name}",
            _copy("requirements.txt", owner),
            f"RUN {spec.environment.base.pip} install --user -r {BUILD_FOLDER}/requirements.txt",
        ]
    if "postBuild.bash" in said:
        lines += ["", "# 6. postBuild.bash, as the user.", f"USER {name}", *_script("postBuild.bash", owner)]
    lines += [
        "",
        f"USER {name}",
        "WORKDIR /project",
        *[f"EXPOSE {app.port}" for app in spec.apps if app.type == "jupyterlab" and app.port],
        'ENTRYPOINT ["/entrypoint.sh"]',
        'CMD ["tail", "-f", "/dev/null"]',
    ]
    return "\n".join(lines) + "\n"


def _user(spec: Spec, name: str, owner: Owner) -> list[str]:
    uid, gid = owner.uid, owner.gid
    taken = f"$(getent passwd {uid} | cut -d: -f1)"
    if name == "root":
        return []
    if name == USER:
        home = f"/home/{USER}"
        return [
            f"RUN groupadd -g {gid} {USER} || true",
            f"RUN useradd -u {uid} -g {gid} -rm -d {home} -s /bin/bash {USER}"
            f" || usermod -l {USER} -g {gid} -d {home} -m -s /bin/bash {taken}",
            f"RUN install -d -o {uid} -g {gid} {home}",
        ]
    own = spec.environment.base.user_info
    lines = []
    if own.gid != str(gid):
        lines.append(f"RUN getent group {gid} || groupmod -g {gid} $(id -gn {name})")
    if own.uid != str(uid):
        # The image's user takes the host's id; whoever had it goes, and the user's files follow.
        lines.append(
            f'RUN old=$(id -u {name}); other={taken}; [ -z "$other" ] || userdel "$other";'
            f" usermod -u {uid} -g {gid} {name} && find / -xdev -uid $old -print0 | xargs -0 -r chown -h {uid}:{gid}"
        )
    return lines


def _apt(*packages: str, if_missing: bool = False) -> str:
    install = "apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y " + " ".join(
        shlex.quote(package) for package in packages
    )
    if not if_missing:
        return f"RUN {install}"
    present = " && ".join(f"command -v {package}" for package in packages)
    return f"RUN {{ {present}; }} > /dev/null || {{ {install}; }}"


def _packages(text: str) -> list[str]:
    packages = []
    for number, line in enumerate(text.splitlines(), start=1):
        word = line.strip()
        if not word or word.startswith("#"):
            continue
        if len(word.split()) != 1 or word.startswith("-"):
            raise UsageError(
                f"apt.txt, line {number}: {word!r} is not the name of one package.",
                hint="Write one package a line; comments stand on lines of their own.",
            )
        packages.append(word)
    return packages


def _script(name: str, owner: Owner) -> list[str]:
    return [_copy(name, owner), "RUN " + json.dumps(["/bin/bash", f"{BUILD_FOLDER}/{name}"])]


def _copy(name: str, owner: Owner) -> str:
    return f"COPY --chown={owner.uid}:{owner.gid} " + json.dumps([name, f"{BUILD_FOLDER}/"])
