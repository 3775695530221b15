"""Streams of Gemini."""

from __future__ import annotations

import base64
from typing import Any

from tests.models.streams import Stream, failure, sse

SIGNATURE = base64.b64encode(b"signature one").decode()
OTHER = base64.b64encode(b"signature two").decode()


def chunk(*parts: dict[str, Any], finish: str | None = None, usage: dict[str, int] | None = None, **more: Any) -> Any:
    candidate: dict[str, Any] = {"index": 0}
    if parts:
        candidate["content"] = {"role": "model", "parts": list(parts)}
    if finish:
        candidate["finishReason"] = finish
    candidate |= more
    found: dict[str, Any] = {"candidates": [candidate], "modelVersion": "gemini-x", "responseId": "r1"}
    return found | ({"usageMetadata": usage} if usage else {})


def tokens(prompt: int, made: int, *, thought: int = 0, cached: int = 0) -> dict[str, int]:
    found = {"promptTokenCount": prompt, "candidatesTokenCount": made, "totalTokenCount": prompt + made + thought}
    if thought:
        found["thoughtsTokenCount"] = thought
    if cached:
        found["cachedContentTokenCount"] = cached
    return found


def call(name: str, args: dict[str, Any] | None = None, *, signature: str | None = None, id: str | None = None) -> Any:  # noqa: A002
    function: dict[str, Any] = (
        {"name": name} | ({"args": args} if args is not None else {}) | ({"id": id} if id else {})
    )
    return {"functionCall": function} | ({"thoughtSignature": signature} if signature else {})


def thought(text: str) -> dict[str, Any]:
    return {"text": text, "thought": True}


def stream(*chunks: Any, **options: Any) -> Stream:
    return Stream(sse(*chunks, **options))


_END = {"finish": "STOP", "usage": tokens(10, 5)}

STREAMS: dict[str, Stream] = {
    "text": stream(chunk({"text": "Hel"}, usage=tokens(10, 1)), chunk({"text": "lo"}), chunk({"text": "!"}, **_END)),
    "text in many scripts": stream(chunk({"text": "Zażółć "}), chunk({"text": "日本語 😀"}), chunk(**_END)),
    "text as ASCII escapes": stream(chunk({"text": "naïve 😀"}), chunk(**_END), ascii_only=True),
    "line ends as CRLF": stream(chunk({"text": "Hello"}), chunk(**_END), end="\r\n"),
    "several parts in one chunk": stream(chunk({"text": "a"}, {"text": "b"}, {"text": "c"}, **_END)),
    "one call": stream(chunk(call("view", {"path": "a.py", "n": 3})), chunk(**_END)),
    "one call with its id": stream(chunk(call("view", {"path": "a.py"}, id="fc-1"), **_END)),
    "parallel calls, the first signed": stream(
        chunk(call("read", {"path": "a"}, signature=SIGNATURE), call("read", {"path": "b"})), chunk(**_END)
    ),
    "calls in two chunks": stream(
        chunk(call("read", {"path": "a"}, signature=SIGNATURE)), chunk(call("grep", {"pattern": "x"})), chunk(**_END)
    ),
    "a call without arguments": stream(chunk(call("now")), chunk(**_END)),
    "a nested call": stream(chunk(call("edit", {"edits": [{"old": "é", "new": None}], "n": 1.5, "ok": True}), **_END)),
    "text, then a call": stream(chunk({"text": "Looking."}), chunk(call("ls", {"path": "/"}), **_END)),
    "thoughts": stream(
        chunk(thought("Let me ")),
        chunk(thought("see.")),
        chunk({"text": "It is 4."}),
        chunk(finish="STOP", usage=tokens(10, 5, thought=90)),
    ),
    "thoughts, then a signed call": stream(
        chunk(thought("Look first.")), chunk(call("ls", {}, signature=SIGNATURE)), chunk(**_END)
    ),
    "a signature on text": stream(chunk({"text": "It is "}), chunk({"text": "4.", "thoughtSignature": OTHER}, **_END)),
    "a signature on nothing": stream(
        chunk({"text": "It is 4."}), chunk({"text": "", "thoughtSignature": OTHER}, **_END)
    ),
    "usage with a cache": stream(chunk({"text": "ok"}, finish="STOP", usage=tokens(5000, 2, cached=4096, thought=7))),
    "cut short by its length": stream(chunk({"text": "once"}, finish="MAX_TOKENS", usage=tokens(10, 5))),
    "stopped for safety": stream(chunk({"text": "How"}), chunk(finish="SAFETY", usage=tokens(10, 5))),
    "stopped for recitation": stream(chunk({"text": "How"}), chunk(finish="RECITATION")),
    "prohibited content": stream(chunk(finish="PROHIBITED_CONTENT", usage=tokens(10, 0))),
    "a blocked prompt": stream({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": tokens(10, 0)}),
    "400, key": failure(
        400,
        {
            "error": {
                "code": 400,
                "message": "API key not valid. Please pass a valid API key.",
                "status": "INVALID_ARGUMENT",
                "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}],
            }
        },
    ),
    "400, context": failure(
        400,
        {
            "error": {
                "code": 400,
                "message": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
                "status": "INVALID_ARGUMENT",
            }
        },
    ),
    "403": failure(403, {"error": {"code": 403, "message": "denied", "status": "PERMISSION_DENIED"}}),
    "404": failure(404, {"error": {"code": 404, "message": "models/x is not found", "status": "NOT_FOUND"}}),
    "429": failure(
        429,
        {
            "error": {
                "code": 429,
                "message": "Resource has been exhausted",
                "status": "RESOURCE_EXHAUSTED",
                "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}],
            }
        },
    ),
    "500": failure(500, {"error": {"code": 500, "message": "An internal error", "status": "INTERNAL"}}),
    "503": failure(503, {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}),
}
