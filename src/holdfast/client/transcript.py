"""The text that a user sees: stored messages, overlaid with the text that is still being streamed. Pure.

All clients apply events with this class, so text is exact across cuts, lag and retries (`E3`). A durable message
replaces its older version and closes the open parts that it contains. A snapshot replaces a message's open parts. A
delta continues an open part at its offset.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.schema.events import (
    Delta,
    DeltaKind,
    Event,
    Hello,
    MessageCreated,
    MessageFinished,
    MessageUpdated,
    OpenPart,
    Reset,
    SessionDeleted,
    Snapshot,
)
from holdfast.schema.messages import Message, Text, ToolResult


class _OpenText:
    """An open part. Its pieces are joined when the text is read."""

    __slots__ = ("attempt", "call_id", "length", "name", "of", "pieces")

    def __init__(
        self, *, attempt: int, of: DeltaKind, text: str, call_id: str | None = None, name: str | None = None
    ) -> None:
        self.attempt = attempt
        self.of = of
        self.call_id = call_id
        self.name = name
        self.pieces = [text]
        self.length = len(text)

    @property
    def text(self) -> str:
        if len(self.pieces) > 1:
            self.pieces = ["".join(self.pieces)]
        return self.pieces[0]

    def continue_at(self, offset: int, text: str) -> bool:
        if offset > self.length:
            return False
        if offset < self.length:
            self.pieces = [self.text[:offset]]
        self.pieces.append(text)
        self.length = offset + len(text)
        return True


class Transcript:
    """The messages of one or more sessions, as of the last event."""

    def __init__(self) -> None:
        self.messages: dict[str, Message] = {}
        self._open: dict[str, dict[int, _OpenText]] = {}

    def load(self, messages: Iterable[Message]) -> None:
        """Add messages as they were at the cursor from which the events continue."""
        self.messages.update((message.id, message) for message in messages)

    def apply(self, event: Event) -> bool:
        """Returns False if the event continues text that is missing here. Reconnect then: a snapshot follows."""
        match event:
            case Delta():
                return self._append(event)
            case Snapshot():
                self._replace_open(event)
            case MessageCreated() | MessageUpdated():
                self._store(event.message)
            case MessageFinished():
                self._store(event.message)
                self._open.pop(event.message.id, None)
            case SessionDeleted():
                self._drop_session(event.session_id)
            case Hello():
                self._open.clear()
            case Reset():
                self._open.clear()
                self.messages.clear()
            case _:
                pass
        return True

    def open_parts(self, message_id: str) -> tuple[OpenPart, ...]:
        """The parts that are still being streamed."""
        return tuple(
            OpenPart(
                part=number, attempt=part.attempt, of=part.of, text=part.text, call_id=part.call_id, name=part.name
            )
            for number, part in sorted(self._open.get(message_id, {}).items())
        )

    def text(self, message_id: str) -> str:
        """The message's plain text, stored and streamed."""
        texts: dict[int, str] = {}
        message = self.messages.get(message_id)
        for number, part in enumerate(message.parts if message else ()):
            if isinstance(part, Text):
                texts[number] = part.text
        for number, live in self._open.get(message_id, {}).items():
            if live.of == "text":
                texts[number] = live.text
        return "".join(text for _, text in sorted(texts.items()))

    def output(self, call_id: str) -> str | None:
        """The output of a running call so far; ``None`` once its result is stored."""
        for parts in self._open.values():
            for part in parts.values():
                if part.of == "output" and part.call_id == call_id:
                    return part.text
        return None

    def _append(self, delta: Delta) -> bool:
        parts = self._open.setdefault(delta.message_id, {})
        part = parts.get(delta.part)
        if part is not None and delta.attempt < part.attempt:
            return True
        if part is None or delta.attempt > part.attempt:
            if delta.offset > 0:
                return False
            parts[delta.part] = _OpenText(attempt=delta.attempt, of=delta.of, text=delta.text)
            return True
        return part.continue_at(delta.offset, delta.text)

    def _replace_open(self, snapshot: Snapshot) -> None:
        self._open.pop(snapshot.message_id, None)
        if snapshot.parts:
            self._open[snapshot.message_id] = {
                part.part: _OpenText(
                    attempt=part.attempt, of=part.of, text=part.text, call_id=part.call_id, name=part.name
                )
                for part in snapshot.parts
            }

    def _store(self, message: Message) -> None:
        self.messages[message.id] = message
        parts = self._open.get(message.id, {})
        for number in [n for n, part in parts.items() if n < len(message.parts) and part.of != "output"]:
            del parts[number]
        answered = {part.call_id for part in message.parts if isinstance(part, ToolResult)}
        if answered:
            for parts in self._open.values():
                for number in [n for n, part in parts.items() if part.of == "output" and part.call_id in answered]:
                    del parts[number]

    def _drop_session(self, session_id: str) -> None:
        for message_id in [m.id for m in self.messages.values() if m.session_id == session_id]:
            del self.messages[message_id]
            self._open.pop(message_id, None)
