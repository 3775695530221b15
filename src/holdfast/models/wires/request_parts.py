"""The parts of a request that all wires share: text and images, tool results, call ids, strict schemas. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, TypeAlias

from holdfast.digests import sha256_hex
from holdfast.models.wires.protocol import Target
from holdfast.schema.messages import File, Message, Part, Text, ToolCall, ToolResult

Piece: TypeAlias = str | File
"""Text, or an image."""

_IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_MAX_MALFORMED = 4000
_SAFE_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SHORT_ID = re.compile(r"[A-Za-z0-9]{9}")


class MessageItems:
    """Base of the wires' `RequestItems`: the items, and the ids of the calls in them."""

    def __init__(self, target: Target, *, short_ids: bool = False) -> None:
        self.items: list[dict[str, Any]] = []
        self._target = target
        self._images = target.info.images
        self._ids = CallIds(short=short_ids)

    @property
    def settled(self) -> int:
        return len(self.items)

    def _append(self, role: str, field: str, parts: list[dict[str, Any]]) -> None:
        """Append parts under a role. Consecutive parts of one role become one item."""
        if not parts:
            return
        if self.items and self.items[-1]["role"] == role:
            self.items[-1][field] += parts
        else:
            self.items.append({"role": role, field: parts})


class CallIds:
    """The id to send for each call: the provider's own if it is valid and unique, else ours.

    ``short``: one vendor requires nine letters and digits; other ids are hashed to that form.
    """

    def __init__(self, *, short: bool = False) -> None:
        self._short = short
        self._ids: dict[str, str] = {}
        self._used: set[str] = set()

    def add(self, message: Message) -> None:
        """Choose the ids of a message's calls. Messages are added in the order of the conversation."""
        for part in message.parts:
            if isinstance(part, ToolCall):
                given = part.provider_id or ""
                valid = (_SHORT_ID if self._short else _SAFE_ID).fullmatch(given)
                sent = given if valid and given not in self._used else _own_id(part.id, short=self._short)
                self._ids[part.id] = sent
                self._used.add(sent)

    def __getitem__(self, call_id: str) -> str:
        return self._ids.get(call_id, call_id)


def user_pieces(parts: Iterable[Part], *, images: bool) -> list[Piece]:
    """The text and images of a user message. A file that the model cannot read is replaced by a note."""
    found: list[Piece] = []
    for part in parts:
        match part:
            case Text(text=text) if text.strip():
                found.append(text)
            case File():
                found.append(_file_piece(part, images=images))
            case _:
                pass
    return found


def result_pieces(result: ToolResult, *, images: bool) -> tuple[str, list[File]]:
    """The text of a tool result, which is never empty, and its images."""
    found = [_file_piece(file, images=images) for file in result.files]
    notes = [piece for piece in found if isinstance(piece, str)]
    text = "\n".join(([result.text] if result.text.strip() else []) + notes)
    files = [piece for piece in found if isinstance(piece, File)]
    return text or ("(see the image)" if files else f"({result.status}, no output)"), files


def call_name(part: ToolCall | ToolResult) -> str:
    """The name of a called tool. Providers refuse a request with another kind of name, which models do make up."""
    if _SAFE_ID.fullmatch(part.name):
        return part.name
    return re.sub(r"[^a-zA-Z0-9_-]", "_", part.name)[:64] or "unknown"


def call_arguments(call: ToolCall) -> dict[str, Any]:
    """A call's arguments. The beginning of malformed arguments is sent back to the model under a name of its own."""
    if call.malformed is None:
        return call.arguments
    text = call.malformed
    return {"malformed_arguments": text if len(text) <= _MAX_MALFORMED else text[:_MAX_MALFORMED] + "…"}


def join_system(system: tuple[str, ...]) -> str:
    return "\n\n".join(block for block in system if block.strip())


def data_url(file: File) -> str:
    return f"data:{file.media_type};base64,{file.data or ''}"


def is_strict_schema(schema: Any) -> bool:
    """Whether OpenAI's strict mode accepts a JSON Schema: all properties are required and no others are allowed."""
    match schema:
        case dict():
            properties = schema.get("properties")
            is_object = schema.get("type") == "object" or isinstance(properties, dict)
            if is_object and (
                schema.get("additionalProperties") is not False
                or set(schema.get("required", ())) != set(properties or ())
            ):
                return False
            return all(is_strict_schema(value) for value in schema.values())
        case list():
            return all(is_strict_schema(value) for value in schema)
    return True


def _own_id(call_id: str, *, short: bool) -> str:
    if not short and _SAFE_ID.fullmatch(call_id):
        return call_id
    return sha256_hex(call_id.encode("utf-8", "replace"))[: 9 if short else 32]


def _file_piece(file: File, *, images: bool) -> Piece:
    if file.text is not None:
        return f'<file name="{file.name}">\n{file.text}\n</file>'
    if file.data and images and file.media_type in _IMAGE_TYPES:
        return file
    return f"[{file.name} ({file.media_type}) is left out: this model cannot read it]"
