"""Streams of OpenAI Responses."""

from __future__ import annotations

from typing import Any

from tests.models.streams import Stream, failure, sse


def message(index: int, *pieces: str, refusal: bool = False) -> tuple[list[Any], dict[str, Any]]:
    """The events of a message, and the item that the final response repeats."""
    kind = "refusal" if refusal else "output_text"
    key = "refusal" if refusal else "text"
    whole = "".join(pieces)
    at: dict[str, Any] = {"output_index": index, "item_id": f"msg_{index}", "content_index": 0}
    more: dict[str, Any] = {} if refusal else {"annotations": [], "logprobs": []}
    item = {"id": f"msg_{index}", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
    part = {"type": kind, key: whole, **more}
    done = {**item, "status": "completed", "content": [part]}
    logprobs = {} if refusal else {"logprobs": []}
    name = f"response.{kind}"
    return [
        {"type": "response.output_item.added", "output_index": index, "item": item},
        {"type": "response.content_part.added", **at, "part": {"type": kind, key: "", **more}},
        *({"type": f"{name}.delta", **at, "delta": piece, **logprobs} for piece in pieces),
        {"type": f"{name}.done", **at, key: whole, **logprobs},
        {"type": "response.content_part.done", **at, "part": part},
        {"type": "response.output_item.done", "output_index": index, "item": done},
    ], done


def reasoning(index: int, *summaries: str, encrypted: str | None = "gAAAAABo") -> tuple[list[Any], dict[str, Any]]:
    item_id = f"rs_{index}"
    item = {"id": item_id, "type": "reasoning", "summary": []}
    parts = [{"type": "summary_text", "text": text} for text in summaries]
    done = {**item, "summary": parts, "encrypted_content": encrypted}
    events: list[Any] = [{"type": "response.output_item.added", "output_index": index, "item": item}]
    for number, text in enumerate(summaries):
        at = {"output_index": index, "item_id": item_id, "summary_index": number}
        half = len(text) // 2
        events += [
            {"type": "response.reasoning_summary_part.added", **at, "part": {"type": "summary_text", "text": ""}},
            {"type": "response.reasoning_summary_text.delta", **at, "delta": text[:half]},
            {"type": "response.reasoning_summary_text.delta", **at, "delta": text[half:]},
            {"type": "response.reasoning_summary_text.done", **at, "text": text},
            {"type": "response.reasoning_summary_part.done", **at, "part": {"type": "summary_text", "text": text}},
        ]
    events.append({"type": "response.output_item.done", "output_index": index, "item": done})
    return events, done


def call(index: int, id: str, name: str, *pieces: str) -> tuple[list[Any], dict[str, Any]]:  # noqa: A002
    whole = "".join(pieces)
    head = {"id": f"fc_{index}", "type": "function_call", "call_id": id, "name": name}
    at = {"output_index": index, "item_id": f"fc_{index}"}
    done = {**head, "status": "completed", "arguments": whole}
    return [
        {
            "type": "response.output_item.added",
            "output_index": index,
            "item": {**head, "status": "in_progress", "arguments": ""},
        },
        *({"type": "response.function_call_arguments.delta", **at, "delta": piece} for piece in pieces),
        {"type": "response.function_call_arguments.done", **at, "name": name, "arguments": whole},
        {"type": "response.output_item.done", "output_index": index, "item": done},
    ], done


def response(status: str, output: list[Any], **more: Any) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_760_000_000,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": "gpt-x",
        "output": output,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": None,
        **more,
    }


def tokens(given: int, made: int, *, cached: int = 0, written: int = 0, thought: int = 0) -> dict[str, Any]:
    return {
        "input_tokens": given,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written},
        "output_tokens": made,
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": given + made,
    }


def stream(
    *items: tuple[list[Any], dict[str, Any]], last: str = "completed", ascii_only: bool = False, **more: Any
) -> Stream:
    more.setdefault("usage", tokens(30, 12))
    output = [item for _, item in items]
    events = [
        {"type": "response.created", "response": response("in_progress", [])},
        {"type": "response.in_progress", "response": response("in_progress", [])},
        *(event for found, _ in items for event in found),
        {"type": f"response.{last}", "response": response(last, output, **more)},
    ]
    return numbered(events, ascii_only=ascii_only)


def numbered(events: list[Any], *, ascii_only: bool = False) -> Stream:
    counted = [{**event, "sequence_number": number} for number, event in enumerate(events)]
    return Stream(sse(*counted, named=True, ascii_only=ascii_only))


_INTERLEAVED_A, _ITEM_A = call(0, "call_a", "read", '{"path":', '"a"}')
_INTERLEAVED_B, _ITEM_B = call(1, "call_b", "grep", '{"pattern":', '"b"}')
_INTERLEAVED = [event for pair in zip(_INTERLEAVED_A, _INTERLEAVED_B, strict=True) for event in pair]

STREAMS: dict[str, Stream] = {
    "text": stream(message(0, "Hel", "lo", "!")),
    "text in many scripts": stream(message(0, "Zażółć ", "日本語", " 😀")),
    "text as ASCII escapes": stream(message(0, "naïve ", "😀"), ascii_only=True),
    "two messages": stream(message(0, "one "), message(1, "two")),
    "one call in pieces": stream(call(0, "call_a", "view", '{"pa', 'th":"a.py"}')),
    "parallel calls": stream(call(0, "call_a", "read", '{"path":"a"}'), call(1, "call_b", "read", '{"path":"b"}')),
    "parallel calls, interleaved": stream((_INTERLEAVED, _ITEM_A), ([], _ITEM_B)),
    "a call without arguments": stream(call(0, "call_a", "now", "{}")),
    "text, then a call": stream(message(0, "Looking."), call(1, "call_a", "ls", '{"path":"/"}')),
    "reasoning with a summary": stream(reasoning(0, "I think, so I am."), message(1, "4")),
    "reasoning with two summaries": stream(reasoning(0, "First this.", "Then that."), message(1, "4")),
    "reasoning without a summary": stream(reasoning(0), message(1, "4"), usage=tokens(30, 200, thought=190)),
    "reasoning, then a call": stream(reasoning(0, "Look first."), call(1, "call_a", "ls", "{}")),
    "usage with a cache": stream(message(0, "ok"), usage=tokens(3000, 5, cached=2816)),
    "usage with a written cache": stream(message(0, "ok"), usage=tokens(3000, 5, cached=1000, written=1500)),
    "cut short by its length": stream(
        message(0, "once upon"), last="incomplete", incomplete_details={"reason": "max_output_tokens"}
    ),
    "stopped by a filter": stream(
        message(0, "How"), last="incomplete", incomplete_details={"reason": "content_filter"}
    ),
    "a refusal": stream(message(0, "I'm sorry, ", "I can't.", refusal=True)),
    "a failure": stream(
        message(0, "Hel"), last="failed", error={"code": "server_error", "message": "The model failed."}, usage=None
    ),
    "a rate limit in mid-stream": stream(
        last="failed",
        error={"code": "rate_limit_exceeded", "message": "Rate limit reached. Please try again in 1.5s."},
        usage=None,
    ),
    "an error event": numbered(
        [
            {"type": "response.created", "response": response("in_progress", [])},
            {"type": "error", "code": "server_error", "message": "Something broke.", "param": None},
        ]
    ),
    "401": failure(
        401, {"error": {"message": "Incorrect API key", "type": "invalid_request_error", "code": "invalid_api_key"}}
    ),
    "429": failure(
        429,
        {
            "error": {
                "message": "You exceeded your current quota",
                "type": "insufficient_quota",
                "code": "insufficient_quota",
            }
        },
    ),
    "400, context": failure(
        400,
        {
            "error": {
                "message": "Your input exceeds the context window of this model.",
                "type": "invalid_request_error",
                "code": "context_length_exceeded",
            }
        },
    ),
    "400, policy": failure(
        400,
        {
            "error": {
                "message": "Invalid prompt: flagged by our usage policy.",
                "type": "invalid_request_error",
                "code": "invalid_prompt",
            }
        },
    ),
    "500": failure(500, {"error": {"message": "The server had an error", "type": "server_error", "code": None}}),
}
