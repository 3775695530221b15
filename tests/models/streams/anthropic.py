"""Streams of Anthropic Messages."""

from __future__ import annotations

from typing import Any

from tests.models.streams import Stream, failure, sse


def start(**usage: int) -> dict[str, Any]:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x", "content": []}
    tokens = {"input_tokens": 25, "output_tokens": 1, **usage}
    return {
        "type": "message_start",
        "message": {**message, "stop_reason": None, "stop_sequence": None, "usage": tokens},
    }


def block(index: int, **content: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": content}


def delta(index: int, **content: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": content}


def stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def end(reason: str, *, details: Any = None, **usage: int) -> list[dict[str, Any]]:
    fields = {"stop_reason": reason, "stop_sequence": None} | ({"stop_details": details} if details else {})
    tokens = {"output_tokens": 15, **usage}
    return [{"type": "message_delta", "delta": fields, "usage": tokens}, {"type": "message_stop"}]


PING = {"type": "ping"}


def text(index: int, *pieces: str) -> list[dict[str, Any]]:
    return [
        block(index, type="text", text=""),
        *(delta(index, type="text_delta", text=piece) for piece in pieces),
        stop(index),
    ]


def thinking(index: int, *pieces: str, signature: str = "EqQBCgIYAhIM1gbcDa9GJwZA2b3h") -> list[dict[str, Any]]:
    return [
        block(index, type="thinking", thinking="", signature=""),
        *(delta(index, type="thinking_delta", thinking=piece) for piece in pieces),
        delta(index, type="signature_delta", signature=signature),
        stop(index),
    ]


def use(index: int, id: str, name: str, *pieces: str) -> list[dict[str, Any]]:  # noqa: A002
    return [
        block(index, type="tool_use", id=id, name=name, input={}),
        *(delta(index, type="input_json_delta", partial_json=piece) for piece in ("", *pieces)),
        stop(index),
    ]


def stream(*parts: Any, **options: Any) -> Stream:
    events: list[Any] = []
    for part in parts:
        events += part if isinstance(part, list) else [part]
    return Stream(sse(*events, named=True, **options))


STREAMS: dict[str, Stream] = {
    "text": stream(start(), PING, text(0, "Hello", "!"), end("end_turn")),
    "text in many scripts": stream(start(), text(0, "Zażółć ", "日本語", " 😀"), end("end_turn")),
    "text as ASCII escapes": stream(start(), text(0, "naïve ", "😀"), end("end_turn"), ascii_only=True),
    "a surrogate pair in two chunks": stream(
        start(), text(0, "a \ud83d", "\ude00 b"), end("end_turn"), ascii_only=True
    ),
    "line ends as CRLF": stream(start(), text(0, "Hello", "!"), end("end_turn"), end="\r\n"),
    "two blocks of text": stream(start(), text(0, "one "), text(1, "two"), end("end_turn")),
    "thinking": stream(start(), thinking(0, "Let me ", "see."), text(1, "It is 4."), end("end_turn")),
    "thinking that is not shown": stream(start(), thinking(0), text(1, "It is 4."), end("end_turn")),
    "redacted thinking": stream(
        start(),
        [block(0, type="redacted_thinking", data="EmwKAhgBEgy3va3pzix"), stop(0)],
        text(1, "It is 4."),
        end("end_turn"),
    ),
    "one call in pieces": stream(
        start(), text(0, "Looking."), use(1, "toolu_1", "view", '{"path": "a', '.py", "n"', ": 3}"), end("tool_use")
    ),
    "parallel calls": stream(
        start(),
        use(0, "toolu_1", "read", '{"path":"a"}'),
        use(1, "toolu_2", "read", '{"path":"b"}'),
        use(2, "toolu_3", "grep", '{"pattern":"\\\\d+"}'),
        end("tool_use"),
    ),
    "thinking between calls": stream(
        start(),
        thinking(0, "First.", signature="s1"),
        use(1, "toolu_1", "read", '{"path":"a"}'),
        thinking(2, "Then.", signature="s2"),
        use(3, "toolu_2", "read", '{"path":"b"}'),
        end("tool_use"),
    ),
    "a call without arguments": stream(start(), use(0, "toolu_1", "now"), end("tool_use")),
    "usage with a cache": stream(
        start(input_tokens=5, cache_creation_input_tokens=1200, cache_read_input_tokens=9000),
        text(0, "ok"),
        end("end_turn", output_tokens=3),
    ),
    "usage corrected at the end": stream(
        start(input_tokens=0),
        text(0, "ok"),
        end("end_turn", output_tokens=3, input_tokens=77, cache_read_input_tokens=10, cache_creation_input_tokens=2),
    ),
    "cut short by its length": stream(start(), text(0, "once upon"), end("max_tokens")),
    "cut short by the window": stream(start(), text(0, "once"), end("model_context_window_exceeded")),
    "a stop sequence": stream(start(), text(0, "a"), end("stop_sequence")),
    "a refusal": stream(
        start(),
        text(0, "I"),
        end("refusal", details={"type": "refusal", "category": "cyber", "explanation": "This looks like an exploit."}),
    ),
    "a paused turn": stream(start(), text(0, "a"), end("pause_turn")),
    "citations": stream(
        start(),
        [
            block(0, type="text", text="", citations=[]),
            delta(0, type="text_delta", text="cited"),
            delta(
                0,
                type="citations_delta",
                citation={
                    "type": "char_location",
                    "cited_text": "x",
                    "document_index": 0,
                    "document_title": "t",
                    "start_char_index": 0,
                    "end_char_index": 1,
                    "file_id": None,
                },
            ),
            stop(0),
        ],
        end("end_turn"),
    ),
    "an error in mid-stream": stream(
        start(),
        block(0, type="text", text=""),
        delta(0, type="text_delta", text="Hel"),
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}, "request_id": "req_1"},
    ),
    "401": failure(401, {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}}),
    "403": failure(403, {"type": "error", "error": {"type": "permission_error", "message": "not allowed"}}),
    "404": failure(404, {"type": "error", "error": {"type": "not_found_error", "message": "model: claude-y"}}),
    "413": failure(413, {"type": "error", "error": {"type": "request_too_large", "message": "Request too large"}}),
    "429": failure(
        429,
        {
            "type": "error",
            "error": {"type": "rate_limit_error", "message": "This request would exceed your rate limit"},
        },
        retry_after="30",
    ),
    "400, context": failure(
        400,
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "prompt is too long: 210000 tokens > 200000 maximum",
            },
        },
    ),
    "400, credit": failure(
        400,
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "Your credit balance is too low to access the API.",
            },
        },
    ),
    "500": failure(500, {"type": "error", "error": {"type": "api_error", "message": "Internal server error"}}),
    "529": failure(529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
}
