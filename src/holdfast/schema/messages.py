"""Messages and their parts, as stored and as sent to clients; tools as described to models."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from holdfast.schema.base import LateDecoder, TaggedReader, Unknown, Value, encode
from holdfast.schema.usage import Usage

_MAIN_ARGUMENTS = ("command", "path", "pattern", "url", "query", "title", "prompt", "job")

Role = Literal["user", "assistant", "tool"]

FinishReason = Literal["end_turn", "tool_use", "max_tokens", "cancelled", "interrupted", "error", "refused", "limit"]

ResultStatus = Literal["ok", "error", "denied", "cancelled", "unknown"]
"""``cancelled``: stopped by a cancel; ``unknown``: interrupted by a crash, it may have run."""


class Text(Value, frozen=True, tag_field="type", tag="text", omit_defaults=True):
    text: str
    expanded: str = ""
    """Of a prompt that calls a command (``/name``): what it became. This is sent to the model instead."""


class Reasoning(Value, frozen=True, tag_field="type", tag="reasoning", omit_defaults=True):
    """Reasoning of the model. ``opaque`` is sent back on the same wire unchanged, and never to clients."""

    text: str = ""
    wire: str = ""
    """The wire that created ``opaque``; other wires omit the part."""
    opaque: dict[str, Any] | None = None
    duration: float | None = None
    """Seconds from its first to its last text."""


class File(Value, frozen=True, tag_field="type", tag="file", omit_defaults=True):
    """An attachment, or an image that a tool returned."""

    name: str
    media_type: str
    text: str | None = None
    """The content of a text file."""
    data: str | None = None
    """The content of any other file, base64."""


class ToolCall(Value, frozen=True, tag_field="type", tag="tool_call", omit_defaults=True):
    id: str
    name: str
    arguments: dict[str, Any] = {}
    malformed: str | None = None
    """The arguments as the model sent them, if they are not a JSON object."""
    provider_id: str | None = None
    """The provider's id of the call, sent back to it."""
    opaque: dict[str, Any] | None = None
    """Provider data that is sent back with the call, such as signatures."""
    wire: str = ""
    child_session_id: str | None = None


class ToolResult(Value, frozen=True, tag_field="type", tag="tool_result", omit_defaults=True):
    call_id: str
    name: str
    status: ResultStatus = "ok"
    text: str = ""
    """The text for the model."""
    files: tuple[File, ...] = ()
    """Images, for models that accept them."""
    display: dict[str, Any] = {}
    """What clients show besides the text (diff, exit code, path). Never sent to a model."""
    duration: float | None = None


class ToolSpec(Value, frozen=True):
    """A tool as described to a model."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON Schema of an object."""


class Shell(Value, frozen=True, tag_field="type", tag="shell", omit_defaults=True):
    """A command of the user and its output."""

    command: str
    output: str = ""
    exit_code: int | None = None


class Summary(Value, frozen=True, tag_field="type", tag="summary", omit_defaults=True):
    """Replaces everything before it in requests. The original messages stay in the session."""

    text: str
    files: tuple[File, ...] = ()
    """Files in use, word for word. Not sent to clients."""


class Notice(Value, frozen=True, tag_field="type", tag="notice", omit_defaults=True):
    """A note for the user. Sent to the model only if ``for_model``."""

    code: str
    text: str
    for_model: bool = False
    runs: tuple[str, ...] | None = None
    """The runs whose file changes an undo or redo covered."""


class Context(Value, frozen=True, tag_field="type", tag="context", omit_defaults=True):
    """The system prompt of a turn, once, and later only what changed.

    The system prompt stays as it was first sent, byte for byte, so that providers can cache it.
    """

    blocks: tuple[str, ...] = ()
    """The system prompt, if it was sent first or again after a summary. Not sent to clients."""
    changed: str = ""
    """Changes since then, as sent to the model."""
    facts: dict[str, str] = {}
    """Digests of what the model knows now, by subject."""


class Finish(Value, frozen=True, tag_field="type", tag="finish", omit_defaults=True):
    reason: FinishReason
    detail: str = ""


KnownPart: TypeAlias = Text | Reasoning | File | ToolCall | ToolResult | Shell | Summary | Notice | Context | Finish
Part: TypeAlias = KnownPart | Unknown

if TYPE_CHECKING:
    Parts: TypeAlias = tuple[Part, ...]
else:  # msgspec decodes known parts only; `read_message` handles the others
    Parts = tuple[KnownPart, ...]

_parts = TaggedReader(KnownPart, "type")


class Message(Value, frozen=True):
    id: str
    session_id: str
    run_id: str
    role: Role
    seq: int
    """Position in the session; only grows."""
    created_at: str
    parts: Parts = ()
    unsent: bool = False
    """Belongs to a run that never started: shown, but never sent to a model."""
    usage: Usage | None = None
    """Usage of the step that created it (assistant messages)."""
    model: str | None = None

    @property
    def text(self) -> str:
        """The text parts, joined."""
        return text_of(self.parts)


_message = LateDecoder(Message)
_fields = LateDecoder(dict[str, msgspec.Raw])
_part_list = LateDecoder(tuple[msgspec.Raw, ...])


def read_parts(raw: bytes | msgspec.Raw) -> tuple[Part, ...]:
    """Decode a list of parts. Parts that this version does not know become `Unknown`."""
    return tuple(_parts.read(part) for part in _part_list.decode(raw))


def read_message(raw: bytes | msgspec.Raw) -> Message:
    """Decode a message. Unknown parts and fields never make it unreadable."""
    try:
        return _message.decode(raw)
    except msgspec.ValidationError:
        fields = _fields.decode(raw)
        parts = read_parts(fields.pop("parts", msgspec.Raw(b"[]")))
        return msgspec.structs.replace(_message.decode(encode(fields)), parts=parts)


def public_parts(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Return the parts for clients: without opaque provider data, the system prompt and the files of a summary."""
    if _WITH_PRIVATE_DATA.isdisjoint(map(type, parts)):
        return parts
    return tuple(_public(part) for part in parts)


def public_message(message: Message) -> Message:
    """Return the message with the parts for clients."""
    return msgspec.structs.replace(message, parts=public_parts(message.parts))


_WITH_PRIVATE_DATA: frozenset[type] = frozenset({Reasoning, ToolCall, Context, Summary})


def _public(part: Part) -> Part:
    if isinstance(part, Reasoning | ToolCall) and part.opaque is not None:
        return msgspec.structs.replace(part, opaque=None)
    if isinstance(part, Context) and part.blocks:
        return msgspec.structs.replace(part, blocks=())
    if isinstance(part, Summary) and part.files:
        return msgspec.structs.replace(part, files=())
    return part


def main_argument(arguments: Mapping[str, Any]) -> str:
    """The argument of a call that says most about it."""
    found = (arguments.get(name) for name in _MAIN_ARGUMENTS)
    return next((value for value in found if isinstance(value, str)), "")


def call_title(call: ToolCall, result: ToolResult | None) -> str:
    """The main argument of a call. The result has it if the call was written for another agent or was repaired."""
    understood = result.display.get("title") if result else None
    return understood if isinstance(understood, str) else main_argument(call.arguments)


def text_of(parts: tuple[Part, ...]) -> str:
    """Return the text parts, joined."""
    return "".join(part.text for part in parts if isinstance(part, Text))


def sent_text_of(parts: tuple[Part, ...]) -> str:
    """Return the text parts as the model gets them, joined."""
    return "".join(part.expanded or part.text for part in parts if isinstance(part, Text))
