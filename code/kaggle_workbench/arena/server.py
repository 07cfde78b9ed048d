"""Binds the arena to a port and serves it (waitress)."""

from __future__ import annotations

import errno
import ipaddress
import logging
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kaggle_workbench.errors import MissingError, UsageError

LOOPBACK = "127.0.0.1"
# Room for a request's frame above the largest submission that a hosted competition allows.
SPARE_BYTES = 1_000_000


@dataclass(frozen=True)
class Bound:
    """An arena that listens but does not yet answer.

    Attributes:
        url: Its address.
        token_file: Where the token, or the participants' tokens, can be read.
        faults: Why folders were left out.
        slugs: What it hosts.
    """

    url: str
    token_file: Path
    faults: tuple[str, ...]
    slugs: tuple[str, ...]
    server: Any

    def run(self) -> None:
        """Answer until the process is told to end."""
        self.server.run()


def bind(
    folders: Sequence[Path], state: Path, *, host: str = LOOPBACK, port: int = 0, participants: Path | None = None
) -> Bound:
    """Listen on a port.

    Args:
        folders: Competitions' folders, or folders that hold some.
        state: Where submissions, scores and tokens are kept; made when missing.
        host: Address to listen on. Other than this machine's own, `participants` is required.
        port: Port; 0 takes a free one.
        participants: List of names; each gets a token of its own, and the local token is not accepted.

    Raises:
        UsageError: An address that is not this machine's, or a network address without participants.
        MissingError: The port is taken, the state folder cannot be written.
    """
    if not _is_loopback(host) and participants is None:
        raise UsageError(
            f"Listening on {host} opens the arena to other machines, and then each participant needs a token.",
            hint="Give --participants FILE, a text file with one name a line; the tokens are made from it.",
        )
    # Imported here, so that a wrong option is told without waiting for Flask.
    from waitress.server import create_server

    from kaggle_workbench.arena import tokens
    from kaggle_workbench.arena.app import create_app
    from kaggle_workbench.arena.competitions import Hosting
    from kaggle_workbench.arena.context import Context
    from kaggle_workbench.arena.signing import Signer
    from kaggle_workbench.arena.store import Store
    from kaggle_workbench.files import disk_errors

    with disk_errors(state):
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
    listening = _listen(host, port)
    actual = int(listening.getsockname()[1])
    known = tokens.local_tokens(state) if participants is None else tokens.participant_tokens(state, participants)
    url = f"http://{_literal(_reachable(host))}:{actual}"
    context = Context(
        hosting=Hosting(folders),
        store=Store(state),
        tokens=known,
        signer=Signer(tokens.signing_key(state)),
        state=state,
        public_url=url,
        hosts=_names(host),
        any_address=not _is_loopback(host),
    )
    competitions = context.hosting.all()
    largest = max([each.max_submission_bytes for each in competitions.values()], default=0)
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)
    server = create_server(
        create_app(context),
        sockets=[listening],
        threads=8,
        ident="kwb-arena",
        max_request_body_size=largest + SPARE_BYTES,
        max_request_header_size=32_768,
        channel_timeout=60,
        # A class of clients that keep their connections, or one that never ends its requests, leaves room for others.
        connection_limit=500,
        asyncore_use_poll=True,
        expose_tracebacks=False,
    )
    file = tokens.TOKEN_FILE if participants is None else tokens.PARTICIPANTS_FILE
    return Bound(url, state / file, tuple(context.hosting.faults()), tuple(sorted(competitions)), server)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise UsageError(
            f"{host} is not an address to listen on: {error}.", hint="127.0.0.1 is this machine alone, 0.0.0.0 all."
        ) from None
    listening = socket.socket(family, kind, protocol)
    try:
        # Lets a restart take the port at once; a port in use stays refused, except on Windows, which needs no help.
        if os.name == "posix":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(128)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise MissingError(
                f"Port {port} on {host} is taken by another program.",
                hint="Give another one, such as --port 8123, or --port 0 for any free one.",
            ) from None
        if error.errno == errno.EADDRNOTAVAIL:
            raise UsageError(
                f"{host} is not an address of this machine.", hint="Use 0.0.0.0 for all of them."
            ) from None
        raise MissingError(
            f"The arena cannot listen on {host}, port {port}: {error.strerror}.",
            hint="Ports below 1024 are for administrators; --port 0 takes any free one.",
        ) from None
    return listening


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_any(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _names(host: str) -> frozenset[str]:
    names = {"localhost", LOOPBACK, "::1", host.lower()}
    if not _is_loopback(host):
        own = socket.gethostname().lower()
        names |= {own, f"{own}.local"}
    return frozenset(names)


def _reachable(host: str) -> str:
    """The address to tell others: for "all addresses", the one this machine uses outward."""
    if not _is_any(host):
        return host
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Connecting a datagram socket sends nothing; it only picks the outward address. 192.0.2.0/24 is nobody's.
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return socket.gethostname()


def _literal(host: str) -> str:
    return f"[{host}]" if ":" in host else host
