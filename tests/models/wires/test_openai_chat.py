"""Chat Completions as compatible servers send and accept it."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import ModelContext, ModelError, ModelMalformed, ModelNetwork, ModelOverloaded, ModelRateLimit
from holdfast.models.protocol import CallEnd, ModelRequest, ReasoningEnd
from holdfast.models.wires.openai_chat import OpenAIChat
from holdfast.schema.messages import Reasoning, Text, ToolCall, ToolResult
from tests.models.compatible_servers import COMPATIBLE_STREAMS
from tests.models.requests import TOOLS, message, requests, target
from tests.models.streams import sse
from tests.models.streams.openai_chat import CALLED, DONE, START, STOP, chunk, text_chunks
from tests.models.support import read, summarize

WIRE = "openai-chat"


@pytest.mark.parametrize("name", COMPATIBLE_STREAMS)
def test_stream_of_a_compatible_server_is_read(name: str) -> None:
    body, expected = COMPATIBLE_STREAMS[name]
    assert summarize(read(WIRE, body)) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (sse(START, *text_chunks("hi")), ModelNetwork),
        (sse(START, *text_chunks("hi")) + b'data: {"cho', ModelMalformed),
        (sse(DONE), ModelMalformed),
        (b"", ModelNetwork),
        (b"data: <html>\n\n", ModelMalformed),
        (sse(START, chunk({}, finish="insufficient_system_resource"), DONE), ModelOverloaded),
        (sse(START, chunk({}, finish="error"), DONE), ModelOverloaded),
        (sse({"error": {"code": 429, "message": "slow"}, "choices": []}), ModelRateLimit),
        (sse({"error": {"code": 502, "message": "upstream"}}), ModelOverloaded),
        (sse({"error": "the request exceeds the available context size"}), ModelContext),
        (b'event: error\ndata: {"message": "overloaded"}\n\n', ModelOverloaded),
    ],
)
def test_stream_without_an_answer_raises_its_error(body: bytes, expected: type[ModelError]) -> None:
    with pytest.raises(expected):
        read(WIRE, body)


def body_for(host: str, *, model: str = "m", request: ModelRequest | None = None) -> dict[str, Any]:
    return OpenAIChat().body(request or requests(WIRE)["everything"], target(WIRE, host=host, model=model))


def test_body_has_the_fields_that_the_server_accepts() -> None:
    openai, local, mistral = body_for("api.openai.com"), body_for("127.0.0.1:8080"), body_for("api.mistral.ai")
    router, azure = body_for("openrouter.ai"), body_for("x.openai.azure.com")
    assert {"max_completion_tokens", "prompt_cache_key", "stream_options"} <= openai.keys()
    assert openai == azure
    assert "max_tokens" in local
    assert "max_completion_tokens" not in local
    assert "prompt_cache_key" not in local
    assert "stream_options" not in mistral
    assert router["reasoning"] == {"effort": "high"}
    assert "reasoning_effort" not in router


def test_host_matches_by_its_whole_domain() -> None:
    assert "max_tokens" in body_for("notapi.openai.com.example")


def test_ids_are_short_for_the_vendor_that_requires_it() -> None:
    messages = body_for("api.mistral.ai", request=requests(WIRE)["parallel calls, one failed"])["messages"]
    sent_ids = [call["id"] for call in messages[1]["tool_calls"]]
    assert all(len(call_id) == 9 and call_id.isalnum() for call_id in sent_ids)
    assert sent_ids == [found["tool_call_id"] for found in messages if found["role"] == "tool"]


def test_cache_markers_are_sent_to_anthropic_models_behind_a_router() -> None:
    marked = body_for("openrouter.ai", model="anthropic/claude-x")["messages"]
    assert marked[0]["content"][-1]["cache_control"]
    assert marked[-1]["content"][-1]["cache_control"]
    assert isinstance(body_for("openrouter.ai", model="openai/gpt-x")["messages"][0]["content"], str)


def test_reasoning_is_sent_back_to_the_same_provider_with_its_calls() -> None:
    body = sse(
        START,
        chunk({"reasoning_content": "Hm."}),
        chunk({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "now"}}]}),
        CALLED,
        DONE,
    )
    ended = next(delta for delta in read(WIRE, body) if isinstance(delta, ReasoningEnd))
    reasoning = Reasoning("Hm.", wire=ended.wire, opaque=ended.opaque)
    called = ToolCall("call_1", "now", provider_id="a")
    messages = (
        message(1, "user", Text("?")),
        message(2, "assistant", reasoning, called),
        message(3, "tool", ToolResult("call_1", "now", text="1")),
    )
    same = OpenAIChat().body(ModelRequest(messages=messages, tools=TOOLS), target(WIRE))
    other = OpenAIChat().body(ModelRequest(messages=messages, tools=TOOLS), target(WIRE, origin="openai-chat:another"))
    assert same["messages"][1]["reasoning_content"] == "Hm."
    assert "reasoning_content" not in other["messages"][1]


def test_plain_reasoning_without_a_call_is_left_out() -> None:
    reasoning = Reasoning("Hm.", wire=WIRE, opaque={"field": "reasoning_content"})
    messages = (
        message(1, "user", Text("?")),
        message(2, "assistant", reasoning, Text("So.")),
        message(3, "user", Text("!")),
    )
    assert "reasoning_content" not in OpenAIChat().body(ModelRequest(messages=messages), target(WIRE))["messages"][1]


@pytest.mark.parametrize(
    ("host", "own", "foreign"),
    [("api.deepseek.com", "Hm.", ""), ("api.moonshot.ai", "Hm.", ""), ("api.groq.com", None, None)],
)
def test_reasoning_is_always_sent_to_vendors_that_require_it_and_never_to_those_that_reject_it(
    host: str, own: str | None, foreign: str | None
) -> None:
    reasoning = Reasoning("Hm.", wire=WIRE, opaque={"field": "reasoning_content"})
    call = ToolCall("call_1", "now")
    messages = (
        message(1, "user", Text("?")),
        message(2, "assistant", reasoning, call),
        message(3, "tool", ToolResult("call_1", "now", text="1")),
        message(4, "assistant", Text("made by another model")),
        message(5, "user", Text("!")),
    )
    sent = body_for(host, request=ModelRequest(messages=messages))["messages"]
    assert [sent[1].get("reasoning_content"), sent[3].get("reasoning_content")] == [own, foreign]


def test_reasoning_details_are_joined_and_sent_back_whole() -> None:
    def detail(**more: Any) -> Any:
        return chunk(
            {"reasoning": more.get("text"), "reasoning_details": [{"type": "reasoning.text", "index": 0, **more}]}
        )

    encrypted = {"type": "reasoning.encrypted", "id": "a", "index": 1, "data": "xyz"}
    body = sse(
        START,
        detail(text="Hm"),
        detail(text="."),
        detail(text=None, signature="s"),
        chunk({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "now"}}]}),
        chunk({"reasoning_details": [encrypted]}),
        CALLED,
        DONE,
    )
    ends = [delta for delta in read(WIRE, body) if isinstance(delta, ReasoningEnd)]
    whole = [{"type": "reasoning.text", "index": 0, "text": "Hm.", "signature": "s"}, encrypted]
    assert [end.opaque for end in ends] == [{"details": whole[:1]}, {"details": whole[1:]}]
    parts = [Reasoning(wire=end.wire, opaque=end.opaque) for end in ends]
    messages = (message(1, "user", Text("?")), message(2, "assistant", *parts, Text("So.")))
    assert OpenAIChat().body(ModelRequest(messages=messages), target(WIRE))["messages"][1]["reasoning_details"] == whole


def test_extra_content_of_a_call_is_sent_back_with_it() -> None:
    extra = {"google": {"thought_signature": "sig"}}
    body = sse(
        START,
        chunk({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "now"}, "extra_content": extra}]}),
        STOP,
        DONE,
    )
    end = next(delta for delta in read(WIRE, body) if isinstance(delta, CallEnd))
    call = ToolCall("call_1", "now", provider_id="a", opaque=end.opaque, wire=end.wire)
    messages = (
        message(1, "user", Text("?")),
        message(2, "assistant", call),
        message(3, "tool", ToolResult("call_1", "now")),
    )
    sent = OpenAIChat().body(ModelRequest(messages=messages, tools=TOOLS), target(WIRE))
    assert sent["messages"][1]["tool_calls"][0]["extra_content"] == extra
