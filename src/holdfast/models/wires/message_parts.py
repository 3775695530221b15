"""Parts of messages as every wire can say them: text, images, calls with their ids, results. Pure.

`agent.history` has already put everything a person did into words; here only its text and its images are left.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Any, TypeAlias

from holdfast.schema.messages import File, Message, Part, Text, ToolCall, ToolResult

Piece: TypeAlias = str | File
"""Text, or an image."""

IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})

_SAFE_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SHORT_ID = re.compile(r"[A-Za-z0-9]{9}")


def pieces(parts: Iterable[Part], *, images: bool) -> list[Piece]:
    """What the user's side said; an image that the model cannot see is named."""
    found: list[Piece] = []
    for part in parts:
        match part:
            case Text(text=text) if text.strip():
                found.append(text)
            case File():
                found.append(_file(part, images=images))
            case _:
                pass
    return found


def result_pieces(result: ToolResult, *, images: bool) -> tuple[str, list[File]]:
    """What a tool said, never empty, and the images it returned."""
    shown = [_file(file, images=images) for file in result.files]
    notes = [piece for piece in shown if isinstance(piece, str)]
    text = "\n".join(([result.text] if result.text.strip() else []) + notes)
    files = [piece for piece in shown if isinstance(piece, File)]
    return text or ("(see the image)" if files else f"({result.status}, no output)"), files


def joined(found: Iterable[Piece]) -> str:
    """The text among the pieces."""
    return "\n\n".join(piece for piece in found if isinstance(piece, str))


def arguments(call: ToolCall) -> dict[str, Any]:
    """A call's arguments; what the model sent malformed is shown to it as such."""
    return call.arguments if call.malformed is None else {"malformed_arguments": call.malformed}


def data_url(file: File) -> str:
    return f"data:{file.media_type};base64,{file.data or ''}"


class CallIds:
    """For each call of ours the id to send: the provider's own where it is usable and unique, else ours.

    ``short``: nine letters and digits, as one vendor demands; other ids are hashed to that form.
    """

    def __init__(self, *, short: bool = False) -> None:
        self._short = short
        self._ids: dict[str, str] = {}
        self._used: set[str] = set()

    def learn(self, message: Message) -> None:
        """The message's calls, in the order of the conversation."""
        for part in message.parts:
            if isinstance(part, ToolCall):
                given = part.provider_id or ""
                fits = (_SHORT_ID if self._short else _SAFE_ID).fullmatch(given)
                sent = given if fits and given not in self._used else _own(part.id, short=self._short)
                self._ids[part.id] = sent
                self._used.add(sent)

    def __getitem__(self, call_id: str) -> str:
        return self._ids.get(call_id, call_id)


def _own(call_id: str, *, short: bool) -> str:
    if not short and _SAFE_ID.fullmatch(call_id):
        return call_id
    return hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()[: 9 if short else 32]


def _file(file: File, *, images: bool) -> Piece:
    if file.text is not None:
        return f'<file name="{file.name}">\n{file.text}\n</file>'
    if file.data and images and file.media_type in IMAGES:
        return file
    return f"[{file.name} ({file.media_type}) is left out: this model cannot read it]"
