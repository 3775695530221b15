"""Streams of servers that are partly compatible with OpenAI's Chat Completions, with the expected answers."""

from __future__ import annotations

from typing import Any

from tests.models.streams import sse
from tests.models.streams.openai_chat import CALLED, DONE, START, STOP, chunk, text_chunks, usage


def calls(*found: dict[str, Any]) -> Any:
    return chunk({"tool_calls": list(found)})


def expect(**changes: Any) -> dict[str, Any]:
    return {"text": "", "reasoning": "", "signatures": [], "calls": [], "usage": None, "stop": "end_turn", **changes}


_LS = {"name": "ls", "arguments": '{"path":"/"}'}
_LS_CALL = {"id": None, "name": "ls", "arguments": {"path": "/"}}
_TWO = [
    {"id": "a", "name": "ls", "arguments": {"path": "/"}},
    {"id": "b", "name": "ls", "arguments": {"path": "/"}},
]

COMPATIBLE_STREAMS: dict[str, tuple[bytes, dict[str, Any]]] = {
    "a call without an index": (
        sse(START, calls({"id": "a", "type": "function", "function": _LS}), CALLED, DONE),
        expect(calls=[_TWO[0]], stop="tool_use"),
    ),
    "two calls without an index": (
        sse(START, calls({"id": "a", "function": _LS}, {"id": "b", "function": _LS}), CALLED, DONE),
        expect(calls=_TWO, stop="tool_use"),
    ),
    "two calls under one index": (
        sse(
            START,
            calls({"index": 0, "id": "a", "function": _LS}),
            calls({"index": 0, "id": "b", "function": _LS}),
            STOP,
        ),
        expect(calls=_TWO, stop="tool_use"),
    ),
    "calls without index and id": (
        sse(
            START,
            calls({"function": {"name": "ls", "arguments": '{"path"'}}),
            calls({"function": {"arguments": ':"/"}'}}),
            STOP,
        ),
        expect(calls=[_LS_CALL], stop="tool_use"),
    ),
    "the name comes after the arguments": (
        sse(
            START,
            calls({"index": 0, "function": {"arguments": '{"path":'}}),
            calls({"index": 0, "function": {"name": "ls", "arguments": '"/"}'}}),
            CALLED,
            DONE,
        ),
        expect(calls=[_LS_CALL], stop="tool_use"),
    ),
    "the name and the id in each piece": (
        sse(
            START,
            calls({"index": 0, "id": "a", "function": {"name": "ls", "arguments": '{"path":'}}),
            calls({"index": 0, "id": "a", "function": {"name": "ls", "arguments": '"/"}'}}),
            CALLED,
            DONE,
        ),
        expect(calls=[_TWO[0]], stop="tool_use"),
    ),
    "arguments as an object": (
        sse(START, calls({"index": 0, "function": {"name": "ls", "arguments": {"path": "/"}}}), CALLED, DONE),
        expect(calls=[_LS_CALL], stop="tool_use"),
    ),
    "no arguments at all": (
        sse(START, calls({"index": 0, "id": "a", "function": {"name": "now", "arguments": None}}), CALLED, DONE),
        expect(calls=[{"id": "a", "name": "now", "arguments": {}}], stop="tool_use"),
    ),
    "a call that ends with stop": (
        sse(START, calls({"index": 0, "id": "a", "function": _LS}), STOP, DONE),
        expect(calls=[_TWO[0]], stop="tool_use"),
    ),
    "the old function call": (
        sse(
            START,
            chunk({"function_call": {"name": "ls", "arguments": '{"path":'}}),
            chunk({"function_call": {"arguments": '"/"}'}}),
            chunk({}, finish="function_call"),
            DONE,
        ),
        expect(calls=[_LS_CALL], stop="tool_use"),
    ),
    "no finish reason, then DONE": (sse(START, *text_chunks("hi"), DONE), expect(text="hi")),
    "a finish reason, no DONE": (sse(START, *text_chunks("hi"), STOP), expect(text="hi")),
    "no blank line at the end": (sse(START, *text_chunks("hi"), STOP) + b"data: [DONE]", expect(text="hi")),
    "an unknown finish reason": (
        sse(START, *text_chunks("hi"), chunk({}, finish="eos_token"), DONE),
        expect(text="hi"),
    ),
    "reasoning under another name": (
        sse(START, chunk({"reasoning": "Hm"}), chunk({"reasoning": "."}), *text_chunks("hi"), STOP, DONE),
        expect(reasoning="Hm.", text="hi"),
    ),
    "reasoning under both names": (
        sse(START, chunk({"reasoning": "Hm.", "reasoning_content": "Hm."}), *text_chunks("hi"), STOP, DONE),
        expect(reasoning="Hm.", text="hi"),
    ),
    "reasoning and text in one chunk": (
        sse(START, chunk({"reasoning_content": "Hm.", "content": "hi"}), STOP, DONE),
        expect(reasoning="Hm.", text="hi"),
    ),
    "content as typed parts": (
        sse(
            START,
            chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]}),
            chunk({"content": [{"type": "text", "text": "hi"}]}),
            STOP,
            DONE,
        ),
        expect(reasoning="Hm.", text="hi"),
    ),
    "a whole message instead of deltas": (
        sse(
            {
                "object": "chat.completion",
                "choices": [{"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}],
            }
        ),
        expect(text="hi"),
    ),
    "null everywhere": (
        sse(
            {
                "choices": [{"index": None, "delta": {"content": None, "tool_calls": None}, "finish_reason": None}],
                "usage": None,
            },
            {"choices": None, "usage": None},
            *text_chunks("hi"),
            STOP,
            DONE,
        ),
        expect(text="hi"),
    ),
    "usage with each chunk": (
        sse(
            START,
            {**text_chunks("hi")[0], "usage": {"prompt_tokens": 5, "completion_tokens": 1}},
            STOP,
            usage(5, 2),
            DONE,
        ),
        expect(text="hi", usage={"input": 5, "output": 2, "cache_read": 0, "cache_write": 0}),
    ),
    "usage inside the choice": (
        sse(
            START,
            *text_chunks("hi"),
            {
                "choices": [
                    {
                        "index": 0,
                        "delta": {},
                        "finish_reason": "stop",
                        "usage": {"prompt_tokens": 9, "cached_tokens": 4},
                    }
                ]
            },
            DONE,
        ),
        expect(text="hi", usage={"input": 5, "output": 0, "cache_read": 4, "cache_write": 0}),
    ),
    "usage in a vendor's own field": (
        sse(
            START, *text_chunks("hi"), {**STOP, "x_groq": {"usage": {"prompt_tokens": 9, "completion_tokens": 3}}}, DONE
        ),
        expect(text="hi", usage={"input": 9, "output": 3, "cache_read": 0, "cache_write": 0}),
    ),
    "cache hits under another name": (
        sse(
            START,
            *text_chunks("hi"),
            STOP,
            chunk(usage={"prompt_tokens": 9, "completion_tokens": 3, "prompt_cache_hit_tokens": 8}),
        ),
        expect(text="hi", usage={"input": 1, "output": 3, "cache_read": 8, "cache_write": 0}),
    ),
    "reasoning counted beside the completion": (
        sse(
            START,
            *text_chunks("hi"),
            STOP,
            chunk(
                usage={
                    "prompt_tokens": 10,
                    "completion_tokens": 3,
                    "total_tokens": 113,
                    "completion_tokens_details": {"reasoning_tokens": 100},
                }
            ),
        ),
        expect(text="hi", usage={"input": 10, "output": 103, "cache_read": 0, "cache_write": 0}),
    ),
    "usage with invalid counts": (
        sse(
            START,
            *text_chunks("hi"),
            STOP,
            chunk(usage={"prompt_tokens": -5, "completion_tokens": "many", "total_tokens": None}),
        ),
        expect(text="hi", usage={"input": 0, "output": 0, "cache_read": 0, "cache_write": 0}),
    ),
    "usage that is not an object": (sse(START, *text_chunks("hi"), STOP, chunk(usage=[1, 2])), expect(text="hi")),
    "a lone surrogate": (
        sse(START, *text_chunks("a\ud83d", "b"), STOP, DONE, ascii_only=True),
        expect(text="a\ufffdb"),
    ),
    "a lone surrogate at the end": (
        sse(START, *text_chunks("a\ud83d"), STOP, DONE, ascii_only=True),
        expect(text="a\ufffd"),
    ),
    "surrogates as raw bytes": (
        sse(START) + b'data: {"choices":[{"delta":{"content":"\xed\xa0\xbd\xed\xb8\x80"}}]}\n\n' + sse(STOP, DONE),
        expect(text="😀"),
    ),
    "broken UTF-8": (
        sse(START) + b'data: {"choices":[{"delta":{"content":"a\xffb"}}]}\n\n' + sse(STOP, DONE),
        expect(text="a\ufffdb"),
    ),
    "NaN": (
        sse(START) + b'data: {"choices":[{"delta":{"content":"hi"},"logprob":NaN}]}\n\n' + sse(STOP, DONE),
        expect(text="hi"),
    ),
    "comments as keep-alive": (
        b": PROCESSING\n\n: PROCESSING\n\n" + sse(START, *text_chunks("hi"), STOP, DONE),
        expect(text="hi"),
    ),
}
