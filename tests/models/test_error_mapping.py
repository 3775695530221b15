"""The errors of all vendors are mapped to our classes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.errors import (
    ModelAuth,
    ModelContext,
    ModelError,
    ModelInvalid,
    ModelMalformed,
    ModelOverloaded,
    ModelRateLimit,
    ModelRefused,
)
from holdfast.models.error_mapping import error_from_event, error_from_response
from tests.models.support import answer, streams


def map_response(status: int, body: Any, **headers: str) -> ModelError:
    names = {"content-type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return error_from_response(status, names, content, host="host", now=1_000_000.0)


def error(message: str = "", **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, **more}}


TABLE: list[tuple[str, int, Any, type[ModelError]]] = [
    ("OpenAI: key", 401, error("Incorrect API key provided", code="invalid_api_key"), ModelAuth),
    ("OpenAI: no credit left", 429, error("You exceeded your current quota", code="insufficient_quota"), ModelAuth),
    ("OpenAI: rate", 429, error("Rate limit reached", code="rate_limit_exceeded"), ModelRateLimit),
    (
        "OpenAI: window",
        400,
        error("maximum context length is 8192 tokens", code="context_length_exceeded"),
        ModelContext,
    ),
    ("OpenAI: one very long text", 400, error("string too long", code="string_above_max_length"), ModelContext),
    ("OpenAI: model", 404, error("The model does not exist", code="model_not_found"), ModelInvalid),
    ("OpenAI: parameter", 400, error("Unsupported parameter", code="unsupported_parameter"), ModelInvalid),
    ("OpenAI: policy", 400, error("flagged", code="invalid_prompt"), ModelRefused),
    ("OpenAI: down", 503, error("overloaded", type="server_error"), ModelOverloaded),
    (
        "Azure: filter",
        400,
        error("filtered", code="content_filter", innererror={"code": "ResponsibleAIPolicyViolation"}),
        ModelRefused,
    ),
    ("Azure: rate", 429, error("exceeded token rate limit", code="429"), ModelRateLimit),
    ("Anthropic: key", 401, {"type": "error", **error("invalid x-api-key", type="authentication_error")}, ModelAuth),
    ("Anthropic: credit", 400, error("Your credit balance is too low", type="invalid_request_error"), ModelAuth),
    ("Anthropic: window", 400, error("prompt is too long: 1 > 0", type="invalid_request_error"), ModelContext),
    (
        "Anthropic: window with output",
        400,
        error("input length and `max_tokens` exceed context limit: 1 + 2 > 3", type="invalid_request_error"),
        ModelContext,
    ),
    ("Anthropic: size", 413, error("Request exceeds the maximum size", type="request_too_large"), ModelContext),
    ("Anthropic: overloaded", 529, error("Overloaded", type="overloaded_error"), ModelOverloaded),
    ("Anthropic: invalid", 400, error("messages: roles must alternate", type="invalid_request_error"), ModelInvalid),
    (
        "Gemini: key",
        400,
        error("API key not valid.", status="INVALID_ARGUMENT", details=[{"reason": "API_KEY_INVALID"}]),
        ModelAuth,
    ),
    (
        "Gemini: key, no details",
        400,
        error("API key not valid. Please pass a valid API key.", status="INVALID_ARGUMENT"),
        ModelAuth,
    ),
    ("Gemini: rate", 429, error("quota", status="RESOURCE_EXHAUSTED"), ModelRateLimit),
    (
        "Gemini: window",
        400,
        error("The input token count (9) exceeds the maximum number of tokens allowed (8).", status="INVALID_ARGUMENT"),
        ModelContext,
    ),
    ("Gemini: in a list", 503, [error("overloaded", status="UNAVAILABLE")], ModelOverloaded),
    ("Gemini: invalid", 400, error("Invalid JSON payload", status="INVALID_ARGUMENT"), ModelInvalid),
    ("OpenRouter: credit", 402, error("Insufficient credits", code=402), ModelAuth),
    (
        "OpenRouter: moderated",
        403,
        error("flagged", code=403, metadata={"error_type": "content_policy_violation"}),
        ModelRefused,
    ),
    (
        "DeepSeek: balance",
        402,
        error("Insufficient Balance", type="unknown_error", code="invalid_request_error"),
        ModelAuth,
    ),
    (
        "xAI: key",
        400,
        {"code": "Client specified an invalid argument", "error": "Incorrect API key provided: xa***"},
        ModelAuth,
    ),
    (
        "xAI: window",
        400,
        {"error": "This model's maximum prompt length is 131072 but the request contains 200000 tokens."},
        ModelContext,
    ),
    (
        "Mistral: validation",
        422,
        {"detail": [{"loc": ["body"], "msg": "Extra inputs are not permitted"}]},
        ModelInvalid,
    ),
    ("Mistral: key", 401, {"message": "Unauthorized", "request_id": "x"}, ModelAuth),
    (
        "Mistral: window",
        400,
        {"message": "Prompt contains 40000 tokens, too large for model with 32768 maximum context length"},
        ModelContext,
    ),
    (
        "vLLM: window",
        400,
        {"object": "error", "message": "This model's maximum context length is 4096 tokens.", "code": 400},
        ModelContext,
    ),
    (
        "llama.cpp: window",
        400,
        error("the request exceeds the available context size", type="exceed_context_size_error"),
        ModelContext,
    ),
    ("llama.cpp: loading", 503, error("Loading model", type="unavailable_error", code=503), ModelOverloaded),
    ("Ollama: model", 404, {"error": "model 'x' not found"}, ModelInvalid),
    ("Ollama: window", 400, {"error": "prompt too long; exceeded max context length by 4 tokens"}, ModelContext),
    (
        "Groq: size",
        413,
        error("Request too large for model", type="tokens", code="rate_limit_exceeded"),
        ModelContext,
    ),
    ("an error without a message", 500, {"error": {}}, ModelOverloaded),
    ("JSON without an error", 500, {"fine": True}, ModelOverloaded),
    ("JSON that is a number", 400, 7, ModelInvalid),
    ("no body", 502, b"", ModelOverloaded),
    ("a redirect", 302, b"", ModelInvalid),
    ("a time-out", 408, b"", ModelOverloaded),
    ("a gateway's time-out", 504, b"<html>", ModelOverloaded),
]


@pytest.mark.parametrize(("status", "body", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_response_is_mapped_to_its_error_class(status: int, body: Any, expected: type[ModelError]) -> None:
    assert type(map_response(status, body)) is expected


@pytest.mark.parametrize(
    ("wire", "name", "expected"),
    [
        ("openai-chat", "an error in mid-stream", ModelOverloaded),
        ("openai-chat", "a rate limit in mid-stream", ModelRateLimit),
        ("openai-chat", "404", ModelInvalid),
        ("openai-responses", "a failure", ModelOverloaded),
        ("openai-responses", "a rate limit in mid-stream", ModelRateLimit),
        ("openai-responses", "an error event", ModelOverloaded),
        ("openai-responses", "429", ModelAuth),
        ("openai-responses", "400, policy", ModelRefused),
        ("anthropic", "an error in mid-stream", ModelOverloaded),
        ("anthropic", "400, credit", ModelAuth),
        ("anthropic", "400, context", ModelContext),
        ("gemini", "400, key", ModelAuth),
        ("gemini", "400, context", ModelContext),
        ("gemini", "429", ModelRateLimit),
    ],
)
def test_error_in_a_stream_is_mapped_to_its_error_class(wire: str, name: str, expected: type[ModelError]) -> None:
    with pytest.raises(expected) as raised:
        answer(wire, streams(wire)[name])
    assert type(raised.value) is expected


def test_error_has_the_status_and_the_vendors_code() -> None:
    failure = map_response(429, error("slow down", code="rate_limit_exceeded"))
    assert failure.message == "host answered 429: slow down"
    assert failure.detail == {"status": 429, "provider_code": "rate_limit_exceeded"}


@pytest.mark.parametrize("content_type", ["text/html", "text/plain", "application/octet-stream"])
def test_body_that_is_not_json_is_not_quoted(content_type: str) -> None:
    failure = map_response(403, b"<h1>secret login page of somebody</h1>", content_type=content_type)
    assert "secret" not in repr(failure) + failure.message + str(failure.detail)
    assert "403" in failure.message


def test_message_is_one_short_line_without_control_characters() -> None:
    message = map_response(400, error("a\x1b[31mb\nc\u202ed\x00" + "x" * 2000)).message
    assert "\x1b" not in message
    assert "\n" not in message
    assert "\u202e" not in message
    assert len(message) < 600


@pytest.mark.parametrize(
    "key",
    ["sk-proj-abcdefghijklmnop", "sk-ant-api03-abcdefghijklmnop", "AIzaSyabcdefghijklmnop", "xai-abcdefghijklmnop"],
)
def test_likely_key_in_a_message_is_redacted(key: str) -> None:
    assert key not in map_response(401, error(f"Incorrect API key provided: {key}.")).message


def test_error_body_with_status_200_is_that_error() -> None:
    assert type(map_response(200, error("slow down", code="rate_limit_exceeded"))) is ModelRateLimit
    assert type(map_response(200, {"choices": []})) is ModelMalformed


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry_after": "7"}, 7.0),
        ({"retry_after": "0.5"}, 0.5),
        ({"retry_after_ms": "1500", "retry_after": "9"}, 1.5),
        ({"retry_after": "Mon, 12 Jan 1970 13:46:50 GMT"}, 10.0),
        ({"retry_after": "Thu, 01 Jan 2026 00:01:00 GMT", "date": "Thu, 01 Jan 2026 00:00:00 GMT"}, 60.0),
        ({"retry_after": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0.0),
        ({"retry_after": "soon"}, None),
        ({"retry_after": "-5"}, None),
        ({"retry_after": "nan"}, None),
        ({"retry_after": ""}, None),
        ({}, None),
    ],
)
@pytest.mark.promise("R13")
def test_retry_after_is_read_from_headers(headers: dict[str, str], expected: float | None) -> None:
    assert map_response(429, error("slow"), **headers).retry_after == expected
    assert map_response(503, b"", **headers).retry_after == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (error("Please try again in 1.5s."), 1.5),
        (error("Please try again in 20ms."), 0.02),
        (error("Please try again in 1m30s."), 90.0),
        (error("quota", details=[{"@type": "RetryInfo", "retryDelay": "34.5s"}]), 34.5),
        (error("quota", details=[{"retryDelay": "soon"}, 3, None]), None),
        (error("try harder in 3 days"), None),
    ],
)
@pytest.mark.promise("R13")
def test_retry_after_is_read_from_details_and_messages(body: Any, expected: float | None) -> None:
    assert map_response(429, body).retry_after == expected


def test_error_that_is_not_retried_has_no_retry_after() -> None:
    assert map_response(400, error("unsupported; try again in 5s")).retry_after is None


@pytest.mark.parametrize("message", ["try again in " + "9" * 5000 + "m1s", "try again in " + "9" * 400 + "s"])
def test_retry_after_with_too_many_digits_is_ignored(message: str) -> None:
    error = error_from_event({"code": "rate_limit_exceeded", "message": message}, host="host")
    assert isinstance(error, ModelRateLimit)
    assert error.retry_after is None
