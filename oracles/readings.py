"""Reads streams with the vendors' SDKs and summarizes the answers in one form for all wires."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import anthropic
import google.genai
import httpx2
import openai
from google.genai import types as genai_types
from openai.lib.streaming.chat import ChatCompletionStreamState

from tests.models.streams import Stream

_ANTHROPIC_STOPS = {
    "end_turn": "end_turn",
    "stop_sequence": "end_turn",
    "pause_turn": "end_turn",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "refusal": "refused",
}
_CHAT_STOPS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refused"}


def client_for(stream: Stream) -> httpx2.Client:
    """An HTTP client that answers every request with this stream."""

    def answer(_: httpx2.Request) -> httpx2.Response:
        headers = {"content-type": stream.content_type, **stream.headers}
        return httpx2.Response(stream.status, headers=headers, content=stream.body)

    return httpx2.Client(transport=httpx2.MockTransport(answer))


def read_chat(stream: Stream) -> dict[str, Any]:
    client = openai.OpenAI(api_key="test", max_retries=0, http_client=client_for(stream))
    state: ChatCompletionStreamState[Any] = ChatCompletionStreamState()
    reasoning = ""
    chunks = client.chat.completions.create(model="gpt-x", messages=[], stream=True)
    for chunk in chunks:
        state.handle_chunk(chunk)
        for choice in chunk.choices:
            reasoning += (choice.delta.model_extra or {}).get("reasoning_content") or ""
    completion = state.current_completion_snapshot  # the parsed one raises for truncated answers
    choice = completion.choices[0]
    stop = _CHAT_STOPS[choice.finish_reason]
    return {
        "text": join_surrogates((choice.message.content or "") + (choice.message.refusal or "")),
        "reasoning": join_surrogates(reasoning),
        "signatures": [],
        "calls": [
            {"id": call.id, "name": call.function.name, "arguments": json.loads(call.function.arguments or "{}")}
            for call in choice.message.tool_calls or ()
        ],
        "usage": _chat_usage(completion.usage),
        "stop": "refused" if choice.message.refusal else stop,
    }


def _chat_usage(usage: Any) -> dict[str, int] | None:
    if usage is None:
        return None
    details = usage.prompt_tokens_details
    read = (details.cached_tokens if details else 0) or 0
    written = (details.cache_write_tokens if details else 0) or 0
    return token_counts(usage.prompt_tokens - read - written, usage.completion_tokens, read, written)


def read_responses(stream: Stream) -> dict[str, Any]:
    client = openai.OpenAI(api_key="test", max_retries=0, http_client=client_for(stream))
    last: Any = None
    for event in client.responses.create(model="gpt-x", input=[], stream=True):
        if event.type == "error":
            raise ErrorInStream(event.code or "")
        if event.type in {"response.completed", "response.incomplete", "response.failed"}:
            last = event.response
    if last.status == "failed":
        raise ErrorInStream(last.error.code)
    messages = [item for item in last.output if item.type == "message"]
    parts = [part for item in messages for part in item.content]
    reasoning_items = [item for item in last.output if item.type == "reasoning"]
    calls = [item for item in last.output if item.type == "function_call"]
    refused = any(part.type == "refusal" for part in parts)
    reasons = {"max_output_tokens": "max_tokens", "content_filter": "refused"}
    stop = reasons[last.incomplete_details.reason] if last.incomplete_details else "tool_use" if calls else "end_turn"
    usage = last.usage
    read, written = usage.input_tokens_details.cached_tokens, usage.input_tokens_details.cache_write_tokens
    return {
        "text": join_surrogates("".join(part.refusal if part.type == "refusal" else part.text for part in parts)),
        "reasoning": "\n\n".join(summary.text for item in reasoning_items for summary in item.summary),
        "signatures": [item.encrypted_content for item in reasoning_items],
        "calls": [{"id": c.call_id, "name": c.name, "arguments": json.loads(c.arguments)} for c in calls],
        "usage": token_counts(usage.input_tokens - read - written, usage.output_tokens, read, written),
        "stop": "refused" if refused else stop,
    }


def read_anthropic(stream: Stream) -> dict[str, Any]:
    client = anthropic.Anthropic(api_key="test", max_retries=0, http_client=client_for(stream))
    with client.messages.stream(model="claude-x", max_tokens=100, messages=[]) as events:
        message = events.get_final_message()
    blocks = message.content
    usage = message.usage
    return {
        "text": join_surrogates("".join(block.text for block in blocks if block.type == "text")),
        "reasoning": join_surrogates("".join(block.thinking for block in blocks if block.type == "thinking")),
        "signatures": [
            block.signature if block.type == "thinking" else block.data
            for block in blocks
            if block.type in {"thinking", "redacted_thinking"}
        ],
        "calls": [
            {"id": block.id, "name": block.name, "arguments": block.input}
            for block in blocks
            if block.type == "tool_use"
        ],
        "usage": token_counts(
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_input_tokens or 0,
            usage.cache_creation_input_tokens or 0,
        ),
        "stop": _ANTHROPIC_STOPS[message.stop_reason],
    }


def read_gemini(stream: Stream) -> dict[str, Any]:
    options = genai_types.HttpOptions(
        httpx_client=client_for(stream), retry_options=genai_types.HttpRetryOptions(attempts=1)
    )
    client = google.genai.Client(api_key="test", http_options=options)
    parts: list[Any] = []
    finish, usage, blocked = None, None, False
    for chunk in client.models.generate_content_stream(model="gemini-x", contents="hi"):
        usage = chunk.usage_metadata or usage
        blocked = blocked or bool(chunk.prompt_feedback and chunk.prompt_feedback.block_reason)
        for candidate in chunk.candidates or ():
            parts += (candidate.content.parts if candidate.content else None) or ()
            finish = candidate.finish_reason or finish
    calls = [part for part in parts if part.function_call]
    stops = {"STOP": "tool_use" if calls else "end_turn", "MAX_TOKENS": "max_tokens"}
    read = (usage.cached_content_token_count or 0) if usage else 0
    return {
        "text": "".join(part.text or "" for part in parts if not part.thought),
        "reasoning": "".join(part.text or "" for part in parts if part.thought),
        "signatures": [
            encoded(part.thought_signature) for part in parts if part.thought_signature and not part.function_call
        ],
        "calls": [
            {
                "id": part.function_call.id,
                "name": part.function_call.name,
                "arguments": part.function_call.args or {},
                **({"signature": encoded(part.thought_signature)} if part.thought_signature else {}),
            }
            for part in calls
        ],
        "usage": token_counts(
            (usage.prompt_token_count or 0) - read,
            (usage.candidates_token_count or 0) + (usage.reasoning_items_token_count or 0),
            read,
            0,
        )
        if usage
        else None,
        "stop": "refused" if blocked else stops.get(finish.value, "refused"),
    }


READERS: dict[str, Callable[[Stream], dict[str, Any]]] = {
    "openai-chat": read_chat,
    "openai-responses": read_responses,
    "anthropic": read_anthropic,
    "gemini": read_gemini,
}


class ErrorInStream(Exception):
    """An error that the SDK returns as an event instead of raising it."""


def read_stream(wire: str, stream: Stream) -> dict[str, Any]:
    """Return the answer that the SDK reads, or the error that it raises."""
    try:
        return READERS[wire](stream)
    except ErrorInStream as error:
        return {"error": {"class": "in stream", "code": str(error)}}
    except (openai.APIError, anthropic.APIError) as error:
        code = getattr(error, "code", None)
        return {"error": {"class": type(error).__name__, "status": getattr(error, "status_code", None), "code": code}}
    except google.genai.errors.APIError as error:
        return {"error": {"class": type(error).__name__, "status": error.code, "code": error.status}}


def token_counts(given: int, made: int, read: int, written: int) -> dict[str, int]:
    return {"input": given, "output": made, "cache_read": read, "cache_write": written}


def join_surrogates(text: str) -> str:
    """Join split surrogate pairs, which the SDKs return as they came."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()
