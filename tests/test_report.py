"""The report of a run: what it tells, that it holds together without the net, and that nothing in it runs."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from arena_tools import tiny_competition
from browser_tools import chromium
from kaggle_workbench import plots
from kaggle_workbench.errors import MissingError
from kaggle_workbench.stages.report import clean, notebooks, write_report
from kaggle_workbench.stages.report.clean import clean as cleaned
from project_tools import Project, make_project

SECRET = "mongodb+srv://ann:pass-71aa3b@example.invalid/db"
# Anything that gets through changes the page's title or asks this address.
ELSEWHERE = "http://127.0.0.1:9"
BAD = "document.title='bad'"
NASTY = f"""
<script>{BAD}</script><img src=x onerror="{BAD}"><svg onload="{BAD}"><script>{BAD}</script></svg>
<a href="java&#9;script:{BAD}">a link</a><iframe srcdoc="<script>parent.{BAD}</script>"></iframe>
<meta http-equiv="refresh" content="0;url={ELSEWHERE}/refresh"><link rel="stylesheet" href="{ELSEWHERE}/sheet">
<base href="{ELSEWHERE}/"><form action="{ELSEWHERE}/form"><button onclick="{BAD}">press</button></form>
<div style="position:fixed;inset:0;background:url({ELSEWHERE}/background)">over all</div>
<style>body {{ display: none }}</style><img src="{ELSEWHERE}/pixel.png" alt="a pixel">
</div></div></details></main></body></html><table><tr><td>unclosed <b>bold
"""
RECORD: dict[str, Any] = {
    "schema": 2,
    "id": "mine",
    "uid": "0" * 32,
    "revision": 7,
    "status": "failed",
    "competition": "tiny-digits",
    "source": "practice",
    "created": "2026-12-01T01:50:27.947Z",
    "updated": "2026-12-01T01:52:02.137Z",
    "parent": None,
    "metric": "accuracy",
    "cv": {"metric": "accuracy", "score": 0.98761, "method": "hold-out", "rows": 1200, "folds": [0.9, 0.99]},
    "lb": {"public": 0.97654, "private": 0.5, "rank": 2, "entries": 40},
    "submission": {
        "ref": 3,
        "file": "submission.csv",
        "sha256": "a5",
        "message": NASTY,
        "sent": "2026-12-01T01:52:01Z",
    },
    "checkpoint": {"epoch": 2, "step": 0, "file": "x", "sha256": "00", "written": "2026-12-01T01:52:01Z", "best": {}},
    "history": [
        {"epoch": 1, "seconds": 2.5, "accuracy": 0.5, "loss": 0.9, "val_accuracy": 0.6, "val_loss": 0.8},
        {"epoch": 2, "seconds": 2.5, "accuracy": 0.7, "loss": None, "val_accuracy": 0.65, "val_loss": 0.7},
    ],
    "data": {"train.csv": {"size": 10, "sha256": "aa"}},
    "pictures": [{"name": "lonely", "file": "pictures/lonely.png", "text": 'a "lonely" picture'}],
    "steps": [
        {
            "stage": "train",
            "status": "failed",
            "place": "kaggle",
            "started": "2026-12-01T01:50:33.801Z",
            "ended": "2026-12-01T01:51:55.800Z",
            "wall_s": 81.998,
            "cpu_s": 92.1,
            "peak_memory_bytes": 998064128,
            "peak_gpu_memory_bytes": 2_000_000_000,
            "mean_gpu_utilisation": 0.5,
            "parameters": {"COMPETITION": "tiny-digits", "EPOCHS": 8, "SEED": 0, "WIDTH": 3, "RECIPE": "reference"},
            "device": {"kind": "gpu", "count": 2, "names": ["Tesla T4", "Tesla T4"], "reason": "both proved"},
            "versions": {"python": "3.11.7", "keras": "3.15.1"},
            "git": {"commit": "e198b24b2c66dd25", "dirty": True},
            "image": {
                "image": "gcr.io/kaggle-gpu-images/python",
                "tag": "v170",
                "digest": "sha256:ab",
                "inside": False,
            },
            "process": {"host": "h", "space": "s", "pid": 1, "started": 1},
            "seed": 0,
            "error": {"kind": "WorkError", "message": f"It broke. {NASTY}", "hint": "Mend it.", "exit_code": 1},
        }
    ],
}


def picture(seed: int = 0) -> bytes:
    figure = plots.class_balance([0, 1, 1, seed], title=f"Picture {seed}")
    return plots.png(figure)


def code(source: str, *outputs: dict[str, Any]) -> dict[str, Any]:
    return {"cell_type": "code", "id": "c", "metadata": {}, "source": source, "execution_count": 1, "outputs": outputs}


def shown(data: dict[str, Any], metadata: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"output_type": "display_data", "data": data, "metadata": metadata or {}}


def write_notebook(file: Path, *cells: dict[str, Any]) -> None:
    metadata = {"kernelspec": {"name": "python3"}, "language_info": {"name": "python"}}
    file.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": cells}))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of a project with a secret; its name, record and notebook are as nasty as they can be."""
    root = tmp_path / "project"
    (root / ".project").mkdir(parents=True)
    (root / ".project/spec.yaml").write_text("specVersion: v2\n")
    (root / "secrets.env").write_text(f"MONGODB_URI={SECRET}\n")
    (root / "secrets.env").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = root / "data/output/runs" / f"<img src=x onerror={BAD}>"
    (folder / "pictures").mkdir(parents=True)
    (folder / "pictures/lonely.png").write_bytes(picture(2))
    (folder / "record.json").write_text(json.dumps(RECORD))
    coded = base64.b64encode(picture()).decode()
    alt = {"image/png": {"width": 688, "height": 224, "alt": f'two" onerror="{BAD}'}}
    card = '<div style="border-left:4px solid #3f9b5b"><b>A card</b><table><tr><td>its fact</td></tr></table></div>'
    write_notebook(
        folder / "02-train.ipynb",
        {
            "cell_type": "markdown",
            "id": "m",
            "metadata": {},
            "source": f"# Title\n\nText ![far]({ELSEWHERE}/far.png)\n{NASTY}",
        },
        code(
            f"print('{SECRET}')  # {NASTY}",
            *({"output_type": "stream", "name": "stdout", "text": t} for t in ("one\n", NASTY)),
        ),
        code("card", shown({"text/html": card, "text/plain": "card"})),
        code("picture", shown({"image/png": coded, "text/plain": "picture"}, alt)),
        code("html", shown({"text/html": NASTY, "text/plain": "nasty"})),
        code("not base64", shown({"image/png": f'"><script>{BAD}</script>'})),
        code("script only", shown({"text/html": f"<script>{BAD}</script>", "text/plain": "only text is left"})),
        code("widget", shown({"application/javascript": BAD, "application/vnd.jupyter.widget-view+json": {}})),
        code("svg", shown({"image/svg+xml": f"<svg xmlns='http://www.w3.org/2000/svg'><script>{BAD}</script></svg>"})),
        code(
            "fails",
            {
                "output_type": "error",
                "ename": "ValueError",
                "evalue": SECRET,
                "traceback": [f"\x1b[31mValueError\x1b[0m: {SECRET} in {root}/code/x.py {NASTY}"],
            },
        ),
        {"cell_type": "unheard-of"},
        {"cell_type": "markdown", "id": "e", "metadata": {}, "source": "The last cell."},
    )
    return folder


# --- What it tells ---


def test_the_head_tells_what_ran_where_and_what_came_of_it(folder: Path) -> None:
    text = re.sub(r"\s+", " ", re.sub(r"<style>.*?</style>|<[^>]*>", " ", write_report(folder).read_text(), flags=re.S))
    for part in (
        "failed",
        "tiny-digits · practice",
        "CV accuracy 0.9876 hold-out, 1,200 rows",
        "LB public 0.9765 gap +0.0111",
        "rank 2 of 40",
        "0.9000, 0.9900",
        "train failed kaggle 2 GPUs (Tesla T4): both proved 2026-12-01 01:50 1 min 22 s, 1 min 32 s CPU time",
        "998.1 MB, 2.0 GB GPU",
        "Mend it.",
        "EPOCHS 8 not set",
        "WIDTH 3",
        "e198b24b2c66 (changed since)",
        "gcr.io/kaggle-gpu-images/python:v170 · sha256:ab · the project&#39;s lock; this ran outside of it",
        "python 3.11.7, keras 3.15.1",
        "epoch 2 · 2026-12-01 01:52 UTC",
        "accuracy train 0.7000 dev 0.6500",
        "02-train 12 cells",
        "only text is left",
        "Shown in JupyterLab only",
    ):
        assert part in text, part
    assert "RECIPE" not in text
    assert "SEED" not in text


def test_no_secret_and_no_folder_of_this_machine(folder: Path, tmp_path: Path) -> None:
    content = write_report(folder).read_text()
    assert "pass-71aa3b" not in content
    assert str(tmp_path) not in content
    assert str(Path.home()) not in content
    assert "***" in content


def test_written_whole_and_again_and_only_for_a_run(folder: Path) -> None:
    path = write_report(folder)
    assert (path, path.name) == (write_report(folder), "report.html")
    assert [file.name for file in folder.iterdir() if "report" in file.name] == ["report.html"]
    with pytest.raises(MissingError, match="no run in"):
        write_report(folder / "nowhere")


# --- What it is made from may be missing or damaged ---


def test_without_notebooks_pictures_and_steps_are_told(folder: Path) -> None:
    (folder / "02-train.ipynb").unlink()
    content = write_report(folder).read_text()
    assert "No executed copy is here of: train" in content
    assert base64.b64encode(picture(2)).decode() in content
    record = deepcopy(RECORD)
    record["pictures"][0]["file"] = "../../../../secrets.env"
    (folder / "record.json").write_text(json.dumps(record))
    assert base64.b64encode(SECRET.encode())[4:20].decode() not in write_report(folder).read_text()


@pytest.mark.parametrize("content", [None, b"", b"{", b"[1, 2]", b"\xff\xfe", b"[" * 100_000, b"{}"])
def test_a_damaged_record_costs_the_head_not_the_notebooks(folder: Path, content: bytes | None) -> None:
    (folder / "record.json").unlink()
    if content is not None:
        (folder / "record.json").write_bytes(content)
    page = write_report(folder).read_text()
    assert "record.json" in page
    assert "The last cell." in page


def test_any_value_of_the_record_may_be_something_else(folder: Path) -> None:
    (folder / "02-train.ipynb").unlink()

    def places(value: Any, *way: Any) -> Iterator[tuple[Any, ...]]:
        yield from [way] if way else []
        for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
            yield from places(value[key], *way, key)

    for way in list(places(RECORD)):
        for odd in (None, -1, "x", [[0]], {"a": [1]}):
            record = deepcopy(RECORD)
            *above, last = way
            place: Any = record
            for key in above:
                place = place[key]
            place[last] = odd
            (folder / "record.json").write_text(json.dumps(record))
            assert "</html>" in write_report(folder).read_text(), (way, odd)


def test_damaged_notebooks_are_named(folder: Path) -> None:
    for name, content in (("a", "{"), ("b", "[]"), ("c", '{"cells": [1, {}, {"cell_type": "code", "outputs": 3}]}')):
        (folder / f"{name}.ipynb").write_text(content)
    page = write_report(folder).read_text()
    assert "a.ipynb cannot be read" in page
    assert "b.ipynb cannot be read" in page
    assert page.count("This cell cannot be shown") >= 4
    assert "The last cell." in page


def test_signs_that_no_file_can_hold_cost_only_themselves(folder: Path) -> None:
    half = {"output_type": "stream", "name": "stdout", "text": "before \ud800 after"}
    write_notebook(folder / "02-train.ipynb", code("print(name)", half))
    (folder / "record.json").write_text(json.dumps({**RECORD, "competition": "digits \udfff"}))
    page = write_report(folder).read_text()
    assert "before ? after" in page
    assert "digits ?" in page
    # The record keeps its place: the head is whole, and nothing is said to be damaged.
    assert "cannot be read" not in page


def test_the_page_stays_small(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebooks, "MOST_PAGE_BYTES", 300_000)
    coded = base64.b64encode(b"\x89PNG" + bytes(100_000)).decode()
    lines = {"output_type": "stream", "name": "stdout", "text": "a line of a log\n" * 10_000}
    huge = shown({"image/png": "A" * 5_000_000})
    bar = {"output_type": "stream", "name": "stderr", "text": "".join(f"\r{n}%" for n in range(1000)) + "\rdone\n"}
    write_notebook(
        folder / "02-train.ipynb",
        code("log", lines, bar),
        code("huge", huge),
        *[code("p", shown({"image/png": coded}))] * 9,
    )
    page = write_report(folder).read_text()
    assert len(page) < 450_000
    assert "characters are left out here" in page
    assert "A picture of 5.0 MB" in page
    assert "cells are left out to keep this page small" in page
    assert "999%" not in page


# --- That nothing in it runs ---


def test_foreign_html_is_written_anew() -> None:
    for content, wanted in (
        ("<b onclick=x>bold", "<b>bold</b>"),
        ("a</div></main><i>b", "a<i>b</i>"),
        ("<script>x</script>y<style>z</style>", "y"),
        ("<script>never closed", ""),
        ("<svg><a>in</svg>out", "out"),
        ('<a href="jAvascript:x">l</a>', "<a>l</a>"),
        ('<a href=" https://e.x/?a=1&amp;b">l</a>', '<a href="https://e.x/?a=1&amp;b" rel="noopener noreferrer">l</a>'),
        ('<img src="data:text/html;base64,AA" alt="&lt;b>">', "<i>[&lt;b&gt;]</i>"),
        ('<img src="data:image/png;base64,AA==" onload=x>', '<img src="data:image/png;base64,AA==">'),
        ('<p style="color:red;position:fixed;margin:-99px">', '<p style="color:red"></p>'),
        ('<p style="background:url(x);width:calc(9px)">', "<p></p>"),
        ('<p style="color:rgb(1, 2, 3);font-weight:bold">', '<p style="color:rgb(1, 2, 3);font-weight:bold"></p>'),
        ('<span class="kwb-done ansi-red-fg k">', '<span class="ansi-red-fg k"></span>'),
        ("1 < 2 &amp; 3 <!-- x --> &lt;b&gt;", "1 &lt; 2 &amp; 3  &lt;b&gt;"),
        ('<p id="x" title="a&quot;b" data-x=1>', '<p title="a&quot;b"></p>'),
    ):
        assert cleaned(content) == wanted
    assert clean.clean("<h1>a</h1><h6>b</h6>", lower=2) == "<h3>a</h3><h6>b</h6>"


@pytest.mark.parametrize("piece", ["<!--", "<a", "</p", "<?", "<div>", "<script>", "&", "<p style='"])
def test_odd_html_takes_no_time(piece: str) -> None:
    start = time.monotonic()
    cleaned(piece * (1_000_000 // len(piece)))
    assert time.monotonic() - start < 10


def opened(browser: Any, path: Path, **options: Any) -> tuple[Any, list[str]]:
    """The page in a browser, and all that it asked for."""
    page = browser.new_page(**options)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_timeout(500)
    return page, [url for url in asked if not url.startswith("data:")]


@pytest.mark.browser
def test_in_a_browser_offline_all_is_seen_and_nothing_runs(folder: Path, tmp_path: Path) -> None:
    path = write_report(folder)
    sizes = {"wide": {"width": 1280, "height": 900}, "phone": {"width": 400, "height": 800}}
    grounds = set()
    with chromium() as browser:
        for name, size in sizes.items():
            for scheme in ("light", "dark"):
                page, asked = opened(browser, path, viewport=size, color_scheme=scheme)
                assert asked == [path.as_uri()]
                assert page.title() == f"{folder.name}, tiny-digits · practice"
                for text in ("0.9876", "0.9765", "2 GPUs (Tesla T4): both proved", "its fact", "The last cell."):
                    assert page.get_by_text(text, exact=text[0] == "0").first.is_visible(), text
                images = page.locator("img").evaluate_all("all => all.map(one => [one.naturalWidth, one.clientWidth])")
                assert sum(natural > 100 and 100 < client <= size["width"] for natural, client in images) == 3
                assert page.evaluate("document.documentElement.scrollWidth") == size["width"]
                grounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
                page.get_by_label("code").uncheck()
                assert not page.locator(".input").first.is_visible()
                page.get_by_label("code").check()
                page.screenshot(path=str(tmp_path / f"report-{name}-{scheme}.png"), full_page=True)
                for link in page.locator("main a").all():
                    assert not (link.get_attribute("href") or "").lower().startswith("java")
                page.close()
    assert len(grounds) == 2


@pytest.mark.browser
def test_the_policy_alone_would_hold_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "record.json").unlink()
    monkeypatch.setattr(notebooks, "clean", lambda content, lower=0: content.replace("http-equiv", "x"))
    path = write_report(folder)
    assert "<script>" in path.read_text()
    with chromium() as browser:
        page = browser.new_page()
        failed: list[str | None] = []
        page.on("requestfailed", lambda request: failed.append(request.failure))
        page.on("requestfinished", lambda request: failed.append(request.url[:4]))
        page.goto(path.as_uri())
        page.wait_for_timeout(500)
        assert page.title() == folder.name
        # Tried, since nothing was cleaned; refused by the browser before anything left it.
        assert set(failed) - {"file", "data"} == {"csp"}


# --- A real run ---


@pytest.mark.slow
@pytest.mark.browser
def test_a_real_run(tmp_path: Path) -> None:
    project: Project = make_project(tmp_path)
    tiny_competition(project.hosted, "tiny-digits", rows=200, test_rows=100, side=8)
    (project.folder / "variables.env").write_text("COMPETITION=tiny-digits\nSOURCE=practice\nEPOCHS=2\n")
    done = project.kwb("run")
    assert done.returncode == 0, done.stderr
    folder = next((project.output / "runs").iterdir())
    record = json.loads((folder / "record.json").read_text())
    path = write_report(folder)
    assert str(project.folder) not in path.read_text()
    with chromium() as browser:
        page, asked = opened(browser, path, viewport={"width": 1280, "height": 900})
        assert asked == [path.as_uri()]
        for text in (f"{record['cv']['score']:.4f}", f"{record['lb']['public']:.4f}", "1 · Data", "3 · Submit"):
            assert page.get_by_text(text).first.is_visible(), text
        widths = page.locator("img").evaluate_all("images => images.map(image => image.naturalWidth)")
        assert len([width for width in widths if width > 100]) == len(record["pictures"])
        page.screenshot(path=str(tmp_path / "report.png"), full_page=True)
