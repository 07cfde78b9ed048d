"""Words of the command line that several commands take, read strictly."""

from __future__ import annotations

import argparse


def port(text: str) -> int:
    """A port number, for `add_argument(type=port)`.

    Raises:
        ArgumentTypeError: It is none.
    """
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port (0 to 65535)")
    return int(text)
