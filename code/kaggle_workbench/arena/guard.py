"""What is refused before any handler sees it: foreign hosts, odd paths, bodies over the limit."""

from __future__ import annotations

import ipaddress
import re
from typing import Any
from urllib.parse import urlsplit

from kaggle_workbench.arena.answers import ApiError
from kaggle_workbench.arena.context import Context

MAX_RPC_BYTES = 1_000_000
# Encoded dots, slashes, backslashes and control characters have no place in any of our addresses.
ODD_TARGET = re.compile(r"%(2e|2f|5c|25|[01][0-9a-f]|7f)|\\|[\x00-\x20\x7f-\xff]", re.IGNORECASE)


def base_address(context: Context, environ: dict[str, Any]) -> str:
    """The address under which the caller reached the arena, after checking that it is ours.

    By way of `http_proxy` a client asks for `http://localhost/...`; storage then gets the arena's own
    address, another host than the API's, as at Kaggle, so that clients do not send it their token.

    Raises:
        ApiError: The request names another host (421): this is no proxy, and no name but our own leads here.
    """
    target = str(environ.get("REQUEST_URI", ""))
    host = str(environ.get("HTTP_HOST", ""))
    absolute = urlsplit(target) if not target.startswith("/") else None
    names = [host] if absolute is None else [host, absolute.netloc]
    if not all(_is_ours(name, context, str(environ.get("SERVER_PORT", ""))) for name in names):
        raise ApiError(421, "This arena answers only under its own address; it is no proxy for other hosts.")
    return context.public_url if absolute is not None or ":" not in host else f"http://{host}"


def check_target(target: str) -> None:
    """Let only plain paths pass.

    Raises:
        ApiError: The path climbs, is encoded oddly, or holds control characters (400).
    """
    path = target if target.startswith("/") else urlsplit(target).path
    path = path.partition("?")[0]
    if ODD_TARGET.search(path) or "//" in path or any(part in (".", "..") for part in path.split("/")):
        raise ApiError(400, "This address is not a plain path.")


def _is_ours(name: str, context: Context, own_port: str) -> bool:
    try:
        parts = urlsplit(f"//{name}")
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        return False
    # Port 80 is how `http://localhost` reads; every other port must be the one we listen on.
    if parts.username is not None or (port is not None and str(port) not in (own_port, "80")):
        return False
    if host in context.hosts:
        return True
    if not context.any_address:
        return False
    try:
        # A page that lures a browser here by a name of its own cannot do so by a bare address.
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
