"""Runs one notebook or script as Kaggle's machines do; says what it prints as lines of JSON on its standard output.

This file is seen only by the session (as /kaggle/lib/run_kernel.py). It ends when its standard input is closed, so
that no session outlives the stand-in.
"""

import fcntl
import json
import os
import pathlib
import re
import socket
import struct
import subprocess
import sys
import threading
import time

STARTED = time.monotonic()
SOURCE = pathlib.Path("/kaggle/src")


def say(stream: str, data: str) -> None:
    """One entry of the session's log."""
    entry = {"stream_name": stream, "time": round(time.monotonic() - STARTED, 3), "data": data}
    print(json.dumps(entry), file=OUT, flush=True)


def loopback() -> None:
    """Switch 127.0.0.1 on; a new network has it, but down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        # SIOCSIFFLAGS with IFF_UP.
        fcntl.ioctl(probe, 0x8914, struct.pack("16sH", b"lo", 1))


def end_with_starter() -> None:
    """Wait for the end of standard input."""
    while os.read(0, 4096):
        pass
    os._exit(9)


def run_notebook(path: pathlib.Path) -> int:
    """Run all cells; 1 when one of them failed."""
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, DeadKernelError

    class Telling(NotebookClient):
        def process_message(self, msg, cell, cell_index):  # type: ignore[no-untyped-def]
            if msg["msg_type"] == "stream":
                say(msg["content"]["name"], msg["content"]["text"])
            return super().process_message(msg, cell, cell_index)

    notebook = nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)
    client = Telling(notebook, timeout=None, kernel_name="python3", resources={"metadata": {"path": "/kaggle/working"}})
    try:
        client.execute()
    except CellExecutionError as error:
        say("stderr", re.sub(r"\x1b\[[0-9;]*m", "", str(error)))
        return 1
    except DeadKernelError as error:
        say("stderr", f"DeadKernelError: {error}\n")
        return 1
    return 0


def run_script(path: pathlib.Path) -> int:
    """Run a Python script."""
    child = subprocess.Popen([sys.executable, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def pump(stream: str) -> None:
        for line in getattr(child, stream):
            say(stream, line)

    threads = [threading.Thread(target=pump, args=(stream,)) for stream in ("stdout", "stderr")]
    for each in threads:
        each.start()
    code = child.wait()
    for each in threads:
        each.join()
    return 1 if code else 0


def main() -> int:
    """Run what was pushed."""
    if os.environ.pop("STANDIN_NETWORK", "") != "1":
        loopback()
    os.chdir("/kaggle/working")
    threading.Thread(target=end_with_starter, daemon=True).start()
    notebook = SOURCE / "notebook.ipynb"
    return run_notebook(notebook) if notebook.exists() else run_script(SOURCE / "script.py")


if __name__ == "__main__":
    # Whatever else prints here is no log; only `say` writes to what was standard output.
    OUT = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sys.exit(main())
