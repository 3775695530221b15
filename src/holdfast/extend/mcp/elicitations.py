"""Questions that an MCP server asks the person during a call.

A server asks for a form of simple values. Each value becomes one question. An address that a server asks to open is
shown to the person and not opened.
"""

from __future__ import annotations

from typing import Any

from holdfast.extend.mcp.tool_definitions import clean_text
from holdfast.schema.approvals import QuestionItem
from holdfast.tools.protocol import ToolContext

_MAX_QUESTIONS = 10
_MAX_TEXT = 1_000
_DECLINE: dict[str, Any] = {"action": "decline"}


async def answer_elicitation(request: dict[str, Any], *, server: str, context: ToolContext) -> dict[str, Any]:
    """Ask the person and return the answer as the protocol's JSON."""
    if not context.interactive:
        return _DECLINE
    items = questions_of(request, server=server)
    if items is None:
        return _DECLINE
    answers = await context.asker.ask(items)
    return {"action": "cancel"} if answers is None else content_of(request, answers)


def questions_of(request: dict[str, Any], *, server: str) -> tuple[QuestionItem, ...] | None:
    """Return the questions for a person; None if the server asks for something that cannot be asked."""
    message = f"The MCP server {server} asks: {clean_text(str(request.get('message', '')), limit=_MAX_TEXT)}"
    if request.get("mode") == "url":
        address = clean_text(str(request.get("url", "")), limit=_MAX_TEXT)
        return (QuestionItem(f"{message}\nOpen this address yourself: {address}\nHave you done that?", "yes_no"),)
    fields = _fields(request)
    if len(fields) > _MAX_QUESTIONS:
        return None
    if not fields:
        return (QuestionItem(message, "yes_no"),)
    return tuple(_question(message, name, field) for name, field in fields.items())


def content_of(request: dict[str, Any], answers: tuple[tuple[str, ...], ...]) -> dict[str, Any]:
    """Return the answers as the form that the server asked for."""
    fields = _fields(request)
    if not fields or request.get("mode") == "url":
        return {"action": "accept", "content": {}} if answers[0] == ("yes",) else _DECLINE
    content = {}
    for (name, field), given in zip(fields.items(), answers, strict=True):
        value = _value(field, given)
        if value is not None:
            content[name] = value
    required = request["requestedSchema"].get("required", [])
    missing = isinstance(required, list) and any(name not in content for name in required)
    return _DECLINE if missing else {"action": "accept", "content": content}


def _fields(request: dict[str, Any]) -> dict[str, dict[str, Any]]:
    schema = request.get("requestedSchema")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return {}
    return {name: field if isinstance(field, dict) else {} for name, field in properties.items()}


def _question(message: str, name: str, field: dict[str, Any]) -> QuestionItem:
    what = clean_text(str(field.get("description") or field.get("title") or name), limit=_MAX_TEXT)
    text = f"{message}\n{what}"
    options = _options(field)
    if options:
        return QuestionItem(text, "multiple" if field.get("type") == "array" else "single", options)
    return QuestionItem(text, "yes_no" if field.get("type") == "boolean" else "text")


def _options(field: dict[str, Any]) -> tuple[str, ...]:
    source = field.get("items") if field.get("type") == "array" else field
    if not isinstance(source, dict):
        return ()
    if isinstance(values := source.get("enum"), list):
        return tuple(clean_text(str(value), limit=200) for value in values)
    choices = source.get("oneOf") or source.get("anyOf")
    if isinstance(choices, list):
        return tuple(
            clean_text(str(one["const"]), limit=200) for one in choices if isinstance(one, dict) and "const" in one
        )
    return ()


def _value(field: dict[str, Any], given: tuple[str, ...]) -> Any:
    if field.get("type") == "array":
        return list(given)
    if not given or given[0] == "":
        return None
    try:
        match field.get("type"):
            case "boolean":
                return given[0].lower() == "yes"
            case "integer":
                return int(given[0])
            case "number":
                return float(given[0])
    except ValueError:
        return None
    return given[0]
