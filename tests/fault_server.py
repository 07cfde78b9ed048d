"""A server that fails on purpose: it stands as the proxy before an arena, answers chosen routes itself and counts.

with FaultServer(arena.url) as server:
    server.on("GetCompetition", 503, times=2)            # then the arena again
    server.on("/storage/", cut_after=100_000, times=10)  # the arena's answer, cut
    client_env(arena, home, proxy=server.url)
    assert server.count("GetCompetition") == 3
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

_HOP = {"connection", "keep-alive", "proxy-connection", "transfer-encoding", "te", "upgrade"}
# Enough of Kaggle for a client to log in where there is no arena behind.
_LOGIN = {"active": True, "username": "tester"}


@dataclass
class Rule:
    """What to do with requests whose path holds `route`, as long as `times` is not used up."""

    route: str
    status: int | None
    body: bytes
    headers: Mapping[str, str]
    delay_s: float
    cut_after: int | None
    pause_after: int | None
    forward: bool
    times: int | None


@dataclass(frozen=True)
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


class FaultServer:
    """See the module's text.

    Args:
        upstream: Address of the arena behind; without it, everything but the login is answered with 404.
    """

    def __init__(self, upstream: str | None = None) -> None:
        self.upstream = upstream
        self.seen: list[Seen] = []
        self._rules: list[Rule] = []
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> FaultServer:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def on(
        self,
        route: str,
        status: int | None = None,
        body: Any = b"",
        *,
        headers: Mapping[str, str] | None = None,
        delay_s: float = 0,
        cut_after: int | None = None,
        pause_after: int | None = None,
        forward: bool = False,
        times: int | None = None,
    ) -> None:
        """Add a rule; the newest that fits counts.

        Args:
            route: Part of the path.
            status: Answer with this status; None: the arena's own answer.
            body: Bytes, text (sent as HTML) or a JSON document.
            headers: Further headers.
            delay_s: Wait before the answer, or where `pause_after` says.
            cut_after: Close the connection after so many bytes of the body.
            pause_after: Wait after so many bytes of the body.
            forward: Let the arena do the request all the same, and drop its answer.
            times: How often; None: always.
        """
        kind = "application/json"
        if isinstance(body, str):
            kind, body = "text/html; charset=utf-8", body.encode()
        elif not isinstance(body, bytes):
            body = json.dumps(body).encode()
        headers = {"Content-Type": kind, **(headers or {})}
        rule = Rule(route, status, body, headers, delay_s, cut_after, pause_after, forward, times)
        with self._lock:
            self._rules.insert(0, rule)

    def refuse(self, route: str, status: int, message: str, *, times: int | None = None, **headers: str) -> None:
        """Answer as the real service refuses: `{"error": {"code", "message", "status"}}`."""
        body = {"error": {"code": status, "message": message, "status": "X"}}
        self.on(route, status, body, headers={k.replace("_", "-"): v for k, v in headers.items()}, times=times)

    def clear(self) -> None:
        """Drop all rules and what was counted."""
        with self._lock:
            self._rules.clear()
            self.seen.clear()

    def count(self, route: str) -> int:
        """How many requests had `route` in their path."""
        with self._lock:
            return sum(route in each.path for each in self.seen)

    def _take(self, path: str) -> Rule | None:
        with self._lock:
            for rule in self._rules:
                if rule.route in path and rule.times != 0:
                    if rule.times is not None:
                        rule.times -= 1
                    return rule
        return None


def _handler(server: FaultServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def _answer(self) -> None:
            self.close_connection = True
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            with server._lock:
                server.seen.append(Seen(self.command, self.path, dict(self.headers), body))
            rule = server._take(self.path)
            if rule is not None:
                if rule.pause_after is None:
                    time.sleep(rule.delay_s)
                if rule.forward and server.upstream:
                    self._forward(body)
            with contextlib.suppress(OSError):
                if rule is not None and rule.status is not None:
                    self._send(rule.status, dict(rule.headers), rule.body, rule)
                elif server.upstream:
                    self._send(*self._forward(body), rule)
                elif "IntrospectToken" in self.path:
                    self._send(200, {"Content-Type": "application/json"}, json.dumps(_LOGIN).encode(), None)
                else:
                    self._send(404, {"Content-Type": "application/json"}, b"{}", None)

        do_GET = do_POST = do_PUT = do_HEAD = _answer  # noqa: N815

        def _forward(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
            where, what = urlsplit(server.upstream or ""), urlsplit(self.path)
            headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP}
            target = what.path + (f"?{what.query}" if what.query else "")
            with contextlib.closing(http.client.HTTPConnection(where.hostname or "", where.port, timeout=30)) as arena:
                arena.request(self.command, target, body or None, headers)
                answer = arena.getresponse()
                kept = {name: value for name, value in answer.getheaders() if name.lower() not in _HOP}
                return answer.status, kept, answer.read()

        def _send(self, status: int, headers: dict[str, str], body: bytes, rule: Rule | None) -> None:
            self.send_response(status)
            headers = {name: value for name, value in headers.items() if name.lower() != "content-length"}
            for name, value in {**headers, "Content-Length": str(len(body)), "Connection": "close"}.items():
                self.send_header(name, value)
            self.end_headers()
            cut = len(body) if rule is None or rule.cut_after is None else min(rule.cut_after, len(body))
            pause = cut if rule is None or rule.pause_after is None else min(rule.pause_after, cut)
            self.wfile.write(body[:pause])
            self.wfile.flush()
            if rule is not None and pause < cut:
                time.sleep(rule.delay_s)
                self.wfile.write(body[pause:cut])
                self.wfile.flush()
            if cut < len(body):
                self.connection.shutdown(socket.SHUT_RDWR)

    return Handler
