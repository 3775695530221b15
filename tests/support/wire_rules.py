"""The rules of each provider for a request, written independently of the code that builds requests.

Each function checks a body and raises if the provider would refuse it.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from holdfast.models.model_factory import load_wire
from holdfast.models.protocol import ModelInfo, ModelRequest
from holdfast.models.wires.protocol import Target
from holdfast.models.wires.request_cache import encode_body
from holdfast.schema.messages import Reasoning, ToolCall
from holdfast.testing import WIRES, WireName

_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_SHORT = re.compile(r"[a-zA-Z0-9]{9}")

MODELS: dict[WireName, tuple[str, str]] = {
    "openai-chat": ("gpt-x", "api.openai.com"),
    "openai-responses": ("gpt-x", "api.openai.com"),
    "anthropic": ("claude-sonnet-5", "api.anthropic.com"),
    "gemini": ("gemini-3-pro", "generativelanguage.googleapis.com"),
}


def target(wire: WireName, *, images: bool = True, host: str | None = None) -> Target:
    model, usual = MODELS[wire]
    info = ModelInfo(f"{wire}/{model}", context_window=200_000, max_output=32_000, images=images, reasoning=("high",))
    return Target(model=model, info=info, host=host or usual, origin=origin(wire))


def origin(wire: WireName) -> str:
    return f"{wire}:{wire}/{MODELS[wire][0]}"


def check_every_wire(request: ModelRequest, *, images: bool = True) -> None:
    """Check that every provider accepts the request."""
    for wire in WIRES:
        check_wire(wire, request, target(wire, images=images))
    short = target("openai-chat", images=images, host="api.mistral.ai")
    check_wire("openai-chat", request, short, ids=_SHORT)


def check_wire(wire: WireName, request: ModelRequest, asked: Target, *, ids: re.Pattern[str] = _ID) -> None:
    sent = encode_body(load_wire(wire).body(request, asked))
    body = json.loads(sent)
    try:
        match wire:
            case "openai-chat":
                check_chat(body["messages"], ids)
            case "openai-responses":
                check_responses(body["input"], ids)
            case "anthropic":
                check_anthropic(body, ids)
            case "gemini":
                check_gemini(body["contents"])
        check_names(body.get("messages") or body.get("input") or body["contents"])
        check_no_foreign_data(request, sent.decode(), asked)
    except AssertionError as error:
        error.add_note(f"{wire}: {json.dumps(body, indent=1, ensure_ascii=False)[:6000]}")
        raise


def check_names(value: Any) -> None:
    """The names of called tools have only characters that every provider accepts."""
    if isinstance(value, dict):
        assert _ID.fullmatch(value.get("name", "x")), f"not a name: {value['name']!r}"
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        check_names(inner)


def check_no_foreign_data(request: ModelRequest, sent: str, asked: Target) -> None:
    """Check that opaque data of another provider or model is not sent."""
    own, foreign = set(), set()
    for message in request.messages:
        for part in message.parts:
            if isinstance(part, Reasoning | ToolCall) and part.opaque:
                (own if part.wire == asked.origin else foreign).update(_texts(part.opaque))
    assert not [text for text in foreign - own if f'"{text}"' in sent], "another provider's data is sent"


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, str) and value:
        yield value


def check_chat(messages: list[dict[str, Any]], ids: re.Pattern[str]) -> None:
    assert messages, "there must be a message"
    if messages[0]["role"] == "system":
        assert messages[0]["content"].strip()
        messages = messages[1:]
    assert messages[0]["role"] == "user", "the user speaks first"
    assert messages[-1]["role"] in ("user", "tool"), "it is the model's turn"
    used: set[str] = set()
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert waiting, "a result without a call before it"
            assert message["tool_call_id"] == waiting.pop(0), "results in another order than their calls"
            assert message["content"].strip(), "a result says something"
            continue
        assert not waiting, f"calls without a result: {waiting}"
        match message["role"]:
            case "user":
                _check_chat_content(message["content"])
            case "assistant":
                calls = message.get("tool_calls", [])
                assert calls or message["content"].strip(), "an answer without text needs calls"
                assert message["content"] is None or message["content"].strip(), "no blank text"
                for call in calls:
                    assert ids.fullmatch(call["id"]), f"no id for this wire: {call['id']!r}"
                    assert call["id"] not in used, "an id is used twice"
                    assert isinstance(json.loads(call["function"]["arguments"]), dict)
                    used.add(call["id"])
                    waiting.append(call["id"])
            case role:
                raise AssertionError(f"unknown role {role!r}")
    assert not waiting, f"calls without a result: {waiting}"


def _check_chat_content(content: Any) -> None:
    assert content, "no empty content"
    if isinstance(content, str):
        assert content.strip(), "no blank text"
        return
    for part in content:
        assert part["type"] in ("text", "image_url")
        assert part.get("text", "").strip() or part.get("image_url", {}).get("url", "").startswith("data:image/")


def check_responses(items: list[dict[str, Any]], ids: re.Pattern[str]) -> None:
    assert items, "there must be an item"
    assert items[0].get("role") == "user", "the user speaks first"
    assert items[-1].get("role") == "user" or items[-1]["type"] == "function_call_output", "it is the model's turn"
    used: set[str] = set()
    waiting: list[str] = []
    answering = False
    for number, item in enumerate(items):
        kind = item.get("type", "message")
        if kind == "function_call_output":
            assert item["call_id"] in waiting, "a result without a call before it"
            waiting.remove(item["call_id"])
            assert item["output"], "a result says something"
            answering = True
            continue
        own = kind != "message" or item["role"] == "assistant"
        assert not waiting or (own and not answering), f"calls without a result: {waiting}"
        answering = False
        match kind:
            case "message":
                content = item["content"]
                assert content, "no empty content"
                texts = [content] if isinstance(content, str) else [part.get("text", "image") for part in content]
                assert all(text.strip() for text in texts), "no blank text"
            case "reasoning":
                later = next((one for one in items[number:] if one.get("type") != "reasoning"), None)
                assert later is not None, "reasoning that nothing follows"
                assert later.get("role") == "assistant" or later.get("type") == "function_call", "reasoning alone"
                assert item["encrypted_content"]
            case "function_call":
                assert ids.fullmatch(item["call_id"])
                assert item["call_id"] not in used, "an id is used twice"
                assert isinstance(json.loads(item["arguments"]), dict)
                used.add(item["call_id"])
                waiting.append(item["call_id"])
            case _:
                raise AssertionError(f"unknown item {kind!r}")
    assert not waiting, f"calls without a result: {waiting}"


def check_anthropic(body: dict[str, Any], ids: re.Pattern[str]) -> None:
    messages = body["messages"]
    assert messages, "there must be a message"
    roles = [message["role"] for message in messages]
    assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"], f"roles must alternate: {roles}"
    assert json.dumps(body).count('"cache_control"') <= 4, "too many cache markers"
    used: set[str] = set()
    waiting: list[str] = []
    for message in messages:
        blocks = message["content"]
        assert blocks, "no empty content"
        kinds = [block["type"] for block in blocks]
        assert all(block["text"].strip() for block in blocks if block["type"] == "text"), "no blank text"
        if message["role"] == "assistant":
            assert "tool_result" not in kinds
            assert kinds[-1] not in ("thinking", "redacted_thinking"), "a thought is never the last of an answer"
            assert all(block["signature"] for block in blocks if block["type"] == "thinking"), "an unsigned thought"
            waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
            assert all(ids.fullmatch(one) for one in waiting)
            assert not used & set(waiting), "an id is used twice"
            assert len(set(waiting)) == len(waiting), "an id is used twice"
            assert all(isinstance(block["input"], dict) for block in blocks if block["type"] == "tool_use")
            used |= set(waiting)
            continue
        assert not {"tool_use", "thinking"} & set(kinds)
        answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert sorted(answered) == sorted(waiting), f"calls {waiting}, results {answered}"
        assert set(kinds[: len(answered)]) <= {"tool_result"}, "results come first"
        assert all(block["content"] for block in blocks if block["type"] == "tool_result")
        waiting = []
    assert not waiting


def check_gemini(contents: list[dict[str, Any]]) -> None:
    assert contents, "there must be a content"
    roles = [content["role"] for content in contents]
    assert roles == ["user", "model"] * (len(roles) // 2) + ["user"], f"roles must alternate: {roles}"
    waiting: list[str] = []
    for content in contents:
        parts = content["parts"]
        assert parts, "no empty content"
        for part in parts:
            kinds = {"text", "functionCall", "functionResponse", "inlineData"} & part.keys()
            assert len(kinds) == 1, f"one thing per part: {part}"
            assert part.get("text", "x").strip() or part.get("thoughtSignature"), "no blank text"
        answered = [part["functionResponse"]["name"] for part in parts if "functionResponse" in part]
        if content["role"] == "user":
            assert answered == waiting, f"calls {waiting}, results {answered}"
            assert all(part["functionResponse"]["response"] for part in parts if "functionResponse" in part)
            waiting = []
            continue
        assert not answered
        calls = [part for part in parts if "functionCall" in part]
        assert calls or any(part.get("text", "").strip() for part in parts), "a thought alone is no answer"
        assert not calls or any(call.get("thoughtSignature") for call in calls), "a step's calls need a signature"
        assert all(isinstance(part["functionCall"]["args"], dict) for part in calls)
        waiting = [part["functionCall"]["name"] for part in calls]
    assert not waiting
