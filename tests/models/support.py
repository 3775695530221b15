"""Helpers of the tests of models: reading bytes with a wire, and a summary of an answer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

from holdfast.models.error_mapping import error_from_response
from holdfast.models.model_factory import load_wire
from holdfast.models.protocol import (
    CallArguments,
    CallEnd,
    CallStart,
    ModelDelta,
    ReasoningDelta,
    ReasoningEnd,
    Stop,
    TextDelta,
    UsageReport,
)
from holdfast.models.stall_timeout import StallLimits
from holdfast.schema.sse_parser import SseParser
from tests.models.requests import target
from tests.models.streams import Stream

WIRES = ("openai-chat", "openai-responses", "anthropic", "gemini")
LIMITS = StallLimits(first_token=120, between_tokens=90)
GOLDENS = Path(__file__).parent / "goldens"


def streams(wire: str) -> dict[str, Stream]:
    found: dict[str, Stream] = import_module(f"tests.models.streams.{wire.replace('-', '_')}").STREAMS
    return found


def golden(name: str) -> Any:
    return json.loads((GOLDENS / f"{name}.json").read_text(encoding="utf-8"))


def iterate(wire: str, body: bytes, *, cuts: Sequence[int] = (), **options: Any) -> Iterator[ModelDelta]:
    """Yield the deltas of a body that is split into chunks at these offsets."""
    reader = load_wire(wire).reader(target(wire, **options))  # type: ignore[arg-type]
    parser = SseParser()
    edges = [0, *sorted(cut for cut in cuts if 0 < cut < len(body)), len(body)]
    for start, end in pairwise(edges):
        for event in parser.feed(body[start:end]):
            yield from reader.feed(event)
    for event in parser.end():
        yield from reader.feed(event)
    yield from reader.end()


def read(wire: str, body: bytes, *, cuts: Sequence[int] = (), **options: Any) -> list[ModelDelta]:
    return list(iterate(wire, body, cuts=cuts, **options))


def answer(wire: str, stream: Stream) -> list[ModelDelta]:
    """Read an HTTP response. Raises its error if it is not a stream."""
    if stream.status != 200:
        headers = {"content-type": stream.content_type, **stream.headers}
        raise error_from_response(stream.status, headers, stream.body, host="host", now=0.0)
    return read(wire, stream.body)


def summarize(deltas: Iterable[ModelDelta]) -> dict[str, Any]:
    """Summarize an answer in the form of the golden files."""
    text, reasoning, signatures = "", "", []
    calls: dict[int, dict[str, Any]] = {}
    arguments: dict[int, str] = {}
    usage, stop = None, None
    for delta in deltas:
        assert stop is None, f"{delta} follows the stop"
        match delta:
            case TextDelta(text=piece):
                text += piece
            case ReasoningDelta(text=piece):
                reasoning += piece
            case ReasoningEnd(opaque=opaque):
                if opaque:
                    signatures += [
                        opaque[key] for key in ("signature", "redacted", "encrypted_content") if key in opaque
                    ]
            case CallStart(index=index):
                calls[index] = {"id": delta.provider_id, "name": delta.name}
                arguments[index] = ""
            case CallArguments(index=index, text=piece):
                arguments[index] += piece
            case CallEnd(index=index, opaque=opaque):
                calls[index]["arguments"] = json.loads(arguments[index] or "{}")
                if opaque and "signature" in opaque:
                    calls[index]["signature"] = opaque["signature"]
            case UsageReport(usage=found):
                usage = {key: getattr(found, key) for key in ("input", "output", "cache_read", "cache_write")}
            case Stop(reason=reason):
                stop = reason
    return {
        "text": text,
        "reasoning": reasoning,
        "signatures": signatures,
        "calls": [calls[index] for index in sorted(calls)],
        "usage": usage,
        "stop": stop,
    }
