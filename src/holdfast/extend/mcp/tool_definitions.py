"""Turns the list of tools that a server sends into definitions for models. Pure.

Names are safe for every provider: letters, digits, ``_`` and ``-``, at most 64 characters. Schemas have no references
and are objects, descriptions are plain text of bounded length.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from holdfast.digests import sha256_hex
from holdfast.schema.base import MAX_DEPTH, Value, is_nested_deeper, repair_text

MAX_NAME = 64
MAX_TOOLS = 500
"""Tools of one server. Further ones are left out."""
_MAX_DESCRIPTION = 4_000
_MAX_SCHEMA = 40_000
"""Characters of a schema as JSON. A larger one is replaced by one that allows any object."""
_MAX_NODES = 5_000
"""Values in a schema whose references are replaced."""
_MAX_LISTED = 5
_FREE_OBJECT: dict[str, Any] = {"type": "object", "properties": {}}
_DROPPED = frozenset({"$schema", "$id", "$defs", "definitions", "$comment", "title", "x-mcp-header"})
_COMBINATIONS = ("anyOf", "oneOf", "allOf", "not", "if", "then", "else", "enum")
"""Keywords that providers refuse at the top of a schema."""


class McpToolDefinition(Value, frozen=True, kw_only=True):
    """A tool of an MCP server as it is offered to models."""

    name: str
    """The name for models: ``server__tool``."""
    server: str
    tool: str
    """The server's own name of it."""
    description: str
    parameters: dict[str, Any]
    is_reading: bool
    """Whether the server says that it changes nothing. That is a hint: it still needs an approval."""
    digest: str
    """Changes with anything that the server says about the tool."""

    @property
    def size(self) -> int:
        """Its size in a request, in tokens, estimated."""
        return (len(self.name) + len(self.description) + len(msgspec.json.encode(self.parameters))) // 4


class ServerTools(Value, frozen=True):
    definitions: tuple[McpToolDefinition, ...] = ()
    notes: tuple[str, ...] = ()
    """What a person should know: tools that were left out or got another name."""


def read_tools(
    server: str,
    listed: Sequence[dict[str, Any]],
    *,
    allowed: Sequence[str],
    disabled: Sequence[str],
    taken: Collection[str] = (),
) -> ServerTools:
    """Return the tools that a server may offer. ``taken`` are names that other servers' tools have."""
    found: dict[str, McpToolDefinition] = {}
    seen: set[str] = set()
    repeated, renamed, deferred = [], [], []
    for item in listed[:MAX_TOOLS]:
        tool = item.get("name")
        if not isinstance(tool, str) or not tool:
            continue
        if tool in seen:
            repeated.append(tool)
            continue
        seen.add(tool)
        if not _matches(tool, allowed) or _matches(tool, disabled):
            continue
        if _needs_task(item):
            deferred.append(tool)
            continue
        name = tool_name(server, tool)
        if name in found or name in taken:
            name = _shortened(name, f"{server}\0{tool}")
            renamed.append(f"{shown_name(tool)} is offered as {name}")
        found[name] = _definition(name, server, tool, item)
    notes = []
    if len(listed) > MAX_TOOLS:
        notes.append(f"only the first {MAX_TOOLS} of {len(listed)} tools are used")
    if repeated:
        notes.append(f"named twice: {_some(map(shown_name, repeated))}")
    if deferred:
        notes.append(f"left out, because they need tasks of the protocol: {_some(map(shown_name, deferred))}")
    if renamed:
        notes.append(f"another tool has the same name: {_some(renamed)}")
    return ServerTools(tuple(found.values()), tuple(notes))


def _needs_task(item: dict[str, Any]) -> bool:
    """Whether a tool can only be called as a task that goes on by itself, which is not supported."""
    execution = item.get("execution")
    return isinstance(execution, dict) and execution.get("taskSupport") == "required"


def tool_name(server: str, tool: str) -> str:
    """Return the name for models. A name that had to be changed ends with a digest, so that it stays unique."""
    plain = f"{server}__{tool}"
    name = re.sub(r"[^A-Za-z0-9_-]", "_", plain)
    if not name[0].isalpha():
        name = f"mcp_{name}"
    return name if name == plain and len(name) <= MAX_NAME else _shortened(name, plain)


def shown_name(name: str) -> str:
    """A server's name of something, for people: without characters that mislead."""
    cleaned = clean_text(name, limit=80).replace("\n", " ")
    return cleaned or "(without a name)"


def _shortened(name: str, whole: str) -> str:
    digest = sha256_hex(repair_text(whole).encode())[:6]
    return f"{name[: MAX_NAME - 7]}_{digest}"


def _definition(name: str, server: str, tool: str, item: dict[str, Any]) -> McpToolDefinition:
    annotations = item.get("annotations")
    hints = annotations if isinstance(annotations, dict) else {}
    description = item.get("description")
    schema = item.get("inputSchema")
    said = msgspec.json.encode([tool, repair_text(str(description)), _encodable(schema), _encodable(hints)])
    return McpToolDefinition(
        name=name,
        server=server,
        tool=tool,
        description=clean_text(description if isinstance(description, str) else "", limit=_MAX_DESCRIPTION),
        parameters=usable_schema(schema),
        is_reading=hints.get("readOnlyHint") is True and hints.get("destructiveHint") is not True,
        digest=sha256_hex(said)[:8],
    )


def _encodable(value: object) -> object:
    return None if is_nested_deeper(value, MAX_DEPTH) else value


def clean_text(text: str, *, limit: int) -> str:
    """Remove control and invisible formatting characters, and cut what is too long."""
    plain = "".join(
        char
        for char in repair_text(text)
        if char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cf", "Co", "Cn")
    )
    return plain if len(plain) <= limit else f"{plain[:limit]} …"


def usable_schema(schema: object) -> dict[str, Any]:
    """Return a JSON Schema that every provider accepts: an object, without references."""
    if not isinstance(schema, dict) or is_nested_deeper(schema, MAX_DEPTH):
        return dict(_FREE_OBJECT)
    if len(msgspec.json.encode(schema)) > _MAX_SCHEMA:
        return dict(_FREE_OBJECT)
    definitions = {**_table(schema.get("definitions")), **_table(schema.get("$defs"))}
    try:
        plain = _Inliner(definitions).inline(schema)
    except ValueError:
        return dict(_FREE_OBJECT)
    for keyword in _COMBINATIONS:
        plain.pop(keyword, None)
    plain["type"] = "object"
    plain["properties"] = _table(plain.get("properties"))
    required = plain.get("required")
    plain["required"] = [name for name in required if name in plain["properties"]] if isinstance(required, list) else []
    if not plain["required"]:
        del plain["required"]
    return dict(_FREE_OBJECT) if len(msgspec.json.encode(plain)) > _MAX_SCHEMA else plain


class _Inliner:
    """Replaces references to definitions by what they stand for. Recursive ones become anything."""

    def __init__(self, definitions: dict[str, Any]) -> None:
        self._definitions = definitions
        self._left = _MAX_NODES

    def inline(self, node: object, inside: tuple[str, ...] = ()) -> Any:
        """Raises `ValueError` if the result would be too large."""
        self._left -= 1
        if self._left < 0:
            raise ValueError("the schema is too large")
        if isinstance(node, list):
            return [self.inline(item, inside) for item in node]
        if not isinstance(node, dict):
            return node
        if isinstance(reference := node.get("$ref"), str):
            return self._inline_reference(reference.rpartition("/")[2], node, inside)
        cleaned = {}
        for key, value in node.items():
            if key == "properties" and isinstance(value, dict):
                cleaned[key] = {name: self.inline(item, inside) for name, item in value.items()}
            elif key not in _DROPPED:
                cleaned[key] = self.inline(value, inside)
        return cleaned

    def _inline_reference(self, name: str, node: dict[str, Any], inside: tuple[str, ...]) -> Any:
        if name in inside or name not in self._definitions:
            return {}
        target = self.inline(self._definitions[name], (*inside, name))
        beside = {key: value for key, value in node.items() if key != "$ref"}
        return {**(target if isinstance(target, dict) else {}), **self.inline(beside, inside)}


def _table(value: object) -> dict[str, Any]:
    return dict(value) if isinstance(value, dict) else {}


def _matches(tool: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(tool, pattern) for pattern in patterns)


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - _MAX_LISTED} more" if len(listed) > _MAX_LISTED else ""
    return ", ".join(listed[:_MAX_LISTED]) + more
