"""Streams of servers that are compatible with OpenAI's Chat Completions to a degree, and what they mean."""

from __future__ import annotations

from typing import Any

from tests.models.streams import sse
from tests.models.streams.openai_chat import CALLED, DONE, START, STOP, chunk, usage, words


def calls(*found: dict[str, Any]) -> Any:
    return chunk({"tool_calls": list(found)})


def meant(**changes: Any) -> dict[str, Any]:
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
        meant(calls=[_TWO[0]], stop="tool_use"),
    ),
    "two calls without an index": (
        sse(START, calls({"id": "a", "function": _LS}, {"id": "b", "function": _LS}), CALLED, DONE),
        meant(calls=_TWO, stop="tool_use"),
    ),
    "two calls under one index": (
        sse(
            START,
            calls({"index": 0, "id": "a", "function": _LS}),
            calls({"index": 0, "id": "b", "function": _LS}),
            STOP,
        ),
        meant(calls=_TWO, stop="tool_use"),
    ),
    "calls without index and id": (
        sse(
            START,
            calls({"function": {"name": "ls", "arguments": '{"path"'}}),
            calls({"function": {"arguments": ':"/"}'}}),
            STOP,
        ),
        meant(calls=[_LS_CALL], stop="tool_use"),
    ),
    "the name comes after the arguments": (
        sse(
            START,
            calls({"index": 0, "function": {"arguments": '{"path":'}}),
            calls({"index": 0, "function": {"name": "ls", "arguments": '"/"}'}}),
            CALLED,
            DONE,
        ),
        meant(calls=[_LS_CALL], stop="tool_use"),
    ),
    "the name and the id in each piece": (
        sse(
            START,
            calls({"index": 0, "id": "a", "function": {"name": "ls", "arguments": '{"path":'}}),
            calls({"index": 0, "id": "a", "function": {"name": "ls", "arguments": '"/"}'}}),
            CALLED,
            DONE,
        ),
        meant(calls=[_TWO[0]], stop="tool_use"),
    ),
    "arguments as an object": (
        sse(START, calls({"index": 0, "function": {"name": "ls", "arguments": {"path": "/"}}}), CALLED, DONE),
        meant(calls=[_LS_CALL], stop="tool_use"),
    ),
    "no arguments at all": (
        sse(START, calls({"index": 0, "id": "a", "function": {"name": "now", "arguments": None}}), CALLED, DONE),
        meant(calls=[{"id": "a", "name": "now", "arguments": {}}], stop="tool_use"),
    ),
    "a call that ends with stop": (
        sse(START, calls({"index": 0, "id": "a", "function": _LS}), STOP, DONE),
        meant(calls=[_TWO[0]], stop="tool_use"),
    ),
    "the old function call": (
        sse(
            START,
            chunk({"function_call": {"name": "ls", "arguments": '{"path":'}}),
            chunk({"function_call": {"arguments": '"/"}'}}),
            chunk({}, finish="function_call"),
            DONE,
        ),
        meant(calls=[_LS_CALL], stop="tool_use"),
    ),
    "no finish reason, then DONE": (sse(START, *words("hi"), DONE), meant(text="hi")),
    "a finish reason, no DONE": (sse(START, *words("hi"), STOP), meant(text="hi")),
    "no blank line at the end": (sse(START, *words("hi"), STOP) + b"data: [DONE]", meant(text="hi")),
    "an unknown finish reason": (sse(START, *words("hi"), chunk({}, finish="eos_token"), DONE), meant(text="hi")),
    "reasoning under another name": (
        sse(START, chunk({"reasoning": "Hm"}), chunk({"reasoning": "."}), *words("hi"), STOP, DONE),
        meant(reasoning="Hm.", text="hi"),
    ),
    "reasoning under both names": (
        sse(START, chunk({"reasoning": "Hm.", "reasoning_content": "Hm."}), *words("hi"), STOP, DONE),
        meant(reasoning="Hm.", text="hi"),
    ),
    "reasoning and text in one chunk": (
        sse(START, chunk({"reasoning_content": "Hm.", "content": "hi"}), STOP, DONE),
        meant(reasoning="Hm.", text="hi"),
    ),
    "content as typed parts": (
        sse(
            START,
            chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]}),
            chunk({"content": [{"type": "text", "text": "hi"}]}),
            STOP,
            DONE,
        ),
        meant(reasoning="Hm.", text="hi"),
    ),
    "a whole message instead of deltas": (
        sse(
            {
                "object": "chat.completion",
                "choices": [{"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}],
            }
        ),
        meant(text="hi"),
    ),
    "null everywhere": (
        sse(
            {
                "choices": [{"index": None, "delta": {"content": None, "tool_calls": None}, "finish_reason": None}],
                "usage": None,
            },
            {"choices": None, "usage": None},
            *words("hi"),
            STOP,
            DONE,
        ),
        meant(text="hi"),
    ),
    "usage with each chunk": (
        sse(START, {**words("hi")[0], "usage": {"prompt_tokens": 5, "completion_tokens": 1}}, STOP, usage(5, 2), DONE),
        meant(text="hi", usage={"input": 5, "output": 2, "cache_read": 0, "cache_write": 0}),
    ),
    "usage inside the choice": (
        sse(
            START,
            *words("hi"),
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
        meant(text="hi", usage={"input": 5, "output": 0, "cache_read": 4, "cache_write": 0}),
    ),
    "usage in a vendor's corner": (
        sse(START, *words("hi"), {**STOP, "x_groq": {"usage": {"prompt_tokens": 9, "completion_tokens": 3}}}, DONE),
        meant(text="hi", usage={"input": 9, "output": 3, "cache_read": 0, "cache_write": 0}),
    ),
    "cache hits under another name": (
        sse(
            START,
            *words("hi"),
            STOP,
            chunk(usage={"prompt_tokens": 9, "completion_tokens": 3, "prompt_cache_hit_tokens": 8}),
        ),
        meant(text="hi", usage={"input": 1, "output": 3, "cache_read": 8, "cache_write": 0}),
    ),
    "reasoning counted beside the completion": (
        sse(
            START,
            *words("hi"),
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
        meant(text="hi", usage={"input": 10, "output": 103, "cache_read": 0, "cache_write": 0}),
    ),
    "usage that makes no sense": (
        sse(
            START,
            *words("hi"),
            STOP,
            chunk(usage={"prompt_tokens": -5, "completion_tokens": "many", "total_tokens": None}),
        ),
        meant(text="hi", usage={"input": 0, "output": 0, "cache_read": 0, "cache_write": 0}),
    ),
    "usage that is none": (sse(START, *words("hi"), STOP, chunk(usage=[1, 2])), meant(text="hi")),
    "a lone surrogate": (sse(START, *words("a\ud83d", "b"), STOP, DONE, ascii_only=True), meant(text="a\ufffdb")),
    "a lone surrogate at the end": (sse(START, *words("a\ud83d"), STOP, DONE, ascii_only=True), meant(text="a\ufffd")),
    "surrogates as raw bytes": (
        sse(START) + b'data: {"choices":[{"delta":{"content":"\xed\xa0\xbd\xed\xb8\x80"}}]}\n\n' + sse(STOP, DONE),
        meant(text="😀"),
    ),
    "broken UTF-8": (
        sse(START) + b'data: {"choices":[{"delta":{"content":"a\xffb"}}]}\n\n' + sse(STOP, DONE),
        meant(text="a\ufffdb"),
    ),
    "NaN": (
        sse(START) + b'data: {"choices":[{"delta":{"content":"hi"},"logprob":NaN}]}\n\n' + sse(STOP, DONE),
        meant(text="hi"),
    ),
    "comments to keep the line warm": (
        b": PROCESSING\n\n: PROCESSING\n\n" + sse(START, *words("hi"), STOP, DONE),
        meant(text="hi"),
    ),
}
