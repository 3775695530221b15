"""The text of message parts that are still being streamed. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from holdfast.schema.events import Delta, DeltaKind, OpenPart, Snapshot
from holdfast.schema.messages import Message, ToolResult


class OpenText:
    """An open part. Its pieces are joined when the text is read."""

    __slots__ = ("_length", "_pieces", "attempt", "call_id", "name", "of")

    def __init__(
        self, *, attempt: int, of: DeltaKind, text: str, call_id: str | None = None, name: str | None = None
    ) -> None:
        self.attempt = attempt
        self.of = of
        self.call_id = call_id
        self.name = name
        self._pieces = [text]
        self._length = len(text)

    @property
    def text(self) -> str:
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0]

    def continue_at(self, offset: int, text: str) -> bool:
        """Add text at its offset. Return False if text before it is missing."""
        if offset > self._length:
            return False
        if offset < self._length:
            self._pieces = [self.text[:offset]]
        self._pieces.append(text)
        self._length = offset + len(text)
        return True


class OpenTexts:
    """The open parts of all messages, by message and number of the part."""

    def __init__(self) -> None:
        self._messages: dict[str, dict[int, OpenText]] = {}
        self._calls: dict[str, tuple[str, int]] = {}
        """Where the live output of a call is."""

    def parts(self, message_id: str) -> dict[int, OpenText]:
        """The open parts of a message. Do not change the result."""
        return self._messages.get(message_id, {})

    def open_parts(self, message_id: str) -> tuple[OpenPart, ...]:
        return tuple(
            OpenPart(
                part=number, attempt=part.attempt, of=part.of, text=part.text, call_id=part.call_id, name=part.name
            )
            for number, part in sorted(self.parts(message_id).items())
        )

    def output(self, call_id: str) -> str | None:
        """The output of a running call so far; ``None`` once its result is stored."""
        place = self._calls.get(call_id)
        return None if place is None else self._messages[place[0]][place[1]].text

    def append(self, delta: Delta) -> bool:
        """Add a delta. Return False if it continues text that is missing here."""
        parts = self._messages.setdefault(delta.message_id, {})
        part = parts.get(delta.part)
        if part is not None and delta.attempt < part.attempt:
            return True
        if part is None or delta.attempt > part.attempt:
            if delta.offset > 0:
                return False
            self._drop_part(delta.message_id, delta.part)
            self._messages.setdefault(delta.message_id, {})[delta.part] = OpenText(
                attempt=delta.attempt, of=delta.of, text=delta.text
            )
            return True
        return part.continue_at(delta.offset, delta.text)

    def replace(self, snapshot: Snapshot) -> None:
        """Replace all open parts of a message."""
        self.drop(snapshot.message_id)
        if not snapshot.parts:
            return
        self._messages[snapshot.message_id] = {
            part.part: OpenText(attempt=part.attempt, of=part.of, text=part.text, call_id=part.call_id, name=part.name)
            for part in snapshot.parts
        }
        for part in snapshot.parts:
            if part.of == "output" and part.call_id is not None:
                self._calls[part.call_id] = (snapshot.message_id, part.part)

    def close_stored(self, message: Message) -> None:
        """Close the parts that a stored message contains, and the output of the calls that it answers."""
        parts = self.parts(message.id)
        for number in [n for n, part in parts.items() if n < len(message.parts) and part.of != "output"]:
            self._drop_part(message.id, number)
        self._close_outputs(part.call_id for part in message.parts if isinstance(part, ToolResult))

    def drop(self, message_id: str) -> None:
        for number in list(self.parts(message_id)):
            self._drop_part(message_id, number)

    def clear(self) -> None:
        self._messages.clear()
        self._calls.clear()

    def message_ids(self) -> Collection[str]:
        """The messages with open parts."""
        return self._messages.keys()

    def _close_outputs(self, call_ids: Iterable[str]) -> None:
        for call_id in call_ids:
            if place := self._calls.get(call_id):
                self._drop_part(*place)

    def _drop_part(self, message_id: str, number: int) -> None:
        parts = self._messages.get(message_id, {})
        part = parts.pop(number, None)
        if part is not None and part.call_id is not None:
            self._calls.pop(part.call_id, None)
        if not parts:
            self._messages.pop(message_id, None)
