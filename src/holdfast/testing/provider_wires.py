"""The four wires from the provider's side: the events that a vendor sends for an answer."""

from __future__ import annotations

import base64
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, TypeAlias, assert_never

from holdfast.testing.provider_script import (
    Answer,
    Call,
    Fail,
    Gate,
    Hang,
    RawBytes,
    Refuse,
    Say,
    Think,
    TokenCounts,
    WireName,
)

Emitted: TypeAlias = bytes | Hang | Gate
"""Bytes to write, or something to wait for."""
Content: TypeAlias = Say | Think | Call | Refuse | Fail
"""The pieces that each wire encodes in its own form."""


def events(wire: WireName, answer: Answer, *, model: str) -> Iterator[Emitted]:
    """The events of a streamed answer."""
    match wire:
        case "openai-chat":
            return _ChatStream(answer, model).events()
        case "openai-responses":
            return _ResponsesStream(answer, model).events()
        case "anthropic":
            return _AnthropicStream(answer, model).events()
        case "gemini":
            return _GeminiStream(answer, model).events()
        case _:
            assert_never(wire)


def error_body(wire: WireName, status: int) -> dict[str, Any]:
    """The vendor's usual body for a status."""
    code, message = _ERRORS.get(status, ("api_error", "internal error"))
    match wire:
        case "openai-chat" | "openai-responses":
            return {"error": {"message": message, "type": code, "param": None, "code": code}}
        case "anthropic":
            return {"type": "error", "error": {"type": code, "message": message}, "request_id": "req_test"}
        case "gemini":
            return {"error": {"code": status, "message": message, "status": code.upper()}}
        case _:
            assert_never(wire)


_ERRORS: dict[int, tuple[str, str]] = {
    400: ("invalid_request_error", "the request is invalid"),
    401: ("authentication_error", "the API key is invalid"),
    403: ("permission_error", "the key may not use this model"),
    404: ("not_found_error", "no such model"),
    413: ("request_too_large", "the request is too large"),
    429: ("rate_limit_error", "too many requests"),
    500: ("api_error", "internal error"),
    503: ("service_unavailable", "try again later"),
    529: ("overloaded_error", "Overloaded"),
}


def _sse(data: Any, event: str | None = None) -> bytes:
    # json.dumps escapes, so half a surrogate pair can be sent, as vendors do.
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()


class _Stream(ABC):
    """The events of one answer."""

    def __init__(self, answer: Answer, model: str) -> None:
        self.answer = answer
        self.model = model

    def events(self) -> Iterator[Emitted]:
        yield from self.start()
        for piece in self.answer.pieces:
            match piece:
                case RawBytes():
                    yield piece.data
                case Hang() | Gate():
                    yield piece
                case _:
                    yield from self.content(piece)
        if self.answer.done:
            yield from self.finish()

    def start(self) -> Iterator[bytes]:
        yield from ()

    @abstractmethod
    def content(self, piece: Content) -> Iterator[bytes]: ...

    @abstractmethod
    def finish(self) -> Iterator[bytes]: ...


class _ChatStream(_Stream):
    calls = 0

    def start(self) -> Iterator[bytes]:
        yield self._chunk({"role": "assistant", "content": ""})

    def finish(self) -> Iterator[bytes]:
        reason = self.answer.finish
        if reason is None:
            reason = "tool_calls" if self.calls else "stop"
        yield self._chunk({}, finish=reason or None)
        if self.answer.usage:
            yield _sse(self._frame([], usage=_chat_usage(self.answer.usage)))
        yield _sse("[DONE]")

    def content(self, piece: Content) -> Iterator[bytes]:
        match piece:
            case Say():
                for chunk in piece.chunks():
                    yield self._chunk({"content": chunk})
            case Think():
                for chunk in piece.chunks():
                    yield self._chunk({"reasoning_content": chunk})
            case Call():
                index, self.calls = self.calls, self.calls + 1
                head = {"name": piece.name, "arguments": ""}
                call_id = piece.id or f"call_test_{index}"
                first = {"index": index, "id": call_id, "type": "function", "function": head}
                yield self._chunk({"tool_calls": [first]})
                for chunk in piece.chunks():
                    yield self._chunk({"tool_calls": [{"index": index, "function": {"arguments": chunk}}]})
            case Refuse():
                yield self._chunk({"refusal": piece.text})
            case Fail():
                yield _sse({"error": {"message": piece.message, "type": piece.code, "code": piece.code}})
            case _:
                assert_never(piece)

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> bytes:
        return _sse(self._frame([{"index": 0, "delta": delta, "finish_reason": finish}]))

    def _frame(self, choices: list[Any], usage: Any = None) -> dict[str, Any]:
        frame = {"id": "chatcmpl-test", "object": "chat.completion.chunk", "created": 1, "model": self.model}
        return {**frame, "choices": choices, "usage": usage}


def _chat_usage(usage: TokenCounts) -> dict[str, Any]:
    prompt = usage.input + usage.cache_read + usage.cache_write
    return {
        "prompt_tokens": prompt,
        "completion_tokens": usage.output,
        "total_tokens": prompt + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read},
    }


class _ResponsesStream(_Stream):
    def __init__(self, answer: Answer, model: str) -> None:
        super().__init__(answer, model)
        self.number = -1
        self.output: list[dict[str, Any]] = []

    def start(self) -> Iterator[bytes]:
        yield self._event("response.created", response=self._response("in_progress"))

    def finish(self) -> Iterator[bytes]:
        if reason := self.answer.finish:
            response = {**self._response("incomplete"), "incomplete_details": {"reason": reason}}
            yield self._event("response.incomplete", response=response)
        else:
            yield self._event("response.completed", response=self._response("completed"))

    def content(self, piece: Content) -> Iterator[bytes]:
        at = len(self.output)
        match piece:
            case Say():
                yield from self._message(at, "output_text", "text", piece.chunks())
            case Refuse():
                yield from self._message(at, "refusal", "refusal", (piece.text,))
            case Think():
                yield from self._reasoning(at, piece)
            case Call():
                yield from self._call(at, piece)
            case Fail():
                yield self._event("error", code=piece.code, message=piece.message, param=None)
            case _:
                assert_never(piece)

    def _message(self, at: int, kind: str, field: str, pieces: tuple[str, ...]) -> Iterator[bytes]:
        item: dict[str, Any] = {"id": f"msg_{at}", "type": "message", "role": "assistant", "status": "in_progress"}
        position = {"item_id": item["id"], "output_index": at, "content_index": 0}
        is_text = kind == "output_text"
        part: dict[str, Any] = {"type": kind, field: "", **({"annotations": []} if is_text else {})}
        extra: dict[str, Any] = {"logprobs": []} if is_text else {}
        yield self._event("response.output_item.added", output_index=at, item={**item, "content": []})
        yield self._event("response.content_part.added", **position, part=part)
        for chunk in pieces:
            yield self._event(f"response.{kind}.delta", **position, delta=chunk, **extra)
        whole = "".join(pieces)
        yield self._event(f"response.{kind}.done", **position, **{field: whole}, **extra)
        yield self._event("response.content_part.done", **position, part={**part, field: whole})
        yield from self._done(at, {**item, "status": "completed", "content": [{**part, field: whole}]})

    def _reasoning(self, at: int, piece: Think) -> Iterator[bytes]:
        item: dict[str, Any] = {"id": f"rs_{at}", "type": "reasoning", "summary": []}
        position = {"item_id": item["id"], "output_index": at, "summary_index": 0}
        empty = {"type": "summary_text", "text": ""}
        yield self._event("response.output_item.added", output_index=at, item=item)
        yield self._event("response.reasoning_summary_part.added", **position, part=empty)
        for chunk in piece.chunks():
            yield self._event("response.reasoning_summary_text.delta", **position, delta=chunk)
        yield self._event("response.reasoning_summary_text.done", **position, text=piece.text)
        whole = {**empty, "text": piece.text}
        yield self._event("response.reasoning_summary_part.done", **position, part=whole)
        yield from self._done(at, {**item, "summary": [whole], "encrypted_content": piece.opaque})

    def _call(self, at: int, piece: Call) -> Iterator[bytes]:
        call_id = piece.id or f"call_test_{at}"
        item: dict[str, Any] = {"id": f"fc_{at}", "type": "function_call", "call_id": call_id, "name": piece.name}
        position = {"item_id": item["id"], "output_index": at}
        started = {**item, "arguments": "", "status": "in_progress"}
        yield self._event("response.output_item.added", output_index=at, item=started)
        for chunk in piece.chunks():
            yield self._event("response.function_call_arguments.delta", **position, delta=chunk)
        done = {"arguments": piece.json(), "name": piece.name}
        yield self._event("response.function_call_arguments.done", **position, **done)
        yield from self._done(at, {**item, "arguments": piece.json(), "status": "completed"})

    def _done(self, at: int, item: dict[str, Any]) -> Iterator[bytes]:
        self.output.append(item)
        yield self._event("response.output_item.done", output_index=at, item=item)

    def _event(self, kind: str, **fields: Any) -> bytes:
        self.number += 1
        return _sse({"type": kind, "sequence_number": self.number, **fields}, event=kind)

    def _response(self, status: str) -> dict[str, Any]:
        usage = self.answer.usage if status != "in_progress" else None
        return {
            "id": "resp_test",
            "object": "response",
            "created_at": 1,
            "status": status,
            "model": self.model,
            "output": list(self.output),
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "parallel_tool_calls": True,
            "temperature": 1.0,
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0,
            "usage": _responses_usage(usage) if usage else None,
        }


def _responses_usage(usage: TokenCounts) -> dict[str, Any]:
    prompt = usage.input + usage.cache_read + usage.cache_write
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": prompt + usage.output,
    }


class _AnthropicStream(_Stream):
    blocks = 0
    called = False
    refused = False

    def start(self) -> Iterator[bytes]:
        message = {"id": "msg_test", "type": "message", "role": "assistant", "model": self.model, "content": []}
        rest = {"stop_reason": None, "stop_sequence": None, "usage": self._usage(output=1)}
        yield self._event("message_start", message={**message, **rest})
        yield self._event("ping")

    def finish(self) -> Iterator[bytes]:
        reason = self.answer.finish
        if reason is None:
            reason = "refusal" if self.refused else "tool_use" if self.called else "end_turn"
        usage = {"output_tokens": self.answer.usage.output if self.answer.usage else 0}
        yield self._event("message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage=usage)
        yield self._event("message_stop")

    def content(self, piece: Content) -> Iterator[bytes]:
        match piece:
            case Say():
                deltas = [{"type": "text_delta", "text": chunk} for chunk in piece.chunks()]
                yield from self._block({"type": "text", "text": ""}, deltas)
            case Think():
                deltas = [{"type": "thinking_delta", "thinking": chunk} for chunk in piece.chunks()]
                signature = {"type": "signature_delta", "signature": piece.opaque}
                yield from self._block({"type": "thinking", "thinking": "", "signature": ""}, [*deltas, signature])
            case Call():
                self.called = True
                call_id = piece.id or f"toolu_test_{self.blocks}"
                deltas = [{"type": "input_json_delta", "partial_json": chunk} for chunk in piece.chunks()]
                yield from self._block({"type": "tool_use", "id": call_id, "name": piece.name, "input": {}}, deltas)
            case Refuse():
                self.refused = True
                yield from self._block({"type": "text", "text": ""}, [{"type": "text_delta", "text": piece.text}])
            case Fail():
                yield self._event("error", error={"type": f"{piece.code}_error", "message": piece.message})
            case _:
                assert_never(piece)

    def _block(self, block: dict[str, Any], deltas: list[dict[str, Any]]) -> Iterator[bytes]:
        at, self.blocks = self.blocks, self.blocks + 1
        yield self._event("content_block_start", index=at, content_block=block)
        for delta in deltas:
            yield self._event("content_block_delta", index=at, delta=delta)
        yield self._event("content_block_stop", index=at)

    def _usage(self, output: int) -> dict[str, int]:
        usage = self.answer.usage or TokenCounts(input=0)
        return {
            "input_tokens": usage.input,
            "cache_creation_input_tokens": usage.cache_write,
            "cache_read_input_tokens": usage.cache_read,
            "output_tokens": output,
        }

    def _event(self, kind: str, **fields: Any) -> bytes:
        return _sse({"type": kind, **fields}, event=kind)


class _GeminiStream(_Stream):
    def finish(self) -> Iterator[bytes]:
        reason = "STOP" if self.answer.finish is None else self.answer.finish
        yield self._chunk([{"text": ""}], finish=reason or None, usage=True)

    def content(self, piece: Content) -> Iterator[bytes]:
        match piece:
            case Say():
                for chunk in piece.chunks():
                    yield self._chunk([{"text": chunk}])
            case Think():
                for chunk in piece.chunks():
                    yield self._chunk([{"text": chunk, "thought": True}])
                yield self._chunk([{"text": "", "thoughtSignature": _base64(piece.opaque)}])
            case Call():
                arguments = piece.arguments if piece.raw is None else piece.raw
                yield self._chunk([{"functionCall": {"name": piece.name, "args": arguments}}])
            case Refuse():
                yield self._chunk([{"text": piece.text}], finish="SAFETY")
            case Fail():
                error = {"code": 503, "message": piece.message, "status": piece.code.upper()}
                yield _sse({"error": error})
            case _:
                assert_never(piece)

    def _chunk(self, parts: list[Any], *, finish: str | None = None, usage: bool = False) -> bytes:
        candidate: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": parts}}
        if finish:
            candidate["finishReason"] = finish
        chunk: dict[str, Any] = {"candidates": [candidate], "modelVersion": self.model, "responseId": "resp-test"}
        tokens = self.answer.usage
        if usage and tokens:
            prompt = tokens.input + tokens.cache_read + tokens.cache_write
            chunk["usageMetadata"] = {
                "promptTokenCount": prompt,
                "cachedContentTokenCount": tokens.cache_read,
                "candidatesTokenCount": tokens.output,
                "totalTokenCount": prompt + tokens.output,
            }
        return _sse(chunk)


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
