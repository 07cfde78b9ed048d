"""Help for tests that need a hosted competition, the real clients, or a bad network.

tiny = tiny_competition(tmp_path / "hosted", "tiny-digits")          # a folder arena.launch can host
with running([tmp_path / "hosted"], tmp_path / "state") as arena:
    kaggle(client_env(arena, tmp_path / "home"), "competitions", "list")
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import http.client
import io
import json
import os
import socket
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from kaggle_workbench.arena.launch import Arena, running

API = "competitions.CompetitionApiService"
NOISE = os.urandom(5_000_000)

# 5x7 digits, a row of bits each.
GLYPHS = [
    (14, 17, 19, 21, 25, 17, 14),
    (4, 12, 4, 4, 4, 4, 14),
    (14, 17, 1, 2, 4, 8, 31),
    (31, 2, 4, 2, 1, 17, 14),
    (2, 6, 10, 18, 31, 2, 2),
    (31, 16, 30, 1, 1, 17, 14),
    (6, 8, 16, 30, 17, 17, 14),
    (31, 1, 2, 4, 8, 8, 8),
    (14, 17, 17, 14, 17, 17, 14),
    (14, 17, 17, 15, 1, 2, 12),
]


@dataclass(frozen=True)
class Tiny:
    """A tiny hosted competition: its folder, and the true answers of its test rows."""

    folder: Path
    slug: str
    id_column: str
    target: str
    answers: tuple[tuple[str, str], ...]

    def submission(self, path: Path, *, wrong: int = 0) -> Path:
        """Write a submission with the first `wrong` answers wrong."""
        rows = [(id, str(1 - min(int(label), 1)) if i < wrong else label) for i, (id, label) in enumerate(self.answers)]
        path.write_text(csv_text([self.id_column, self.target], rows))
        return path


def tiny_competition(
    folder: Path,
    slug: str = "tiny-digits",
    *,
    kind: str = "pixels",
    rows: int = 200,
    test_rows: int = 100,
    side: int = 28,
    extra: Mapping[str, bytes] | None = None,
    **settings: Any,
) -> Tiny:
    """Make a competition that the arena can host.

    Args:
        folder: The competition's folder is made in it.
        slug: Its name.
        kind: "pixels": digits as in digit-recognizer (drawn, shifted, noisy; easily learnt);
            "table": passengers with numbers, text and missing values, Survived 0 or 1.
        rows: Training rows.
        test_rows: Test rows; the first quarter is public.
        side: Width and height of a picture, 8 or more.
        extra: Further files in the archive by name ("folder/name" too).
        settings: Laid over competition.json, for example rules={"acceptance_required": True}.
    """
    random = np.random.RandomState(7)
    if kind == "pixels":
        labels = np.arange(rows + test_rows) % 10
        names = [f"pixel{i}" for i in range(side * side)]
        pixels = [[int(v) for v in _digit(int(label), side, random)] for label in labels]
        train = csv_text(["label", *names], [[int(y), *x] for y, x in zip(labels[:rows], pixels[:rows], strict=True)])
        test = csv_text(names, pixels[rows:])
        id_column, target, ids = "ImageId", "Label", [str(i + 1) for i in range(test_rows)]
        answers = [str(label) for label in labels[rows:]]
    else:
        id_column, target = "PassengerId", "Survived"
        people = [_passenger(i + 1, random) for i in range(rows + test_rows)]
        columns = list(people[0])
        train = csv_text(columns, [list(each.values()) for each in people[:rows]])
        test = csv_text(
            [c for c in columns if c != target], [[v for k, v in p.items() if k != target] for p in people[rows:]]
        )
        ids = [str(each[id_column]) for each in people[rows:]]
        answers = [str(each[target]) for each in people[rows:]]
    home = folder / slug
    (home / "references").mkdir(parents=True)
    sample = csv_text([id_column, target], [[id, 0] for id in ids])
    with zipfile.ZipFile(home / "files.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        contents: dict[str, str | bytes] = {"train.csv": train, "test.csv": test, "sample_submission.csv": sample}
        for name, content in {**contents, **(extra or {})}.items():
            archive.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)
    usage = ["Public" if i < test_rows // 4 else "Private" for i in range(test_rows)]
    _gzip(home / "solution.csv.gz", csv_text([id_column, target, "Usage"], zip(ids, answers, usage, strict=True)))
    _gzip(home / "references" / "all-one-class.csv.gz", sample)
    document = {
        "title": f"Tiny {kind}",
        "description": "For tests.",
        "metric": "accuracy",
        "date": "2026-01-01T00:00:00Z",
        "max_daily_submissions": 20,
        "reveal_private": True,
        "references": [{"name": "All one class", "file": "references/all-one-class.csv.gz", "method": "Always 0."}],
        **settings,
    }
    (home / "competition.json").write_text(json.dumps(document))
    return Tiny(home, slug, id_column, target, tuple(zip(ids, answers, strict=True)))


def csv_text(header: Sequence[str], rows: Any) -> str:
    """Rows as CSV with plain line ends."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()


def client_env(arena: Any, home: Path, *, proxy: str | None = None, token: str | None = None) -> dict[str, str]:
    """The environment in which the real `kaggle` and kagglehub reach an arena and nothing else.

    Args:
        arena: What `arena.launch.running` yields.
        home: A folder of the test's own.
        proxy: Address to go through instead of the arena's own, such as a `Cutter`'s.
        token: Another token than the arena's.
    """
    (home / "tmp").mkdir(parents=True, exist_ok=True)
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "TMPDIR": str(home / "tmp"),
        "KAGGLE_API_ENVIRONMENT": "LOCALHOST",
        "http_proxy": proxy or arena.url,
        "KAGGLE_API_TOKEN": token or arena.token.reveal(),
    }


def kaggle(env: Mapping[str, str], *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the real, unmodified `kaggle` command line."""
    command = [str(Path(sys.executable).with_name("kaggle")), *words]
    return subprocess.run(command, env=dict(env), cwd=cwd or env["HOME"], capture_output=True, text=True, timeout=120)


class Cutter:
    """A TCP relay before an arena that cuts connections: `with Cutter(url, [1_500_000]) as cutter: cutter.url`.

    Args:
        url: The arena's address.
        cuts: For one connection after the other that carries more bytes than that to the client: after how
            many bytes it is cut. Later ones are whole.
    """

    def __init__(self, url: str, cuts: Sequence[int]) -> None:
        host, port = url.removeprefix("http://").split(":")
        self._target = (host, int(port))
        self._cuts = list(cuts)
        self._lock = threading.Lock()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.cut = 0
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def __enter__(self) -> Cutter:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(self._target)
                threading.Thread(target=_pump, args=(client, server), daemon=True).start()
                threading.Thread(target=self._down, args=(server, client), daemon=True).start()

    def _down(self, server: socket.socket, client: socket.socket) -> None:
        sent = 0
        with contextlib.suppress(OSError):
            while data := server.recv(16_384):
                with self._lock:
                    if self._cuts and sent + len(data) > self._cuts[0]:
                        client.sendall(data[: max(0, self._cuts.pop(0) - sent)])
                        self.cut += 1
                        break
                client.sendall(data)
                sent += len(data)
        for end in (client, server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


class Hosted:
    """One arena with all kinds of tiny competitions, for the whole file."""

    def __init__(self, arena: Arena, folder: Path, tiny: dict[str, Tiny]) -> None:
        self.arena = arena
        self.folder = folder
        self.tiny = tiny
        self.env = client_env(arena, folder / "home")

    def kaggle(self, *words: str) -> subprocess.CompletedProcess[str]:
        return kaggle(self.env, "competitions", *words)


@contextlib.contextmanager
def hosted_arena(folder: Path) -> Iterator[Hosted]:
    """An arena in `folder` that hosts one tiny competition of each kind, for a whole test file."""
    kinds: dict[str, dict[str, Any]] = {
        "tiny-digits": {"extra": {"more/noise.bin": NOISE}, "side": 8, "wrap_bytes": 20_000},
        "tiny-table": {"kind": "table"},
        "tiny-rules": {"kind": "table", "rules": {"text": "Play <fair>.", "acceptance_required": True}},
        "tiny-limit": {"kind": "table", "max_daily_submissions": 2},
        "tiny-closed": {"kind": "table", "submissions_disabled": True},
        "tiny-over": {"kind": "table", "deadline": "2026-02-01T00:00:00Z", "reveal_private": False},
        "tiny-notebooks": {"kind": "table", "notebooks_only": True},
        "tiny-gone": {"kind": "table", "gone": True},
        "tiny-race": {"kind": "table", "max_daily_submissions": 5},
        "tiny-hidden": {"kind": "table", "reveal_private": False},
    }
    tiny = {slug: tiny_competition(folder / "hosted", slug, **kind) for slug, kind in kinds.items()}
    with running([folder / "hosted"], folder / "state") as arena:
        yield Hosted(arena, folder, tiny)


def raw(
    arena: Arena, method: str, target: str, body: bytes | None = None, **headers: str
) -> tuple[int, bytes, dict[str, str]]:
    """One request as it is, without a client's tidying."""
    where = urlsplit(arena.url)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=20)
    try:
        connection.putrequest(method, target, skip_host="Host" in headers)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        if body is not None and "Content_Length" not in headers:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        return answer.status, answer.read(), {name.lower(): value for name, value in answer.getheaders()}
    finally:
        connection.close()


def rpc(arena: Arena, method: str, token: str | None = None, **body: Any) -> tuple[int, Any]:
    """One call of the API; the answer's JSON, or its headers for a redirect."""
    bearer = f"Bearer {token or arena.token.reveal()}"
    status, data, headers = raw(
        arena, "POST", f"/api/v1/{API}/{method}", json.dumps(body).encode(), Authorization=bearer
    )
    return status, headers if status == 302 else json.loads(data)


def upload(arena: Arena, slug: str, content: bytes, *, token: str | None = None, name: str = "s.csv") -> str:
    status, slot = rpc(
        arena, "StartSubmissionUpload", token, competitionName=slug, fileName=name, contentLength=len(content)
    )
    assert status == 200, slot
    assert raw(arena, "PUT", path_of(slot["createUrl"]), content)[0] == 201
    return str(slot["token"])


def submit(arena: Arena, slug: str, content: bytes, *, token: str | None = None) -> tuple[int, Any]:
    return rpc(
        arena,
        "CreateSubmission",
        token,
        competitionName=slug,
        blobFileTokens=upload(arena, slug, content, token=token),
        submissionDescription="raw",
    )


def path_of(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.path}?{parts.query}"


def _digit(label: int, side: int, random: np.random.RandomState) -> np.ndarray:
    scale = max(1, side // 8)
    bits = np.array([[row >> (4 - column) & 1 for column in range(5)] for row in GLYPHS[label]])
    glyph = np.kron(bits, np.ones((scale, scale), int)) * random.randint(150, 256)
    picture = np.zeros((side, side), int)
    top = random.randint(0, side - glyph.shape[0] + 1)
    left = (side - glyph.shape[1]) // 2 + random.randint(-scale, scale + 1)
    picture[top : top + glyph.shape[0], left : left + glyph.shape[1]] = glyph
    noise = random.randint(0, 40, picture.shape) * (random.random_sample(picture.shape) < 0.05)
    return np.clip(picture + noise, 0, 255).ravel()


def _passenger(number: int, random: np.random.RandomState) -> dict[str, Any]:
    sex = ("female", "male")[random.randint(2)]
    pclass = int(random.randint(1, 4))
    lives = random.random_sample() < (0.85 if sex == "female" else 0.15)
    return {
        "PassengerId": number,
        "Survived": int(lives),
        "Pclass": pclass,
        "Name": f'Passenger, "No." {number}',
        "Sex": sex,
        "Age": "" if random.random_sample() < 0.2 else round(float(random.uniform(1, 80)), 1),
        "Fare": round(float(random.gamma(2, 40 / pclass)), 2),
    }


def _gzip(path: Path, text: str) -> None:
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
