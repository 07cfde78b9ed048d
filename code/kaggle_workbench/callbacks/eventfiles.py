"""TensorBoard's event files: numbers by name and step, one checked record after the other.

Needs the package `tensorboard` and nothing else. Its own `SummaryWriter` would import TensorFlow wherever that is
installed, whatever Keras computes with.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

# TensorBoard reads files with "tfevents" in their name, in the order of their names; the end marks ours.
_NAME, _OURS = "events.out.tfevents.{:010d}.kwb", "events.out.tfevents.*.kwb"
_HEADER, _CHECK = struct.Struct("<QI"), struct.Struct("<I")
# No record of ours is longer; a damaged length may say anything.
_LONGEST = 1 << 20


class Event(NamedTuple):
    """The numbers of one step.

    Attributes:
        step: Number of the epoch, from 1.
        at: When it was written, in seconds since 1970.
        numbers: Value by name.
    """

    step: int
    at: float
    numbers: Mapping[str, float]


def files(folder: Path) -> list[Path]:
    """Our event files in the folders below `folder`, oldest first; files of other writers are left alone."""
    return sorted(folder.glob(f"*/{_OURS}"), key=lambda file: file.name)


def new_name(old: list[Path], now: float) -> str:
    """A name behind those of `old`: a TensorBoard that is looking on goes forward in the order of the names."""
    newest = max((int(file.name.split(".")[3]) for file in old), default=0)
    return _NAME.format(max(int(now), newest + 1))


def head(now: float) -> bytes:
    """What a file begins with: its version, and that what other files of the folder say no longer holds."""
    from tensorboard.compat.proto.event_pb2 import Event as Message
    from tensorboard.compat.proto.event_pb2 import SessionLog

    start = Message(wall_time=now, step=0, session_log=SessionLog(status=SessionLog.START))
    return _record(Message(wall_time=now, file_version="brain.Event:2")) + _record(start)


def written(event: Event) -> bytes:
    """An event as it stands in a file."""
    from tensorboard.compat.proto.event_pb2 import Event as Message
    from tensorboard.compat.proto.summary_pb2 import Summary

    values = [Summary.Value(tag=name, simple_value=value) for name, value in event.numbers.items()]
    return _record(Message(wall_time=event.at, step=event.step, summary=Summary(value=values)))


def read(file: Path) -> Iterator[Event]:
    """The events in a file, up to where a kill or a full disk cut it off."""
    from tensorboard.compat.proto.event_pb2 import Event as Message
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

    content, start = file.read_bytes(), 0
    while start + _HEADER.size <= len(content):
        length, _ = _HEADER.unpack_from(content, start)
        start += _HEADER.size
        if length > _LONGEST or start + length + _CHECK.size > len(content):
            return
        body = content[start : start + length]
        if _CHECK.unpack_from(content, start + length)[0] != masked_crc32c(body):
            return
        message = Message.FromString(body)
        if message.HasField("summary"):
            numbers = {value.tag: value.simple_value for value in message.summary.value}
            yield Event(message.step, message.wall_time, numbers)
        start += length + _CHECK.size


def _record(message: Any) -> bytes:
    from tensorboard.summary.writer.record_writer import RecordWriter

    content = io.BytesIO()
    RecordWriter(content).write(message.SerializeToString())
    return content.getvalue()
