"""Streams of OpenAI Chat Completions."""

from __future__ import annotations

from typing import Any

from tests.models.streams import Stream, failure, sse


def chunk(delta: dict[str, Any] | None = None, *, finish: str | None = None, **more: Any) -> dict[str, Any]:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_760_000_000, "model": "gpt-x"}
    return {**head, "choices": choices, **more}


def call(index: int, *, id: str | None = None, name: str | None = None, arguments: str | None = None) -> dict[str, Any]:  # noqa: A002
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    head: dict[str, Any] = {"index": index, "function": function}
    return chunk({"tool_calls": [head | ({"id": id, "type": "function"} if id else {})]})


def usage(prompt: int, completion: int, *, cached: int = 0, reasoning: int = 0, written: int | None = None) -> Any:
    details = {"cached_tokens": cached, "audio_tokens": 0}
    if written is not None:
        details["cache_write_tokens"] = written
    return chunk(
        usage={
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": details,
            "completion_tokens_details": {"reasoning_tokens": reasoning, "accepted_prediction_tokens": 0},
        }
    )


START = chunk({"role": "assistant", "content": "", "refusal": None})
STOP = chunk({}, finish="stop")
CALLED = chunk({}, finish="tool_calls")
DONE = "[DONE]"


def text_chunks(*texts: str) -> list[Any]:
    return [chunk({"content": text}) for text in texts]


_GREETING = [START, *text_chunks("Hel", "lo", ", world", "!"), STOP, usage(12, 4), DONE]

STREAMS: dict[str, Stream] = {
    "text": Stream(sse(*_GREETING)),
    "text in many scripts": Stream(
        sse(START, *text_chunks("Zażółć ", "gęślą — ", "日本語 ", "😀👩‍👩‍👧"), STOP, usage(3, 9), DONE)
    ),
    "text as ASCII escapes": Stream(sse(START, *text_chunks("naïve ", "😀"), STOP, usage(3, 9), DONE, ascii_only=True)),
    "a surrogate pair in two chunks": Stream(
        sse(START, *text_chunks("a \ud83d", "\ude00 b"), STOP, usage(3, 9), DONE, ascii_only=True)
    ),
    "line ends as CRLF, with comments": Stream(b": hello\r\n\r\n" + sse(*_GREETING, end="\r\n")),
    "one event over several data lines": Stream(
        sse(
            START,
            b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"gpt-x",\n'
            b'data: "choices":[{"index":0,"delta":{"content":"two lines"},"finish_reason":null}]}\n\n',
            STOP,
            DONE,
        )
    ),
    "one call in pieces": Stream(
        sse(
            START,
            call(0, id="call_a", name="get_weather", arguments=""),
            *(call(0, arguments=piece) for piece in ('{"ci', 'ty": "Kra', 'ków"}')),
            CALLED,
            usage(50, 17),
            DONE,
        )
    ),
    "parallel calls, interleaved": Stream(
        sse(
            START,
            call(0, id="call_a", name="read", arguments=""),
            call(1, id="call_b", name="grep", arguments=""),
            call(0, arguments='{"path":'),
            call(1, arguments='{"pattern":"x'),
            call(0, arguments='"a.py"}'),
            call(1, arguments='+"}'),
            CALLED,
            usage(50, 30),
            DONE,
        )
    ),
    "text, then a call": Stream(
        sse(
            START,
            *text_chunks("I will ", "look."),
            call(0, id="call_a", name="ls", arguments='{"path": "/"}'),
            CALLED,
            usage(9, 9),
            DONE,
        )
    ),
    "a call without arguments": Stream(sse(START, call(0, id="call_a", name="now", arguments="{}"), CALLED, DONE)),
    "a nested call": Stream(
        sse(
            START,
            call(0, id="call_a", name="edit", arguments='{"edits":[{"old":"a\\"b","new":"\\n\\t"},'),
            call(0, arguments='{"old":"é","new":"\\u00e9\\ud83d\\ude00"}],"n":1.5e3,"ok":true,"no":null}'),
            CALLED,
            DONE,
        )
    ),
    "usage with a cache": Stream(sse(START, *text_chunks("hi"), STOP, usage(2048, 5, cached=1920), DONE)),
    "usage with a written cache": Stream(
        sse(START, *text_chunks("hi"), STOP, usage(2048, 5, cached=1000, written=48), DONE)
    ),
    "usage with reasoning": Stream(sse(START, *text_chunks("42"), STOP, usage(20, 300, reasoning=290), DONE)),
    "no usage": Stream(sse(START, *text_chunks("hi"), STOP, DONE)),
    "reasoning in its own field": Stream(
        sse(
            START,
            chunk({"reasoning_content": "Let me "}),
            chunk({"reasoning_content": "think."}),
            *text_chunks("Done", "."),
            STOP,
            usage(5, 6),
            DONE,
        )
    ),
    "cut short by its length": Stream(
        sse(START, *text_chunks("once upon"), chunk({}, finish="length"), usage(9, 2), DONE)
    ),
    "stopped by a filter": Stream(
        sse(START, *text_chunks("How "), chunk({}, finish="content_filter"), usage(9, 2), DONE)
    ),
    "a refusal": Stream(
        sse(
            START,
            chunk({"refusal": "I'm sorry, "}),
            chunk({"refusal": "I can't."}),
            STOP,
            usage(9, 2),
            DONE,
        )
    ),
    "filter results before the answer": Stream(
        sse(
            chunk(prompt_filter_results=[{"prompt_index": 0, "content_filter_results": {}}]),
            *_GREETING,
        )
    ),
    "an error in mid-stream": Stream(
        sse(
            START,
            *text_chunks("Hel"),
            {"error": {"message": "The server had an error", "type": "server_error", "param": None, "code": None}},
        )
    ),
    "a rate limit in mid-stream": Stream(
        sse(START, {"error": {"message": "Rate limit reached", "type": "tokens", "code": "rate_limit_exceeded"}})
    ),
    "401": failure(
        401,
        {
            "error": {
                "message": "Incorrect API key provided.",
                "type": "invalid_request_error",
                "param": None,
                "code": "invalid_api_key",
            }
        },
    ),
    "403": failure(403, {"error": {"message": "Country not supported", "type": "request_forbidden", "code": "x"}}),
    "404": failure(
        404,
        {
            "error": {
                "message": "The model `x` does not exist",
                "type": "invalid_request_error",
                "code": "model_not_found",
            }
        },
    ),
    "429": failure(
        429,
        {"error": {"message": "Rate limit reached", "type": "requests", "param": None, "code": "rate_limit_exceeded"}},
        retry_after="7",
    ),
    "400, context": failure(
        400,
        {
            "error": {
                "message": "This model's maximum context length is 128000 tokens. Reduce the length of the messages.",
                "type": "invalid_request_error",
                "param": "messages",
                "code": "context_length_exceeded",
            }
        },
    ),
    "500": failure(500, {"error": {"message": "The server had an error", "type": "server_error", "code": None}}),
    "503": failure(503, {"error": {"message": "Slow down", "type": "service_unavailable_error", "code": None}}),
}
