"""Requests of a turn for every wire. The vendors' SDKs validate their bodies, which are in goldens/."""

from __future__ import annotations

from typing import Any

from holdfast.models.protocol import ModelInfo, ModelRequest
from holdfast.models.wires.protocol import Target
from holdfast.schema.messages import File, Finish, Message, Part, Reasoning, Role, Text, ToolCall, ToolResult, ToolSpec

MODELS = {
    "openai-chat": ("gpt-x", "api.openai.com"),
    "openai-responses": ("gpt-x", "api.openai.com"),
    "anthropic": ("claude-sonnet-5", "api.anthropic.com"),
    "gemini": ("gemini-3-pro", "generativelanguage.googleapis.com"),
}

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
OPAQUE: dict[str, dict[str, Any]] = {
    "openai-chat": {},
    "openai-responses": {
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "Hm."}],
        "encrypted_content": "gAAA",
    },
    "anthropic": {"signature": "EqQB"},
    "gemini": {"signature": "c2ln"},
}


def target(wire: str, **changes: Any) -> Target:
    model, host = MODELS[wire]
    info = ModelInfo(
        f"{wire}/{model}", context_window=200_000, max_output=32_000, images=True, reasoning=("low", "high")
    )
    return Target(**{"model": model, "info": info, "host": host, "origin": wire, **changes})


def message(number: int, role: Role, *parts: Part) -> Message:
    return Message(f"msg_{number}", "ses_1", "run_1", role, number, "2026-01-02T03:04:05.678Z", parts)


TOOLS = (
    ToolSpec(
        "view",
        "Reads a file.",
        {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    ),
    ToolSpec("now", "The time.", {"type": "object", "properties": {}}),
)
SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "string"}},
    "required": ["answer"],
    "additionalProperties": False,
}
_ASK = message(1, "user", Text("What is in a.py?"))
_CALL = ToolCall("call_01", "view", {"path": "a.py"}, provider_id="toolu_1")
_RESULT = ToolResult("call_01", "view", text="print('ż')")
_IMAGE = File("a.png", "image/png", data=PIXEL)


def requests(wire: str) -> dict[str, ModelRequest]:
    """Requests by name. Their reasoning has the opaque data of this wire."""
    reasoning = Reasoning("Hm.", wire=wire, opaque=OPAQUE[wire])
    foreign = Reasoning("Hm.", wire="another", opaque={"signature": "x"})
    signed = ToolCall("call_01", "view", {"path": "a.py"}, provider_id="toolu_1", opaque=None, wire=wire)
    return {
        "a question": ModelRequest(messages=(_ASK,)),
        "everything": ModelRequest(
            system=("You are a coding agent.", "The directory is /tmp."),
            messages=(_ASK,),
            tools=TOOLS,
            max_output=4096,
            effort="high",
            output_schema=SCHEMA,
            cache_key="ses_1",
        ),
        "a call and its result": ModelRequest(
            system=("You are a coding agent.",),
            messages=(_ASK, message(2, "assistant", Text("Looking."), _CALL), message(3, "tool", _RESULT)),
            tools=TOOLS,
        ),
        "parallel calls, one failed": ModelRequest(
            messages=(
                _ASK,
                message(2, "assistant", _CALL, ToolCall("call_02", "view", {"path": "b.py"}, provider_id="toolu_2")),
                message(3, "tool", _RESULT, ToolResult("call_02", "view", status="error", text="no such file")),
                message(4, "user", Text("Go on.")),
            ),
            tools=TOOLS,
        ),
        "results of nothing": ModelRequest(
            messages=(_ASK, message(2, "assistant", _CALL), message(3, "tool", ToolResult("call_01", "view"))),
            tools=TOOLS,
        ),
        "malformed arguments": ModelRequest(
            messages=(
                _ASK,
                message(2, "assistant", ToolCall("call_01", "view", malformed='{"path": ')),
                message(3, "tool", ToolResult("call_01", "view", status="error", text="not JSON")),
            ),
            tools=TOOLS,
        ),
        "an image of the user": ModelRequest(messages=(message(1, "user", Text("What is this?"), _IMAGE),)),
        "an image of a tool": ModelRequest(
            messages=(
                _ASK,
                message(2, "assistant", _CALL),
                message(3, "tool", ToolResult("call_01", "view", text="an image", files=(_IMAGE,))),
                message(4, "assistant", Text("I see.")),
                message(5, "user", Text("And?")),
            ),
            tools=TOOLS,
        ),
        "reasoning of this wire": ModelRequest(
            messages=(
                _ASK,
                message(2, "assistant", reasoning, Text("Let me look."), signed),
                message(3, "tool", _RESULT),
            ),
            tools=TOOLS,
            effort="low",
        ),
        "reasoning of another wire": ModelRequest(
            messages=(_ASK, message(2, "assistant", foreign, Text("So."), _CALL), message(3, "tool", _RESULT)),
            tools=TOOLS,
        ),
        "reasoning that led to nothing": ModelRequest(
            messages=(_ASK, message(2, "assistant", Text("Half"), reasoning), message(3, "user", Text("Go on."))),
        ),
        "a cancelled answer": ModelRequest(
            messages=(_ASK, message(2, "assistant", Finish("cancelled")), message(3, "user", Text("Again."))),
        ),
        "the same provider id twice": ModelRequest(
            messages=(
                _ASK,
                message(2, "assistant", ToolCall("call_01", "now", provider_id="call_0")),
                message(3, "tool", ToolResult("call_01", "now", text="1")),
                message(4, "assistant", ToolCall("call_02", "now", provider_id="call_0")),
                message(5, "tool", ToolResult("call_02", "now", text="2")),
            ),
            tools=TOOLS,
        ),
        "text in many scripts": ModelRequest(messages=(message(1, "user", Text("Zażółć 日本語 😀 \u2028 \x00")),)),
    }
