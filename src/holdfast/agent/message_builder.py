"""Builds the parts of one message from the deltas of a model. Pure.

A `MessageBuilder` is one attempt of one answer. `add` returns what changed, in the terms of the live stream: the part,
its kind, and the added text. `parts` returns the message so far at any time, so that what is stored after a cancel is
exactly what was streamed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_never

import msgspec

from holdfast.models.protocol import (
    CallArguments,
    CallEnd,
    CallStart,
    ModelDelta,
    ReasoningDelta,
    ReasoningEnd,
    Stop,
    TextDelta,
    UsageReport,
)
from holdfast.schema.base import MAX_DEPTH, Value, is_nested_deeper
from holdfast.schema.events import DeltaKind
from holdfast.schema.messages import Part, Reasoning, Text, ToolCall
from holdfast.schema.usage import Usage


class PartGrew(Value, frozen=True):
    """Text was added to a part. ``opened``: it is the first text of the part."""

    part: int
    of: DeltaKind
    text: str
    opened: bool = False


class PartClosed(Value, frozen=True):
    """A part is complete."""

    part: int


class _OpenText:
    __slots__ = ("chunks",)

    def __init__(self) -> None:
        self.chunks: list[str] = []

    def part(self) -> Part:
        return Text("".join(self.chunks))


class _OpenReasoning:
    __slots__ = ("chunks", "duration", "opaque", "started", "wire")

    def __init__(self) -> None:
        self.chunks: list[str] = []
        self.opaque: dict[str, Any] | None = None
        self.wire = ""
        self.started = 0.0
        self.duration: float | None = None

    def part(self) -> Part:
        return Reasoning("".join(self.chunks), wire=self.wire, opaque=self.opaque, duration=self.duration)


class _OpenCall:
    __slots__ = ("chunks", "id", "name", "opaque", "provider_id", "wire")

    def __init__(self, call_id: str, start: CallStart) -> None:
        self.id = call_id
        self.name = start.name
        self.provider_id = start.provider_id
        self.chunks: list[str] = []
        self.opaque: dict[str, Any] | None = None
        self.wire = ""

    def part(self) -> Part:
        arguments, malformed = _arguments("".join(self.chunks))
        return ToolCall(
            id=self.id,
            name=self.name,
            arguments=arguments,
            malformed=malformed,
            provider_id=self.provider_id,
            opaque=self.opaque,
            wire=self.wire,
        )


_Open = _OpenText | _OpenReasoning | _OpenCall


class MessageBuilder:
    """The answer of one attempt so far."""

    def __init__(self, new_call_id: Callable[[], str], *, seconds: Callable[[], float] | None = None) -> None:
        """``seconds`` reads a clock; without it, reasoning has no duration."""
        self._new_call_id = new_call_id
        self._seconds = seconds
        self._slots: list[_Open] = []
        self._done: dict[int, Part] = {}
        self._calls: dict[int, int] = {}
        self._writing: int | None = None
        """The text or reasoning part that is open."""
        self.closed = 0
        """The number of complete parts before the first incomplete one."""
        self.usage: Usage | None = None
        self.stop: Stop | None = None

    def add(self, delta: ModelDelta) -> tuple[PartGrew | PartClosed, ...]:
        """Add one delta. Returns what changed, in order."""
        match delta:
            case TextDelta(text):
                return self._write(_OpenText, "text", text)
            case ReasoningDelta(text):
                return self._write(_OpenReasoning, "reasoning", text)
            case ReasoningEnd():
                return self._end_reasoning(delta)
            case CallStart():
                return self._start_call(delta)
            case CallArguments(index, text):
                slot = self._calls.get(index)
                if slot is None or slot in self._done:
                    return ()
                self._slots[slot].chunks.append(text)
                return (PartGrew(slot, "arguments", text),)
            case CallEnd():
                return self._end_call(delta)
            case UsageReport(usage):
                self.usage = usage
                return ()
            case Stop():
                self.stop = delta
                return self._close_all()
            case _:
                assert_never(delta)

    def parts(self) -> tuple[Part, ...]:
        """Return every part so far, complete or not."""
        return tuple(self._done.get(slot) or self._slots[slot].part() for slot in range(len(self._slots)))

    @property
    def is_empty(self) -> bool:
        """Whether there is neither text nor a call."""
        return not any(
            isinstance(part, ToolCall) or (isinstance(part, Text) and part.text.strip()) for part in self.parts()
        )

    def complete_parts(self) -> tuple[Part, ...]:
        """Return the parts of a message that was cut off, without calls whose arguments are incomplete."""
        return tuple(
            self._done.get(slot) or open_part.part()
            for slot, open_part in enumerate(self._slots)
            if slot in self._done or not isinstance(open_part, _OpenCall)
        )

    def cut_call(self) -> str | None:
        """Return the id of the last part if it is a call whose arguments are not a complete JSON object.

        Meant for an answer that reached the output limit: such a call must not run, not even if it could be repaired.
        """
        last = self._slots[-1] if self._slots else None
        if not isinstance(last, _OpenCall):
            return None
        text = "".join(last.chunks)
        return last.id if not text.strip() or _arguments(text)[1] is not None else None

    def call(self, slot: int) -> tuple[str, str] | tuple[None, None]:
        """Return the id and the tool name of a part that is a call."""
        found = self._slots[slot]
        return (found.id, found.name) if isinstance(found, _OpenCall) else (None, None)

    def _write(
        self, kind: type[_OpenText] | type[_OpenReasoning], of: DeltaKind, text: str
    ) -> tuple[PartGrew | PartClosed, ...]:
        if not text:
            return ()
        slot = self._writing
        if slot is not None and type(self._slots[slot]) is kind:
            self._slots[slot].chunks.append(text)
            return (PartGrew(slot, of, text),)
        before = self._close_writing()
        slot = self._open(kind())
        self._writing = slot
        self._slots[slot].chunks.append(text)
        return (*before, PartGrew(slot, of, text, opened=True))

    def _end_reasoning(self, delta: ReasoningEnd) -> tuple[PartGrew | PartClosed, ...]:
        before: tuple[PartGrew | PartClosed, ...] = ()
        slot = self._writing
        if slot is None or not isinstance(self._slots[slot], _OpenReasoning):
            if delta.opaque is None:
                return ()
            before = self._close_writing()  # opaque data without text: redacted reasoning
            slot = self._writing = self._open(_OpenReasoning())
        reasoning = self._slots[slot]
        assert isinstance(reasoning, _OpenReasoning)
        reasoning.opaque, reasoning.wire = delta.opaque, delta.wire
        return (*before, *self._close_writing())

    def _start_call(self, start: CallStart) -> tuple[PartGrew | PartClosed, ...]:
        before = self._close_writing()
        slot = self._open(_OpenCall(self._new_call_id(), start))
        self._calls[start.index] = slot
        return (*before, PartGrew(slot, "arguments", "", opened=True))

    def _end_call(self, end: CallEnd) -> tuple[PartGrew | PartClosed, ...]:
        slot = self._calls.get(end.index)
        if slot is None or slot in self._done:
            return ()
        call = self._slots[slot]
        assert isinstance(call, _OpenCall)
        call.opaque, call.wire = end.opaque, end.wire
        return self._close(slot)

    def _close_all(self) -> tuple[PartGrew | PartClosed, ...]:
        closed = [change for slot in range(len(self._slots)) for change in self._close(slot)]
        self._writing = None
        return tuple(closed)

    def _close_writing(self) -> tuple[PartGrew | PartClosed, ...]:
        slot, self._writing = self._writing, None
        return () if slot is None else self._close(slot)

    def _close(self, slot: int) -> tuple[PartClosed, ...]:
        if slot in self._done:
            return ()
        found = self._slots[slot]
        if isinstance(found, _OpenReasoning) and self._seconds is not None:
            found.duration = round(self._seconds() - found.started, 3)
        self._done[slot] = found.part()
        while self.closed in self._done:
            self.closed += 1
        return (PartClosed(slot),)

    def _open(self, part: _Open) -> int:
        if isinstance(part, _OpenReasoning) and self._seconds is not None:
            part.started = self._seconds()
        self._slots.append(part)
        return len(self._slots) - 1


def _arguments(text: str) -> tuple[dict[str, Any], str | None]:
    """Return the arguments, or the text if it is not a JSON object. Models may send nothing for no arguments."""
    if not text.strip():
        return {}, None
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return {}, text
    if is_nested_deeper(found, MAX_DEPTH):
        return {}, f"(nested more than {MAX_DEPTH} levels deep) {text}"
    return (found, None) if isinstance(found, dict) else ({}, text)
