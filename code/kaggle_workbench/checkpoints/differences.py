"""What differs between the training that wrote a checkpoint and the one that wants to go on from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

WORKBENCH = "kaggle-workbench"
_SHOWN = 3
_CODE_PARTS = {"code", "values", "python"}
_ABSENT = object()


@dataclass(frozen=True)
class Comparison:
    """Two fingerprints side by side.

    Attributes:
        differences: What forbids going on, for people: "layer 3 (Conv2D): filters 32 -> 64".
        notes: What may matter and forbids nothing: "keras 3.8 -> 3.15".
    """

    differences: tuple[str, ...]
    notes: tuple[str, ...]

    def sentence(self) -> str:
        """The first differences, in one line."""
        shown = "; ".join(self.differences[:_SHOWN])
        more = len(self.differences) - _SHOWN
        return f"{shown}; and {more} more" if more > 0 else shown


def compare(before: Mapping[str, Any], now: Mapping[str, Any]) -> Comparison:
    """Compare the fingerprint in a checkpoint with this training's.

    Args:
        before: As it stands in the checkpoint.
        now: This training's; of the same form. What only one of them tells is not compared.
    """
    versions = before.get("versions", {}), now.get("versions", {})
    changed = [name for name in versions[0] if name in versions[1] and versions[0][name] != versions[1][name]]
    told = {name: f"{name} {versions[0][name]} -> {versions[1][name]}" for name in changed}
    # Places have other versions of Keras and Python; of the code that feeds and restores a training they must not.
    notes = [sentence for name, sentence in told.items() if name != WORKBENCH]
    # Another Keras may describe the same layer with more words, or fewer.
    keras = [str(found.get("keras", "")) for found in versions]
    same_keras = keras[0] == keras[1]
    found = [told[WORKBENCH]] if WORKBENCH in told else []
    if "layers" in before and "layers" in now:
        found += _layers(before["layers"], now["layers"], strict=same_keras)
    if same_keras and before.get("connections") != now.get("connections"):
        found.append("the network: its layers are connected in another way")
    for name, title in _TITLES.items():
        if name in before and name in now:
            found += _part(title, before[name], now[name], notes, strict=same_keras)
    return Comparison(tuple(found), tuple(notes))


_TITLES = {
    "model": "the network",
    "weights": "the network's weights",
    "optimizer": "the optimizer",
    "loss": "the loss",
    "metrics": "the metrics",
    # Before the data, which they divide.
    "seed": "the seed",
    "batch_size": "the batch size",
    "inputs": "the training data",
    "targets": "the training targets",
    "held_back": "the data held back",
    "class_weight": "class_weight",
    "augment": "augment",
    "order": "batches.py, which orders the rows",
    "backend": "the backend",
}


def _layers(before: list[Any], now: list[Any], *, strict: bool) -> Iterator[str]:
    if len(before) != len(now):
        yield f"the network: {len(before)} layers -> {len(now)}"
    for number, (old, new) in enumerate(zip(before, now, strict=False), start=1):
        where = f"layer {number} ({old['class']})"
        if old["class"] != new["class"]:
            yield f"layer {number}: {old['class']} -> {new['class']}"
            continue
        for path, a, b in _leaves(old.get("config"), new.get("config"), strict=strict):
            yield f"{where}: {path} {_shown(a)} -> {_shown(b)}"
        if old.get("code") and new.get("code"):
            yield from _code(where, old["code"], new["code"], [])


def _part(title: str, old: Any, new: Any, notes: list[str], *, strict: bool) -> Iterator[str]:
    if _is_array(old) and _is_array(new):
        if old != new:
            yield f"{title}: {_array(old, new)}"
        return
    for path, a, b in _leaves(old, new, strict=strict):
        if _is_code(a) and _is_code(b):
            yield from _code(title, a, b, notes)
        elif _is_code(a) and b is None:
            yield f"{title}: none now"
        elif _is_code(b) and a is None:
            yield f"{title}: none before"
        elif path.rsplit(".", 1)[-1] == "sha256":
            yield f"{title}: other values"
        else:
            yield f"{title}: {path + ' ' if path else ''}{_shown(a)} -> {_shown(b)}"


def _leaves(old: Any, new: Any, path: str = "", *, strict: bool) -> Iterator[tuple[str, Any, Any]]:
    if _is_code(old) or _is_code(new):
        if old != new:
            yield path, old, new
    elif isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in [*old, *(name for name in new if name not in old)]:
            a, b = old.get(name, _ABSENT), new.get(name, _ABSENT)
            if not strict and (a is _ABSENT or b is _ABSENT):
                continue
            # "config" says only that what follows is a configuration.
            inner = path if name == "config" else f"{path}.{name}".strip(".")
            yield from _leaves(a, b, inner, strict=strict)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (a, b) in enumerate(zip(old, new, strict=True), start=1):
            yield from _leaves(a, b, f"{path}[{number}]" if isinstance(a, Mapping | list) else path, strict=strict)
    elif old != new:
        yield path, old, new


def _code(title: str, old: Mapping[str, Any], new: Mapping[str, Any], notes: list[str]) -> Iterator[str]:
    if old["python"] != new["python"]:
        notes.append(f"{title}: its code was not compared (Python {old['python']} -> {new['python']})")
    elif old["code"] != new["code"]:
        yield f"{title}: its code has changed"
        return
    if old["values"] != new["values"] and old["python"] == new["python"]:
        yield f"{title}: values it uses have changed"


def _is_code(value: Any) -> bool:
    return isinstance(value, Mapping) and set(value) == _CODE_PARTS


def _is_array(value: Any) -> bool:
    return isinstance(value, Mapping) and "kind" in value


def _array(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    if old.get("shape") != new.get("shape") and "shape" in old and "shape" in new:
        return f"shape {tuple(old['shape'])} -> {tuple(new['shape'])}"
    if old["kind"] != new["kind"]:
        return f"{old['kind']} -> {new['kind']}"
    return "other values"


def _shown(value: Any) -> str:
    if value is _ABSENT:
        return "nothing"
    if _is_code(value):
        return "a function of your own"
    if isinstance(value, Mapping):
        value = value.get("class_name", "other settings")
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."
