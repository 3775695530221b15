"""Request bodies: caching, reasoning, ids and images, beyond what the vendors' types can check."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from holdfast.models.model_factory import load_wire
from holdfast.models.protocol import ModelInfo, ModelRequest
from holdfast.models.wires.request_parts import is_strict_schema
from holdfast.schema.messages import File, Text, ToolCall, ToolResult
from tests.models.requests import PIXEL, SCHEMA, TOOLS, message, requests, target
from tests.models.support import WIRES


def body(wire: Any, request: ModelRequest, **changes: Any) -> dict[str, Any]:
    return load_wire(wire).body(request, target(wire, **changes))


def anthropic(request: ModelRequest, model: str = "claude-sonnet-5", **info: Any) -> dict[str, Any]:
    return body("anthropic", request, model=model, info=ModelInfo(f"anthropic/{model}", **info))


def count_markers(value: Any) -> int:
    return json.dumps(value).count("cache_control")


def test_anthropic_cache_markers_are_at_the_ends_of_the_stable_prefix() -> None:
    long = tuple(
        message(number, role, Text(f"{number}")) for number, role in enumerate(["user", "assistant"] * 4 + ["user"])
    )  # type: ignore[arg-type]
    sent = anthropic(ModelRequest(system=("a", "b"), messages=long, tools=TOOLS))
    assert count_markers(sent) == 4, "the vendor allows no more"
    assert count_markers(sent["system"][-1]) == count_markers(sent["tools"][-1]) == 1
    assert [count_markers(found) for found in sent["messages"] if found["role"] == "user"] == [0, 0, 0, 1, 1]


def test_longer_conversation_begins_with_the_same_bytes() -> None:
    request = requests("anthropic")["parallel calls, one failed"]
    longer = ModelRequest(
        messages=(*request.messages, message(9, "assistant", Text("ok")), message(10, "user", Text("more"))),
        tools=TOOLS,
    )

    def plain(sent: dict[str, Any], wire: str) -> str:
        items = sent.get("messages") or sent.get("input") or sent["contents"]
        return json.dumps(items).replace(', "cache_control": {"type": "ephemeral"}', "")

    for wire in WIRES:
        shorter = plain(body(wire, request), wire)
        assert plain(body(wire, longer), wire).startswith(shorter[:-1])


@pytest.mark.parametrize(
    ("model", "effort", "expected"),
    [
        (
            "claude-sonnet-5",
            "high",
            {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "high"}},
        ),
        (
            "claude-opus-4-6",
            "max",
            {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "max"}},
        ),
        (
            "claude-sonnet-5",
            "minimal",
            {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "low"}},
        ),
        ("claude-sonnet-4-5", "high", {"thinking": {"type": "enabled", "budget_tokens": 24_000}}),
        ("claude-sonnet-4-5-20250929", "low", {"thinking": {"type": "enabled", "budget_tokens": 4096}}),
        ("claude-3-7-sonnet-latest", "low", {"thinking": {"type": "enabled", "budget_tokens": 4096}}),
        ("some-other-model", "low", {"thinking": {"type": "enabled", "budget_tokens": 4096}}),
        ("claude-sonnet-5", None, {}),
        ("claude-sonnet-4-5", "none", {}),
    ],
)
def test_anthropic_thinking_depends_on_the_model(model: str, effort: str | None, expected: dict[str, Any]) -> None:
    sent = anthropic(ModelRequest(effort=effort), model, max_output=64_000)
    assert {key: sent[key] for key in ("thinking", "output_config") if key in sent} == expected


@pytest.mark.parametrize(
    ("most", "budget"), [(30_000, 24_000), (10_000, 8976), (2048, 1024), (2047, None), (100, None)]
)
def test_anthropic_thinking_budget_leaves_tokens_for_an_answer(most: int, budget: int | None) -> None:
    sent = anthropic(ModelRequest(effort="high", max_output=most), "claude-sonnet-4-5")
    assert sent.get("thinking", {}).get("budget_tokens") == budget


def test_anthropic_interleaved_thinking_is_requested_for_older_models() -> None:
    wire = load_wire("anthropic")
    info = ModelInfo("anthropic/x", reasoning=("low",))
    assert (
        "interleaved" in wire.headers(None, target("anthropic", model="claude-sonnet-4-5", info=info))["anthropic-beta"]
    )
    assert "anthropic-beta" not in wire.headers(None, target("anthropic", model="claude-opus-5", info=info))


@pytest.mark.parametrize(
    ("model", "effort", "expected"),
    [
        ("gemini-3-pro", "high", {"includeThoughts": True, "thinkingLevel": "high"}),
        ("gemini-3-pro", "max", {"includeThoughts": True, "thinkingLevel": "high"}),
        ("gemini-2.5-pro", "low", {"includeThoughts": True, "thinkingBudget": 2048}),
        ("gemini-2.5-pro", "none", {"includeThoughts": True, "thinkingBudget": 0}),
    ],
)
def test_gemini_thinking_depends_on_the_model(model: str, effort: str, expected: dict[str, Any]) -> None:
    assert body("gemini", ModelRequest(effort=effort), model=model)["generationConfig"]["thinkingConfig"] == expected


def test_gemini_call_of_another_model_has_a_placeholder_signature() -> None:
    request = requests("gemini")["a call and its result"]
    [call] = [
        part for content in body("gemini", request)["contents"] for part in content["parts"] if "functionCall" in part
    ]
    assert call["thoughtSignature"] == "skip_thought_signature_validator"
    older = body("gemini", request, model="gemini-2.5-pro")["contents"]
    assert "thoughtSignature" not in json.dumps(older)


def test_gemini_signature_is_sent_back_with_its_call() -> None:
    call = ToolCall("call_1", "view", {}, opaque={"signature": "c2ln"}, wire="gemini")
    second = ToolCall("call_2", "view", {})
    request = ModelRequest(messages=(message(1, "user", Text("?")), message(2, "assistant", call, second)))
    parts = body("gemini", request)["contents"][1]["parts"]
    assert [part.get("thoughtSignature") for part in parts] == ["c2ln", None]


def test_openai_responses_requests_encrypted_reasoning_for_reasoning_models() -> None:
    plain = ModelInfo("openai/gpt-x")
    assert body("openai-responses", ModelRequest())["include"] == ["reasoning.encrypted_content"]
    assert "include" not in body("openai-responses", ModelRequest(), info=plain)
    assert body("openai-responses", ModelRequest())["store"] is False


@pytest.mark.parametrize("wire", WIRES)
def test_image_is_replaced_by_a_note_if_the_model_does_not_accept_images(wire: str) -> None:
    picture = File("cat.png", "image/png", data=PIXEL)
    request = ModelRequest(
        messages=(
            message(1, "user", Text("?"), picture),
            message(2, "assistant", ToolCall("c", "view")),
            message(3, "tool", ToolResult("c", "view", files=(picture,))),
        )
    )
    sent = json.dumps(body(wire, request, info=ModelInfo("x/y")))
    assert PIXEL not in sent
    assert sent.count("cat.png (image/png) is left out") == 2
    assert json.dumps(body(wire, request)).count(PIXEL) == 2


@pytest.mark.parametrize("wire", WIRES)
def test_file_of_another_type_is_not_sent_as_an_image(wire: str) -> None:
    request = ModelRequest(messages=(message(1, "user", Text("?"), File("a.zip", "application/zip", data="AAAA")),))
    assert "a.zip (application/zip) is left out" in json.dumps(body(wire, request))


@pytest.mark.parametrize("wire", WIRES)
def test_call_and_its_result_have_the_same_unique_id(wire: str) -> None:
    odd = ToolCall("call_1", "now", provider_id="bad id with spaces \u2028")
    same = ToolCall("call_2", "now", provider_id="dup")
    again = ToolCall("call_3", "now", provider_id="dup")
    results = tuple(ToolResult(call.id, "now", text=call.id) for call in (odd, same, again))
    request = ModelRequest(
        messages=(
            message(1, "user", Text("?")),
            message(2, "assistant", odd, same, again),
            message(3, "tool", *results),
        )
    )
    text = json.dumps(body(wire, request))
    assert "bad id" not in text
    if wire != "gemini":  # which matches them by order and name
        assert text.count('"dup"') == text.count('"call_3"') - 1 == 2


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (SCHEMA, True),
        ({"type": "string"}, True),
        ({"type": "object", "properties": {"a": {}}, "required": ["a"]}, False),
        ({"type": "object", "properties": {"a": {}}, "required": [], "additionalProperties": False}, False),
        ({"type": "array", "items": {"type": "object", "properties": {}}}, False),
        ({"anyOf": [SCHEMA, {"type": "null"}]}, True),
    ],
)
def test_strict_schemas_are_recognized(schema: dict[str, Any], strict: bool) -> None:
    assert is_strict_schema(schema) is strict


@pytest.mark.promise("C6")
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("functions.bash<|channel|>json", "functions_bash__channel__json"),
        ("", "unknown"),
        ("x" * 90, "x" * 64),
        ("a-b_C", "a-b_C"),
    ],
)
def test_a_made_up_tool_name_is_sent_back_in_a_form_that_providers_accept(wire: Any, name: str, sent: str) -> None:
    called = message(2, "assistant", ToolCall("call_1", name, {}))
    answered = message(3, "tool", ToolResult("call_1", name, status="error", text="no such tool"))
    found = body(wire, ModelRequest(messages=(message(1, "user", Text("go")), called, answered), tools=TOOLS))
    items = found.get("messages") or found.get("input") or found["contents"]
    assert set(re.findall(r'"name": "([^"]*)"', json.dumps(items))) == {sent}
