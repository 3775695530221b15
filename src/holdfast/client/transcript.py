"""The text that a user sees: stored messages, overlaid with the text that is still being streamed. Pure.

Event streams check with this class that text is exact across cuts, lag and retries (`E3`). A durable message replaces
its older version and closes the open parts that it contains. A snapshot replaces a message's open parts. A delta
continues an open part at its offset.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.schema.events import (
    Delta,
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
from holdfast.schema.messages import Message, Text
from holdfast.schema.open_texts import OpenTexts


class StreamedText:
    """The text that is being streamed, without the messages: for clients that keep those themselves.

    Its size does not grow with the number of messages.
    """

    def __init__(self) -> None:
        self._open = OpenTexts()

    def apply(self, event: Event) -> bool:
        """Returns False if the event continues text that is missing here. Reconnect then: a snapshot follows."""
        match event:
            case Delta():
                return self._open.append(event)
            case Snapshot():
                self._open.replace(event)
            case MessageCreated() | MessageUpdated():
                self._open.close_stored(event.message)
            case MessageFinished():
                self._open.close_stored(event.message)
                self._open.drop(event.message.id)
            case Hello() | Reset():
                self._open.clear()
            case _:
                pass
        return True


class Transcript(StreamedText):
    """The messages of one or more sessions, as of the last event."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: dict[str, Message] = {}

    def load(self, messages: Iterable[Message]) -> None:
        """Add messages as they were at the cursor from which the events continue."""
        self.messages.update((message.id, message) for message in messages)

    def apply(self, event: Event) -> bool:
        match event:
            case MessageCreated() | MessageUpdated() | MessageFinished():
                self.messages[event.message.id] = event.message
            case SessionDeleted():
                self._drop_session(event.session_id)
            case Reset():
                self.messages.clear()
            case _:
                pass
        return super().apply(event)

    def open_parts(self, message_id: str) -> tuple[OpenPart, ...]:
        """The parts that are still being streamed."""
        return self._open.open_parts(message_id)

    def text(self, message_id: str) -> str:
        """The message's plain text, stored and streamed."""
        texts: dict[int, str] = {}
        message = self.messages.get(message_id)
        for number, part in enumerate(message.parts if message else ()):
            if isinstance(part, Text):
                texts[number] = part.text
        for number, live in self._open.parts(message_id).items():
            if live.of == "text":
                texts[number] = live.text
        return "".join(text for _, text in sorted(texts.items()))

    def output(self, call_id: str) -> str | None:
        """The output of a running call so far; ``None`` once its result is stored."""
        return self._open.output(call_id)

    def _drop_session(self, session_id: str) -> None:
        for message_id in [m.id for m in self.messages.values() if m.session_id == session_id]:
            del self.messages[message_id]
            self._open.drop(message_id)
