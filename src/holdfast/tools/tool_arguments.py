"""Arguments of tools: the JSON Schema a model is given, and the reading of what it sends.

Models send numbers as text and ``null`` for what they leave out; both are understood. Everything else that does not
fit is told back with the tool's parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.errors import ToolError

_LEFT_OUT = frozenset({"title", "$defs", "default"})


def arguments_schema(arguments: type[Any]) -> dict[str, Any]:
    """The schema of a struct as one object: references written out, nothing in it that a model does not need."""
    whole = msgspec.json.schema(arguments)
    found = _simplified(whole, whole.get("$defs", {}))
    found.pop("description", None)
    return {"type": "object", "properties": {}, **found}


def decode_arguments(tool: str, arguments: type[Any], given: Mapping[str, Any]) -> Any:
    """The struct (or the plain dict, where that is the type); `ToolError` says what is wrong and what is expected."""
    if arguments is dict:
        return dict(given)
    fields = {field.name: field for field in msgspec.structs.fields(arguments)}
    said = {
        name: value for name, value in given.items() if value is not None or name not in fields or fields[name].required
    }
    try:
        return msgspec.convert(said, arguments, strict=False)
    except msgspec.ValidationError as error:
        known = ", ".join(f"{name} (required)" if field.required else name for name, field in fields.items())
        raise ToolError(f"the arguments of {tool!r} do not fit: {error}. Its parameters: {known or 'none'}.") from None


def _simplified(node: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(node, list):
        return [_simplified(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if reference := node.get("$ref"):
        beside = {name: value for name, value in node.items() if name != "$ref"}
        return _simplified({**definitions[reference.rpartition("/")[2]], **beside}, definitions)
    if options := [option for option in node.get("anyOf", ()) if option != {"type": "null"}]:
        rest = {name: value for name, value in node.items() if name != "anyOf"}
        return _simplified({**options[0], **rest}, definitions) if len(options) == 1 else {**rest, "anyOf": options}
    if isinstance(node.get("properties"), dict):
        properties = {name: _simplified(value, definitions) for name, value in node["properties"].items()}
        rest = {name: value for name, value in node.items() if name != "properties" and name not in _LEFT_OUT}
        return {**{name: _simplified(value, definitions) for name, value in rest.items()}, "properties": properties}
    plain = {name: _simplified(value, definitions) for name, value in node.items() if name not in _LEFT_OUT}
    return {"type": "string", **plain} if "enum" in plain else plain
