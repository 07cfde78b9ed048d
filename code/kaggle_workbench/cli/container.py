"""`kwb up`, `down`, `status`, `url`, `logs`, `shell`, `image`: the container on this machine."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any


def register(subparsers: Any) -> None:
    """Add the commands of this group."""
    up = subparsers.add_parser("up", help="build and start the container, print JupyterLab's address")
    up.add_argument(
        "--gpus", type=int, metavar="N", help="how many GPUs; 0 forces the CPU (default: GPU_COUNT, the spec)"
    )
    up.add_argument("--require-gpu", action="store_true", help="refuse to start without the GPUs")
    up.add_argument("--input", metavar="DIR", help="folder of this machine for competition data (kept)")
    up.add_argument("--output", metavar="DIR", help="folder of this machine for runs (kept)")
    up.add_argument(
        "--mount", action="append", default=[], metavar="DIR:TARGET", help="folder for another host mount (kept)"
    )
    up.add_argument("--base", metavar="IMAGE", help="another base image on this machine (kept; 'spec' goes back)")
    up.add_argument("--port", type=int, help="JupyterLab's port on 127.0.0.1 (default: a free one)")
    up.add_argument("--dry-run", action="store_true", help="print what would be built and started, do nothing")
    _add_format(up)
    up.set_defaults(handler=_up)

    down = subparsers.add_parser("down", help="stop and remove the container; data/ stays")
    down.set_defaults(handler=_down)

    status = subparsers.add_parser("status", help="what runs for this project")
    _add_format(status)
    status.set_defaults(handler=_status)

    url = subparsers.add_parser("url", help="print JupyterLab's address again, or TensorBoard's")
    url.add_argument("app", nargs="?", default="jupyterlab", choices=("jupyterlab", "tensorboard"), help="which one")
    url.set_defaults(handler=_url)

    logs = subparsers.add_parser("logs", help="JupyterLab's own output")
    logs.add_argument("app", nargs="?", default="", metavar="APP", help="another app of the spec, or 'container'")
    logs.add_argument("-n", "--lines", type=int, default=100, help="how many of the last lines (100)")
    logs.add_argument("-f", "--follow", action="store_true", help="go on as new lines come")
    logs.set_defaults(handler=_logs)

    shell = subparsers.add_parser("shell", help="a shell in the container, or one command: ./kwb shell -- nvidia-smi")
    shell.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND", help="a command instead of bash")
    shell.set_defaults(handler=_shell)

    image = subparsers.add_parser("image", help="the base image that every place uses")
    actions = image.add_subparsers(title="actions", metavar="ACTION", required=True)
    show = actions.add_parser("show", help="what the image lock says is inside")
    _add_format(show)
    show.set_defaults(handler=_image_show)
    lock = actions.add_parser("lock", help="look into the image on this machine, or move to another version")
    lock.add_argument("--tag", metavar="vN", help="move spec and lock to this version of the image")
    lock.add_argument("--dry-run", action="store_true", help="show the differences, write nothing")
    _add_format(lock)
    lock.set_defaults(handler=_image_lock)


def _add_format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", choices=("table", "json"), default="table", help="how to print (table)")


def _up(options: argparse.Namespace) -> None:
    from kaggle_workbench.container.launcher import dry_run, up
    from kaggle_workbench.container.plan import Options
    from kaggle_workbench.container.running import remote_hint
    from kaggle_workbench.show import note

    chosen = Options(
        gpus=options.gpus,
        input=options.input,
        output=options.output,
        mounts=options.mount,
        base=options.base,
        port=options.port,
    )
    if options.dry_run:
        plan, text = dry_run(chosen, require_gpu=options.require_gpu)
        print(json.dumps(plan.to_dict(), indent=2) if options.format == "json" else text)
        return
    started = up(chosen, require_gpu=options.require_gpu)
    hint = remote_hint(*filter(None, (started.port, started.tensorboard_port)))
    if hint:
        note(f"On your desk, in another terminal, then open the addresses below there:\n  {hint}")
    if started.tensorboard:
        note(f"TensorBoard: {started.tensorboard}")
    print(json.dumps(asdict(started), indent=2) if options.format == "json" else started.url)


def _down(options: argparse.Namespace) -> None:
    from kaggle_workbench.container.running import down
    from kaggle_workbench.show import note

    note("The container is stopped and removed; the folders stay." if down() else "No container to stop.")


def _status(options: argparse.Namespace) -> None:
    from kaggle_workbench.container.running import status
    from kaggle_workbench.show import table

    document = asdict(status())
    if options.format == "json":
        print(json.dumps(document, indent=2))
    else:
        print(table([{"what": name.replace("_", " "), "value": value} for name, value in document.items()]))


def _url(options: argparse.Namespace) -> None:
    from kaggle_workbench.container.running import board_url, url

    print(board_url() if options.app == "tensorboard" else url())


def _logs(options: argparse.Namespace) -> None:
    from kaggle_workbench.container.running import logs

    for line in logs(options.app, lines=options.lines, follow=options.follow):
        print(line, flush=options.follow)


def _shell(options: argparse.Namespace) -> int:
    from kaggle_workbench.container.running import shell

    words = options.words[1:] if options.words[:1] == ["--"] else options.words
    return shell(words)


def _image_show(options: argparse.Namespace) -> None:
    from kaggle_workbench.container.relock import show
    from kaggle_workbench.show import note, table

    lock, path = show()
    if options.format == "json":
        print(json.dumps(asdict(lock), indent=2))
        return
    note(path)
    print(table(lock.rows()))


def _image_lock(options: argparse.Namespace) -> None:
    from kaggle_workbench.container.relock import relock
    from kaggle_workbench.show import listing, note

    changes = relock(options.tag, dry_run=options.dry_run)
    listing(changes, options.format)
    if not changes:
        note("Nothing differs.")
