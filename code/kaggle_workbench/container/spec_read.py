"""From a spec's text to its types, with the place of every key and value.

YAML is read to its nodes only, never to objects: nodes keep lines and columns, and nothing in a file
can make one be built.
"""

from __future__ import annotations

import difflib
import re
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, is_dataclass
from typing import Any, TypeVar, get_args, get_origin

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from kaggle_workbench.container.findings import Finding, Mark
from kaggle_workbench.container.spec_model import Spec, keys

LARGEST_BYTES = 1 << 20
_TAG = "tag:yaml.org,2002:"
_CONFLICT = re.compile(r"(<{7}|>{7}|\|{7})( |$)|={7}$")
# Go reads these as true and false where a bool is wanted; YAML 1.2 reads them as words.
_OLD_BOOLS = {"yes": True, "on": True, "y": True, "no": False, "off": False, "n": False}
_KINDS = {int: "a whole number", bool: "true or false", str: "text"}

Model = TypeVar("Model")


@dataclass
class Document:
    """A spec as read: the types, where each key and value stands, and what the reading found.

    Attributes:
        file: The file's name for messages.
        text: Its text.
        spec: The typed spec; a missing key has its default.
        marks: Place of each value by path, such as `execution.apps[0].webapp_options.port`.
        key_marks: Place of each key, by the same path.
        quoted: Paths of the values that stand in quotes.
        findings: Findings so far.
        readable: Whether it is YAML and a mapping, so that rules about its content make sense.
    """

    file: str
    text: str
    spec: Spec = field(default_factory=Spec)
    marks: dict[str, Mark] = field(default_factory=dict)
    key_marks: dict[str, Mark] = field(default_factory=dict)
    quoted: set[str] = field(default_factory=set)
    findings: list[Finding] = field(default_factory=list)
    readable: bool = False

    def has(self, path: str) -> bool:
        """Whether the file holds this key."""
        return path in self.marks

    def mark(self, path: str) -> Mark:
        """Where the value stands; for a missing one, the nearest key around it."""
        while path and path not in self.marks:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
            if path in self.key_marks:
                return self.key_marks[path]
        return self.marks.get(path, Mark())

    def error(self, rule: str, where: str | Mark, message: str, fix: str) -> None:
        """Add an error at a path or a mark."""
        self._add("error", rule, where, message, fix)

    def warn(self, rule: str, where: str | Mark, message: str, fix: str) -> None:
        """Add a warning at a path or a mark."""
        self._add("warning", rule, where, message, fix)

    def _add(self, severity: str, rule: str, where: str | Mark, message: str, fix: str) -> None:
        mark = self.mark(where) if isinstance(where, str) else where
        self.findings.append(Finding(self.file, mark, severity, rule, message, fix))


def read_document(data: bytes, file: str) -> Document:
    """Read a spec's bytes; every fault becomes a finding, none an exception.

    Args:
        data: The file's content.
        file: Its name for messages.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        document = Document(file, "")
        document.error("not-utf8", Mark(line), "The file is not UTF-8 text from this line on.", "Save it as UTF-8.")
        return document
    document = Document(file, text)
    if len(data) > LARGEST_BYTES:
        document.error("too-large", Mark(), "The file is larger than 1 MB, which no spec is.", "Is it the right file?")
        return document
    conflicts = [number for number, line in enumerate(text.splitlines(), start=1) if _CONFLICT.match(line)]
    for number in conflicts:
        mark_text = text.splitlines()[number - 1].split(" ")[0]
        document.error(
            "merge-conflict",
            Mark(number),
            f"A merge left its mark {mark_text} here.",
            "Keep one of the two sides and delete the lines of marks.",
        )
    root = None if conflicts else _compose(document)
    if root is not None:
        _comments(document, root)
        document.marks[""] = Mark()
        document.readable = True
        if _version(root) == "v1":
            # Other keys and other types; nothing of it is used.
            document.spec = Spec(spec_version="v1")
        else:
            document.spec = _mapping(document, root, Spec, "")
    return document


def _version(root: MappingNode) -> str:
    return next((str(value.value) for key, value in root.value if key.value == "specVersion"), "")


def _compose(document: Document) -> MappingNode | None:
    try:
        root = YAML(typ="rt", pure=True).compose(document.text)
    except MarkedYAMLError as error:
        document.findings.append(_syntax(document, error))
        return None
    except RecursionError:
        document.error("yaml-syntax", Mark(), "The file is nested too deeply for a spec.", "Is it the right file?")
        return None
    except (YAMLError, ValueError) as error:
        document.error("yaml-syntax", Mark(), f"This is not YAML: {error}.", "Correct it.")
        return None
    if isinstance(root, MappingNode):
        return root
    document.error(
        "not-a-mapping",
        Mark(),
        "The file is empty." if root is None else "The file is not a mapping of keys to values.",
        "Start from the example in docs/spec.md.",
    )
    return None


def _syntax(document: Document, error: MarkedYAMLError) -> Finding:
    mark = error.problem_mark or error.context_mark
    place = Mark(mark.line + 1, mark.column + 1) if mark else Mark()
    problem = str(error.problem or error.context or "it cannot be read").strip()
    lines = document.text.splitlines()
    line = lines[place.line - 1] if place.line <= len(lines) else ""
    if "escape character" in problem:
        wrong = line[place.column - 2 : place.column] if place.column > 1 else ""
        return Finding(
            document.file,
            place,
            "error",
            "invalid-escape",
            f'"{wrong}" is not an escape that YAML knows inside double quotes.',
            "Write the text in single quotes or as a block (|); there a backslash stands for itself.",
        )
    rule, fix = "yaml-syntax", "Check the indentation and the quotes of this line and the one above it."
    if "\\t" in problem:
        fix = "Indent with spaces; YAML allows no tabs."
    elif "mapping values are not allowed" in problem:
        fix = 'Check the indentation; text that holds ": " needs quotes.'
    if error.context and error.context_mark and error.context_mark is not mark:
        problem += f" ({error.context.strip()} that starts on line {error.context_mark.line + 1})"
    return Finding(document.file, place, "error", rule, f"This is not YAML: {problem}.", fix)


def _comments(document: Document, root: Node) -> None:
    spans = [(node.start_mark.index, node.end_mark.index) for node in _scalars(root)]
    lines = document.text.splitlines(keepends=True)
    offset, found = 0, []
    for number, line in enumerate(lines, start=1):
        for match in re.finditer(r"(?:^|(?<=\s))#", line):
            if not any(start <= offset + match.start() < end for start, end in spans):
                found.append(Mark(number, match.start() + 1))
                break
        offset += len(line)
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        document.warn(
            "comment",
            found[0],
            f"There is a comment here{more}; AI Workbench deletes comments when it writes the file.",
            "Move what it says into README.md or a description field.",
        )


def _scalars(node: Node, seen: set[int] | None = None) -> Iterator[ScalarNode]:
    seen = set() if seen is None else seen
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, ScalarNode):
        yield node
    elif isinstance(node, MappingNode):
        for key, value in node.value:
            yield from _scalars(key, seen)
            yield from _scalars(value, seen)
    elif isinstance(node, SequenceNode):
        for value in node.value:
            yield from _scalars(value, seen)


def _mapping(document: Document, node: Node, model: Callable[..., Model], path: str) -> Model:
    known = keys(model)
    held: dict[str, Any] = {}
    seen: dict[str, Mark] = {}
    for key_node, value in node.value:
        if not isinstance(key_node, ScalarNode):
            document.error("yaml-syntax", _mark(key_node), "A key here is not text.", "Write keys as plain words.")
            continue
        name = str(key_node.value)
        place, inner = _mark(key_node), f"{path}.{name}" if path else name
        if name in seen:
            document.error(
                "duplicate-key",
                place,
                f"{inner} is given a second time; the first is on line {seen[name].line}.",
                "Keep one of the two.",
            )
            continue
        seen[name] = place
        document.key_marks[inner] = place
        document.marks[inner] = _mark(value)
        key = known.get(name)
        if key is None:
            _unknown(document, inner, name, list(known), place)
            continue
        held[key.attribute] = _value(document, value, key.type, inner)
    return model(**{name: value for name, value in held.items() if value is not None})


def _value(document: Document, node: Node, hint: Any, path: str) -> Any:
    """The value in its type, or None (the default holds) for an empty or a wrong one."""
    if get_origin(hint) is types.UnionType:
        hint = next(kind for kind in get_args(hint) if kind is not type(None))
    if isinstance(node, ScalarNode) and node.tag == f"{_TAG}null" and node.style is None:
        return None
    if get_origin(hint) is tuple:
        if not isinstance(node, SequenceNode):
            return _wrong(document, path, "a list", node)
        item = get_args(hint)[0]
        values = []
        for index, element in enumerate(node.value):
            document.marks[f"{path}[{index}]"] = _mark(element)
            values.append(_value(document, element, item, f"{path}[{index}]"))
        return tuple(value if value is not None else item() for value in values)
    if isinstance(hint, type) and is_dataclass(hint):
        if not isinstance(node, MappingNode):
            return _wrong(document, path, "a mapping of keys to values", node)
        return _mapping(document, node, hint, path)
    if not isinstance(node, ScalarNode):
        return _wrong(document, path, _KINDS[hint], node)
    return _scalar(document, node, hint, path)


def _scalar(document: Document, node: ScalarNode, hint: Any, path: str) -> Any:
    text, plain = str(node.value), node.style is None
    if not plain:
        document.quoted.add(path)
    if hint is str:
        return text
    if hint is bool:
        if plain and text.lower() in ("true", "false"):
            return text.lower() == "true"
        if plain and text.lower() in _OLD_BOOLS:
            return _OLD_BOOLS[text.lower()]
    elif plain and re.fullmatch(r"[-+]?\d{1,15}", text):
        return int(text)
    return _wrong(document, path, _KINDS[hint], node)


def _wrong(document: Document, path: str, wanted: str, node: Node) -> None:
    if isinstance(node, ScalarNode):
        shown = f'"{node.value}" in quotes' if node.style is not None else repr(str(node.value))
        found = shown if len(shown) < 40 else "a text"
    else:
        found = "a list" if isinstance(node, SequenceNode) else "a mapping"
    fix = f"Write {wanted}."
    if isinstance(node, ScalarNode) and node.style is not None and re.fullmatch(r"\d+|true|false", str(node.value)):
        fix = f"Write {path.rsplit('.', 1)[-1]}: {node.value} without quotes."
    document.error("wrong-type", path, f"{path} must be {wanted}; it is {found}.", fix)


def _unknown(document: Document, path: str, name: str, known: list[str], place: Mark) -> None:
    if name == "is_root" and path.endswith("user_info.is_root"):
        # Part of v2 before minor version 1; the rules about versions judge it.
        return
    if path.startswith("execution.mounts[") and name == "source":
        document.error(
            "mount-source",
            place,
            "A mount has no source in the spec; each machine sets its own.",
            "Delete the line; set the folder in AI Workbench, or with `./kwb up --input DIR --output DIR`.",
        )
        return
    if path in ("environment.compose-file-path", "environment.compose_file-path", "environment.compose-file_path"):
        document.error(
            "compose-hyphen", place, "The key is spelled with hyphens here.", "Write compose_file_path: (underscores)."
        )
        return
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    where = f"in {path.rpartition('.')[0]}" if "." in path else "at the top of the file"
    document.warn(
        "unknown-key",
        place,
        f"AI Workbench defines no key {name!r} {where}.",
        f"Did you mean {close[0]}?" if close else "Delete it; the known keys here are: " + ", ".join(known) + ".",
    )


def _mark(node: Node) -> Mark:
    return Mark(node.start_mark.line + 1, node.start_mark.column + 1)
