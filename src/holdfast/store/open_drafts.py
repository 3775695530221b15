"""The text of messages that are still being written. Pure; the same for every implementation of the store.

A stored message has its complete parts; the draft has the text of the parts after them. Reads add it, so a reader sees
what was streamed so far although no commit contains it. A draft belongs to one attempt of one message, and ends with
the commit that finishes the message.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from msgspec.structs import replace

from holdfast.schema.base import Value
from holdfast.schema.messages import Finish, Message, Part, Reasoning, Text


class DraftPiece(Value, frozen=True, array_like=True):
    """Text that was added to one part of an open message."""

    session_id: str
    message_id: str
    attempt: int
    part: int
    offset: int
    """Code points of the part before it."""
    text: str
    is_reasoning: bool = False


class _PartText:
    __slots__ = ("chunks", "is_reasoning", "length")

    def __init__(self, *, is_reasoning: bool) -> None:
        self.is_reasoning = is_reasoning
        self.chunks: list[str] = []
        self.length = 0

    def part(self) -> Part:
        text = "".join(self.chunks)
        return Reasoning(text) if self.is_reasoning else Text(text)


class OpenDraft:
    """The text of one attempt of one message."""

    __slots__ = ("_parts", "attempt", "message_id", "session_id")

    def __init__(self, session_id: str, message_id: str, attempt: int) -> None:
        self.session_id = session_id
        self.message_id = message_id
        self.attempt = attempt
        self._parts: dict[int, _PartText] = {}

    def append(self, part: int, text: str, *, is_reasoning: bool) -> int:
        """Add text and return its offset in the part."""
        found = self._parts.get(part)
        if found is None:
            found = self._parts[part] = _PartText(is_reasoning=is_reasoning)
        offset = found.length
        found.chunks.append(text)
        found.length += len(text)
        return offset

    def length(self, part: int) -> int:
        found = self._parts.get(part)
        return found.length if found else 0

    def pieces(self) -> Iterable[DraftPiece]:
        """Return the whole draft, one piece per part."""
        for index, found in self._parts.items():
            text = "".join(found.chunks)
            yield DraftPiece(self.session_id, self.message_id, self.attempt, index, 0, text, found.is_reasoning)

    def add_to(self, message: Message) -> Message:
        """Return the message with the text of the parts that it does not have yet."""
        complete = len(message.parts)
        later = [found.part() for index, found in sorted(self._parts.items()) if index >= complete]
        return replace(message, parts=(*message.parts, *later)) if later else message


class DraftLookup(Protocol):
    """Finds the draft of a message. A dictionary is one."""

    def get(self, message_id: str, /) -> OpenDraft | None: ...


class OpenDrafts:
    """The drafts of all open messages, by message id."""

    def __init__(self) -> None:
        self._drafts: dict[str, OpenDraft] = {}

    def __len__(self) -> int:
        return len(self._drafts)

    def append(
        self, session_id: str, message_id: str, part: int, text: str, *, attempt: int, is_reasoning: bool
    ) -> DraftPiece:
        draft = self._drafts.get(message_id)
        if draft is None or draft.attempt != attempt:
            draft = self._drafts[message_id] = OpenDraft(session_id, message_id, attempt)
        offset = draft.append(part, text, is_reasoning=is_reasoning)
        return DraftPiece(session_id, message_id, attempt, part, offset, text, is_reasoning)

    def restore(self, pieces: Iterable[DraftPiece]) -> None:
        """Add pieces that were read back. A piece that does not continue its part is left out."""
        for piece in pieces:
            draft = self._drafts.get(piece.message_id)
            if draft is None or draft.attempt < piece.attempt:
                draft = self._drafts[piece.message_id] = OpenDraft(piece.session_id, piece.message_id, piece.attempt)
            if draft.attempt == piece.attempt and draft.length(piece.part) == piece.offset:
                draft.append(piece.part, piece.text, is_reasoning=piece.is_reasoning)

    def of_session(self, session_id: str) -> dict[str, OpenDraft]:
        return {key: draft for key, draft in self._drafts.items() if draft.session_id == session_id}

    def all(self) -> Mapping[str, OpenDraft]:
        return dict(self._drafts)

    def remove(self, message_id: str) -> None:
        self._drafts.pop(message_id, None)


def is_finished(message: Message) -> bool:
    return any(isinstance(part, Finish) for part in message.parts)


def joined_pieces(pieces: Iterable[DraftPiece]) -> Iterable[DraftPiece]:
    """Join the pieces of each part. Pieces of one part continue each other."""
    by_part: dict[tuple[str, int, int], list[DraftPiece]] = {}
    for piece in pieces:
        by_part.setdefault((piece.message_id, piece.attempt, piece.part), []).append(piece)
    for first, *more in by_part.values():
        yield replace(first, text=first.text + "".join(piece.text for piece in more)) if more else first
