"""Validates our request bodies with the parameter types of the vendors' SDKs. Unknown fields are errors."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

import openai.types.chat.completion_create_params as chat_params
import openai.types.responses.response_create_params as responses_params
from anthropic.types import message_create_params
from google.genai import types as genai_types
from pydantic import ConfigDict, TypeAdapter, ValidationError
from typing_extensions import is_typeddict

from holdfast.models.model_factory import load_wire
from tests.models.requests import requests, target


def validate_bodies(wire: Any) -> dict[str, dict[str, Any]]:
    """The body of each request, and the result of its validation."""
    found = {}
    for name, request in requests(wire).items():
        body = load_wire(wire).body(request, target(wire))
        found[name] = {"verdict": _verdict(wire, body), "body": body}
    return found


def _verdict(wire: str, body: dict[str, Any]) -> str:
    try:
        if wire == "gemini":
            _check_gemini(body)
        else:
            _exhaust(_ADAPTERS[wire].validate_python(body))
    except ValidationError as error:
        return f"invalid: {error.errors(include_url=False, include_input=False)[:5]}"
    return "valid"


def _check_gemini(body: dict[str, Any]) -> None:
    known = {"systemInstruction", "tools", "contents", "generationConfig"}
    assert set(body) <= known, set(body) - known
    for content in (*body["contents"], *([body["systemInstruction"]] if "systemInstruction" in body else ())):
        genai_types.Content.model_validate(content, strict=False)
    for tool in body.get("tools", ()):
        genai_types.Tool.model_validate(tool)
    if "generationConfig" in body:
        genai_types.GenerationConfig.model_validate(body["generationConfig"])


def _forbid_unknown_keys() -> None:
    """The SDKs' types allow unknown keys. We must not send any."""
    for name, module in list(sys.modules.items()):
        if name.startswith(("openai.types", "anthropic.types")):
            for value in vars(module).values():
                if is_typeddict(value):
                    value.__pydantic_config__ = ConfigDict(extra="forbid", arbitrary_types_allowed=True)


def _exhaust(value: Any) -> None:
    """Read all iterables, because they are validated only while they are read."""
    if isinstance(value, Mapping):
        for item in value.values():
            _exhaust(item)
    elif isinstance(value, Iterable) and not isinstance(value, str | bytes):
        for item in value:
            _exhaust(item)


_forbid_unknown_keys()
_ADAPTERS: dict[str, TypeAdapter[Any]] = {
    "openai-chat": TypeAdapter(chat_params.CompletionCreateParamsStreaming),
    "openai-responses": TypeAdapter(responses_params.ResponseCreateParamsStreaming),
    "anthropic": TypeAdapter(message_create_params.MessageCreateParamsStreaming),
}
