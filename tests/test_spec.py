"""`kwb spec check`: every rule on a file made for it, real public files, the command itself."""

from __future__ import annotations

import ast
import csv
import json
import os
import re
from pathlib import Path

import pytest

from kaggle_workbench.cli import main
from kaggle_workbench.container.findings import Finding
from kaggle_workbench.container.spec import check, read_spec
from kaggle_workbench.container.spec_model import Base, Spec
from kaggle_workbench.container.spec_read import read_document
from kaggle_workbench.container.spec_write import dump_spec, write_spec
from kaggle_workbench.errors import UsageError
from spec_cases import CASES, GOOD, START

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared" / "specs"
CODE = ROOT / "code" / "kaggle_workbench" / "container"


def spec_file(folder: Path, text: str, name: str = "spec.yaml") -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


def found(path: Path) -> list[Finding]:
    return [finding for finding in check(path).findings if finding.severity != "note"]


def test_good_file_has_no_finding(tmp_path: Path) -> None:
    assert found(spec_file(tmp_path, GOOD)) == []


def expected_line(text: str, old: str, new: str) -> int:
    if "@" in new:
        return GOOD[: GOOD.index(old)].count("\n") + new[: new.index("@")].count("\n") + 1
    pairs = zip(GOOD.splitlines(), text.splitlines(), strict=False)
    return next(number for number, (before, now) in enumerate(pairs, start=1) if before != now)


@pytest.mark.parametrize(("rule", "severity", "old", "new"), CASES, ids=[f"{c[0]}-{i}" for i, c in enumerate(CASES)])
def test_rule(rule: str, severity: str, old: str, new: str, tmp_path: Path) -> None:
    assert GOOD.count(old) == 1, f"{old!r} must stand once in the good file"
    text = GOOD.replace(old, new.replace("@", ""))
    findings = found(spec_file(tmp_path, text))
    mine = [finding for finding in findings if finding.rule == rule]
    assert mine, findings
    assert {finding.severity for finding in mine} == {severity}
    assert all(finding.message and finding.fix for finding in findings)
    if new and rule != "newer-field":
        assert expected_line(text, old, new) in [finding.mark.line for finding in mine], mine
    # A change made for one rule makes no errors of other rules, except where one fault is two.
    others = {finding.rule for finding in findings if finding.severity == "error"} - {rule}
    assert others <= {"mount-twice", "project-mount"}, findings


def test_places_count_from_one(tmp_path: Path) -> None:
    text = GOOD.replace("target: /data/", "target: data/")
    [finding] = found(spec_file(tmp_path, text))
    lines = text.splitlines()
    assert lines[finding.mark.line - 1][finding.mark.column - 1 :] == "data/"


def test_conflict_hides_no_other_message_and_needs_none(tmp_path: Path) -> None:
    text = GOOD.replace("    name: My-Project\n", "<<<<<<< HEAD\n    name: a\n=======\n    name: b\n>>>>>>> b\n")
    findings = found(spec_file(tmp_path, text))
    assert {finding.rule for finding in findings} == {"merge-conflict"}
    assert [finding.mark.line for finding in findings] == [4, 6, 8]


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (b"", "not-a-mapping"),
        (b"- a\n", "not-a-mapping"),
        (b"word", "not-a-mapping"),
        (b"a: b\n\xff\xfe", "not-utf8"),
        (b"\x00", "yaml-syntax"),
        (b"a: 1\n---\na: 2\n", "yaml-syntax"),
        (b"a: &x [*x]\n", "spec-version"),
        (b"? [a]: b\n", "yaml-syntax"),
        (b"{" * 2000, "yaml-syntax"),
        (b"#" * (1 << 20) + b"#", "too-large"),
    ],
)
def test_strange_files_give_findings_and_no_trace(data: bytes, rule: str, tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_bytes(data)
    assert rule in {finding.rule for finding in check(path).errors}


def test_keys_are_never_shown(tmp_path: Path) -> None:
    key = "nvapi-" + "Zq9" * 12
    findings = found(spec_file(tmp_path, GOOD.replace('(starts with "nvapi-")', key)))
    assert [finding.rule for finding in findings] == ["pasted-key"]
    assert key not in str(findings)


def test_compound_commands_that_hand_the_prefix_on_are_fine(tmp_path: Path) -> None:
    for start in (
        "export PROXY_PREFIX && cd /project/code && python3 app.py",
        "cd /project/code && streamlit run app.py --server.baseUrlPath=$PROXY_PREFIX",
        "cd code && . ./start.sh",
        "python3 app.py > /tmp/log 2>&1",
    ):
        assert found(spec_file(tmp_path, GOOD.replace(START, f"start_command: {start}"))) == [], start


def test_version_one_is_told_and_not_judged(tmp_path: Path) -> None:
    text = "specVersion: v1\nmeta:\n  name: x y\nenvironment:\n  base:\n    package_manager_environment: conda:/opt\n"
    path = spec_file(tmp_path, text)
    assert [finding.rule for finding in found(path)] == ["old-version"]
    with pytest.raises(UsageError, match="v1"):
        read_spec(path)


def test_read_spec_refuses_a_spec_with_errors(tmp_path: Path) -> None:
    path = spec_file(tmp_path, GOOD.replace("requested: 0", "requested: -2"))
    with pytest.raises(UsageError, match=r"spec\.yaml:97:24.*requested is -2"):
        read_spec(path)
    with pytest.raises(UsageError, match="no file"):
        read_spec(tmp_path / "none.yaml")


def test_project_app_replaces_image_app_of_its_name(tmp_path: Path) -> None:
    spec = read_spec(spec_file(tmp_path, GOOD.replace("- name: chat", "- name: jupyterlab")))
    assert [(app.name, app.port) for app in spec.apps] == [("jupyterlab", 8080), ("fetch", None)]


@pytest.mark.parametrize(
    ("image", "tag"), [("a/b:v1", "v1"), ("a/b", ""), ("h:5000/a/b", ""), ("h:5000/a/b:2@sha256:ab", "2")]
)
def test_tag(image: str, tag: str) -> None:
    assert Base(image=image).tag == tag


def test_moving_the_tag(tmp_path: Path) -> None:
    spec = read_spec(ROOT / ".project" / "spec.yaml").with_tag("v999")
    assert spec.environment.base.reference == "gcr.io/kaggle-gpu-images/python:v999"
    assert spec.environment.base.image_version == "999.0.0"
    write_spec(tmp_path / "spec.yaml", spec)
    assert read_spec(tmp_path / "spec.yaml") == spec


# --- how AI Workbench writes ------------------------------------------------------------------------


def test_good_file_is_written_as_it_was_read() -> None:
    assert dump_spec(read_document(GOOD.encode(), "x").spec) == GOOD


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("plain words", "plain words"),
        ("", '""'),
        ("1.0.9", "1.0.9"),
        ("24.01", '"24.01"'),
        ("1e3", '"1e3"'),
        ("0x1F", '"0x1F"'),
        ("12:30", '"12:30"'),
        ("yes", '"yes"'),
        ("True", '"True"'),
        ("null", '"null"'),
        ("~", '"~"'),
        ("2025-01-31T12:00:00Z", '"2025-01-31T12:00:00Z"'),
        ("20240506165913", '"20240506165913"'),
        ("http://localhost:8080/", "http://localhost:8080/"),
        ("it's", "it's"),
        ("a: b", "'a: b'"),
        ("a #b", "'a #b'"),
        ("[ x == 'y' ]", "'[ x == ''y'' ]'"),
        ('"quoted"', "'\"quoted\"'"),
        ("- x", "'- x'"),
        ("-x", "-x"),
        ("*star", "'*star'"),
        ("ends:", "'ends:'"),
        (" padded ", "' padded '"),
        ("tab\there", '"tab\\there"'),
        ("straße, 日本", "straße, 日本"),
        ("two\nlines\n", "|\n        two\n        lines"),
        ("two\nlines", "|-\n        two\n        lines"),
    ],
)
def test_scalars_as_go_writes_them(value: str, written: str) -> None:
    text = dump_spec(Spec(meta=Spec().meta.__class__(description=value)))
    assert f"    description: {written}\n" in text
    assert read_document(text.encode(), "x").spec.meta.description == value


# --- real public files --------------------------------------------------------------------------------

# What each public file has, read by hand against the format's description; a file that is not named has nothing.
EXPECTED = {
    "AmandineFlachs__finexial": {"image-name": 1, "image-tag": 1},
    "HarleyCoops__NIMWorkbench": {"image-tag": 1},
    "Maverick11-ops__workbench-downloadable-nim": {"pkill-self": 1, "url-slash": 1},
    "NVIDIA__workbench-example-agentic-rag": {"url-slash": 1},
    "NVIDIA__workbench-example-competition-kernel": {"image-tag": 1, "mount-on-versioned": 2},
    "NVIDIA__workbench-example-llama3-finetune": {"mount-on-versioned": 1, "url-slash": 1},
    "NVIDIA__workbench-example-mistral-finetune": {"mount-on-versioned": 1, "url-slash": 1},
    "NVIDIA__workbench-example-nemo-ptuning": {"pkill-self": 1},
    "NVIDIA__workbench-example-nemotron-finetune": {"mount-on-versioned": 1},
    "NVIDIA__workbench-example-phi3-finetune": {"mount-on-versioned": 1, "url-slash": 1},
    "NVIDIA__workbench-llamafactory": {"image-name": 1},
    "Powerkiss__workbench-example-competition-kernel": {"image-tag": 1, "mount-on-versioned": 2},
    "aryamonani__workbench-example-hybrid-rag": {"image-name": 1, "image-tag": 1},
    "herve-ch__workbench-example-agentic-rag": {"url-slash": 1},
    "jacksodj__dgx-voice-assistant": {"app-no-start": 3, "url-slash": 2},
    "neill-k__nemotron-voice-agent": {"url-slash": 2},
    "pvbgeek__AI-based-System-Design-Builder": {
        "spec-version": 1,
        "meta-name": 1,
        "base-missing": 1,
        "project-mount": 1,
        "unknown-key": 4,
    },
    "sophwats__llama2-finetune": {"mount-on-versioned": 1, "url-slash": 1},
}


def public_files() -> list[dict[str, str]]:
    if os.environ.get("CI"):
        pytest.skip("the public specs are not part of the repository")
    if not (SHARED / "INDEX.tsv").is_file():
        pytest.skip(f"no public specs in {SHARED}")
    with (SHARED / "INDEX.tsv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def test_public_files_are_judged_as_their_index_says() -> None:
    for row in public_files():
        path = SHARED / row["file"]
        report = check(path)
        counts: dict[str, int] = {}
        for finding in report.findings:
            if finding.severity != "note":
                counts[finding.rule] = counts.get(finding.rule, 0) + 1
        assert counts == EXPECTED.get(path.stem, {}), (row["file"], report.findings)
        known = row["spec_version"].startswith("v2")
        assert bool(report.errors) != known, row["file"]
        spec = read_document(path.read_bytes(), path.name).spec
        version, _, minor = row["spec_version"].partition(".")
        assert (spec.spec_version or "None", str(spec.spec_minor_version)) == (version, minor.replace("-", "0"))
        special, base = row["special"], spec.environment.base
        assert ("image :latest" in special) == (base.tag == "latest")
        assert ("untagged image" in special) == (known and not base.tag)
        assert f"registry {base.registry}" in special or base.registry in ("nvcr.io", "")
        compose = re.search(r"compose ([^;\s]+)", special)
        assert spec.environment.compose_file_path == (compose[1] if compose else "")


def test_files_that_workbench_wrote_come_out_unchanged() -> None:
    written = [SHARED / row["file"] for row in public_files()]
    current = [path for path in written if "\n    name:" in path.read_text() and "\n    - path" in path.read_text()]
    assert len(current) >= 6
    for path in current:
        assert dump_spec(read_document(path.read_bytes(), path.name).spec) == path.read_text(), path.name


# --- the command ---------------------------------------------------------------------------------------


def test_command_counts_and_exits_by_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    warned = spec_file(tmp_path, GOOD.replace("python-basic:1.0.9", "python-basic"), "warned.yaml")
    assert main(["spec", "check", str(warned)]) == 0
    shown = capsys.readouterr()
    assert "warned.yaml:20:16: warning [image-tag]" in shown.out
    assert shown.err == "0 errors, 1 warning.\n"
    wrong = spec_file(tmp_path, GOOD.replace("specVersion: v2", "specVersion: v9"), "wrong.yaml")
    assert main(["spec", "check", str(wrong), "--format", "json"]) == 2
    shown = capsys.readouterr()
    [finding] = [entry for entry in json.loads(shown.out) if entry["severity"] == "error"]
    assert finding["rule"] == "spec-version"
    assert (finding["file"], finding["line"], finding["column"]) == ("wrong.yaml", 1, 14)
    assert shown.err == "1 error, 0 warnings.\n"
    assert main(["spec", "check", str(tmp_path / "nowhere")]) == 2


def rules_in_code() -> set[str]:
    # Two rules are chosen by a variable, and so are not literals in their calls.
    rules = {"layout-type", "layout-storage", "yaml-syntax"}
    for path in (*CODE.glob("*_rules.py"), CODE / "spec_read.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                place = {"error": 0, "warn": 0, "Finding": 3}.get(name)
                argument = node.args[place] if place is not None and len(node.args) > place else None
                if isinstance(argument, ast.Constant):
                    rules.add(argument.value)
    return rules


def test_every_rule_is_tried_and_told_in_the_docs() -> None:
    tests = "".join((ROOT / "tests" / name).read_text() for name in ("spec_cases.py", "test_project_rules.py"))
    assert {rule for rule in rules_in_code() if f'"{rule}"' not in tests} <= {"not-utf8", "too-large", "not-a-mapping"}
    told = re.findall(r"^\| `([a-z0-9-]+)`", (ROOT / "docs" / "spec.md").read_text(), re.MULTILINE)
    assert sorted(told) == sorted(rules_in_code())
