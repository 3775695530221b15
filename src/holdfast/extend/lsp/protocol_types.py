"""The parts of the Language Server Protocol that Holdfast uses, as types. Pure.

They are our own, because the library with all types of the protocol needs 0.7 s and 22 MB to import. Only the fields
that are used are declared; others are ignored. Everything that a server sends is checked against these types.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from holdfast.extend.lsp.message_framing import LanguageServerError, ProtocolViolation

_Natural = Annotated[int, Meta(ge=0, le=2**31)]

PositionEncoding = Literal["utf-8", "utf-16", "utf-32"]
MAX_DIAGNOSTICS = 1_000
"""Diagnostics of one file that are kept."""
MAX_MESSAGE_CHARS = 2_000
CONTENT_MODIFIED = -32801
SERVER_CANCELLED = -32802


class ProtocolValue(msgspec.Struct, frozen=True, rename="camel"):
    """Base of what servers send."""


class Position(ProtocolValue, frozen=True, order=True):
    line: _Natural
    character: _Natural


class TextRange(ProtocolValue, frozen=True, order=True):
    start: Position
    end: Position


class Location(ProtocolValue, frozen=True):
    uri: str
    range: TextRange


class LocationLink(ProtocolValue, frozen=True):
    target_uri: str
    target_selection_range: TextRange


class MarkupText(ProtocolValue, frozen=True):
    value: str


class Diagnostic(ProtocolValue, frozen=True):
    range: TextRange
    message: str | MarkupText
    severity: int | None = None
    """1: error, 2: warning, 3: information, 4: hint."""
    code: int | str | None = None
    source: str | None = None
    tags: tuple[int, ...] | None = None

    @property
    def text(self) -> str:
        text = self.message if isinstance(self.message, str) else self.message.value
        return text[:MAX_MESSAGE_CHARS]


class RangeEdit(ProtocolValue, frozen=True):
    """A `TextEdit` of the protocol."""

    range: TextRange
    new_text: str


class VersionedDocument(ProtocolValue, frozen=True):
    uri: str
    version: int | None = None


class DocumentChange(ProtocolValue, frozen=True):
    """A `TextDocumentEdit`, or an operation on a file if ``kind`` is set."""

    text_document: VersionedDocument | None = None
    edits: tuple[RangeEdit, ...] = ()
    kind: str = ""


class WorkspaceEdit(ProtocolValue, frozen=True):
    changes: dict[str, tuple[RangeEdit, ...]] | None = None
    document_changes: tuple[DocumentChange, ...] | None = None


class DocumentSymbol(ProtocolValue, frozen=True):
    """A symbol of one file, in either of the two forms of the protocol."""

    name: str
    kind: int
    detail: str | None = None
    selection_range: TextRange | None = None
    location: Location | None = None
    container_name: str | None = None
    children: tuple[DocumentSymbol, ...] | None = None


class UriOnly(ProtocolValue, frozen=True):
    uri: str


class SymbolLocation(ProtocolValue, frozen=True):
    uri: str
    range: TextRange | None = None


class WorkspaceSymbol(ProtocolValue, frozen=True):
    name: str
    kind: int
    location: SymbolLocation
    container_name: str | None = None


class PublishedDiagnostics(ProtocolValue, frozen=True):
    uri: str
    diagnostics: tuple[msgspec.Raw, ...]
    version: int | None = None


class DiagnosticReport(ProtocolValue, frozen=True):
    kind: str = "full"
    items: tuple[msgspec.Raw, ...] = ()


class ConfigurationItem(ProtocolValue, frozen=True):
    section: str | None = None


class ConfigurationItems(ProtocolValue, frozen=True):
    items: tuple[ConfigurationItem, ...] = ()


class ServerCapabilities(ProtocolValue, frozen=True):
    position_encoding: PositionEncoding = "utf-16"
    diagnostic_provider: dict[str, Any] | bool | None = None
    definition_provider: Any = None
    references_provider: Any = None
    document_symbol_provider: Any = None
    workspace_symbol_provider: Any = None
    rename_provider: Any = None


class InitializeResult(ProtocolValue, frozen=True):
    capabilities: ServerCapabilities = ServerCapabilities()


class ResponseError(ProtocolValue, frozen=True):
    code: int = 0
    message: str = ""


class IncomingMessage(ProtocolValue, frozen=True):
    """A request, a notification or a response."""

    id: int | str | None = None
    method: str | None = None
    params: msgspec.Raw = msgspec.Raw(b"null")
    result: msgspec.Raw | UnsetType = UNSET
    error: ResponseError | None = None


CLIENT_CAPABILITIES: dict[str, Any] = {
    "general": {"positionEncodings": ["utf-16"]},
    "workspace": {
        "configuration": True,
        "workspaceFolders": True,
        "didChangeWatchedFiles": {"dynamicRegistration": True},
        "workspaceEdit": {"documentChanges": True, "failureHandling": "abort"},
        "symbol": {},
    },
    "textDocument": {
        "synchronization": {"didSave": True},
        "publishDiagnostics": {"versionSupport": True},
        "diagnostic": {},
        "definition": {"linkSupport": True},
        "references": {},
        "documentSymbol": {"hierarchicalDocumentSymbolSupport": True},
        "rename": {"prepareSupport": False},
    },
    "window": {"workDoneProgress": False},
}

SYMBOL_KINDS = (
    *("file", "module", "namespace", "package", "class", "method", "property", "field", "constructor", "enum"),
    *("interface", "function", "variable", "constant", "string", "number", "boolean", "array", "object", "key"),
    *("null", "enum member", "struct", "event", "operator", "type parameter"),
)


def kind_name(kind: int) -> str:
    return SYMBOL_KINDS[kind - 1] if 1 <= kind <= len(SYMBOL_KINDS) else "symbol"


def read_message(body: bytes) -> IncomingMessage:
    """Decode a message. Raises `ProtocolViolation` if it is none."""
    try:
        return msgspec.json.decode(body, type=IncomingMessage)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolViolation(f"it sent a message that is not valid: {error}") from None


def read_value(raw: msgspec.Raw | bytes, wanted: Any) -> Any:
    """Decode a part of a message as a type. Raises `LanguageServerError` if it has another one."""
    try:
        return msgspec.json.decode(raw, type=wanted)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise LanguageServerError(f"the language server sent an answer that is not valid: {error}") from None


def read_diagnostics(items: tuple[msgspec.Raw, ...]) -> tuple[Diagnostic, ...]:
    """Decode diagnostics. Invalid ones are left out, and so are those beyond the limit."""
    found = []
    for raw in items[:MAX_DIAGNOSTICS]:
        try:
            found.append(msgspec.json.decode(raw, type=Diagnostic))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
    return tuple(found)
