"""Any stored messages give a request that is valid for every provider (C6)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.agent.request_messages import following_messages, request_messages
from holdfast.agent.summary_text import MAX_LEVEL, plain_conversation
from holdfast.models.protocol import ModelRequest
from holdfast.schema.base import Unknown
from holdfast.schema.messages import (
    Context,
    File,
    Finish,
    Message,
    Notice,
    Part,
    Reasoning,
    Role,
    Shell,
    Summary,
    Text,
    ToolCall,
    ToolResult,
)
from holdfast.testing import WIRES, WireName
from tests.support.vendor_models import call_data, reasoning_data
from tests.support.wire_rules import check_every_wire, origin

PIXEL = File("a.png", "image/png", data="aGk=")
texts = st.sampled_from(["", " ", "\n\t", "hello", "ż\U0001f600", "a\x00b", '{"x": 1}'])
marks = st.integers(1, 10**6).map(lambda number: f"mark-{number}")
ids = st.sampled_from(["c1", "c2", "c3", "c4", "c5"])
provider_ids = st.sampled_from([None, "", "call_1", "call_1", "toolu 2", "ö", "x" * 80, "abcdefghi"])


@st.composite
def reasoning(draw: Any) -> Reasoning:
    wire: WireName = draw(st.sampled_from(WIRES))
    opaque = draw(st.none() | marks.map(lambda mark: reasoning_data(wire, mark)))
    return Reasoning(draw(texts), wire=draw(st.sampled_from([origin(wire), f"{wire}:other/model"])), opaque=opaque)


@st.composite
def call(draw: Any) -> ToolCall:
    wire: WireName = draw(st.sampled_from(WIRES))
    return ToolCall(
        draw(ids),
        draw(st.sampled_from(["bash", "view"])),
        draw(st.sampled_from([{}, {"a": "ż"}])),
        malformed=draw(st.sampled_from([None, None, "{not json"])),
        provider_id=draw(provider_ids),
        opaque=draw(st.none() | marks.map(lambda mark: call_data(wire, mark))),
        wire=origin(wire),
    )


parts: st.SearchStrategy[Part] = st.one_of(
    st.builds(Text, texts),
    reasoning(),
    call(),
    st.builds(
        ToolResult,
        ids,
        st.sampled_from(["bash", "view"]),
        st.sampled_from(["ok", "error", "denied", "cancelled", "unknown"]),
        texts,
        st.sampled_from([(), (PIXEL,)]),
    ),
    st.builds(Finish, st.sampled_from(["end_turn", "tool_use", "max_tokens", "cancelled", "interrupted", "limit"])),
    st.builds(Summary, texts),
    st.builds(Shell, st.just("ls"), texts),
    st.builds(Notice, st.just("n"), texts, for_model=st.booleans()),
    st.builds(Context, changed=texts, blocks=st.just(("head",))),
    st.sampled_from([PIXEL, File("a.bin", "application/zip", data="aGk="), File("a.txt", "text/plain", text="")]),
    st.just(Unknown("x", b'{"type":"x"}')),
)


def message(seq: int, role: Role, *parts: Part, unsent: bool = False) -> Message:
    return Message(f"m{seq}", "ses_1", "run_1", role, seq, "", parts, unsent)


@st.composite
def histories(draw: Any) -> list[Message]:
    """Any roles and parts in any order, also those that are never stored."""
    roles = draw(st.lists(st.sampled_from(["user", "assistant", "assistant", "tool"]), max_size=12))
    return [
        message(
            number + 1, role, *draw(st.lists(parts, max_size=5)), unsent=draw(st.sampled_from([False] * 5 + [True]))
        )
        for number, role in enumerate(roles)
    ]


@pytest.mark.promise("C6")
@given(histories(), st.booleans(), st.booleans())
def test_any_history_with_a_new_prompt_is_a_valid_request_for_every_wire(
    stored: list[Message], images: bool, sees: bool
) -> None:
    prompt = message(99, "user", Text("go on"))
    sent = request_messages([*stored, prompt], images=images)
    check_every_wire(ModelRequest(system=("head", " "), messages=sent, effort="high"), images=images and sees)


@pytest.mark.promise("C6")
@given(histories(), st.lists(st.sampled_from(["c7", "c8", "c9"]), unique=True, min_size=1))
def test_a_step_only_adds_to_the_request_before_it(stored: list[Message], called: list[str]) -> None:
    before = [*stored, message(99, "user", Text("go on"))]
    calls = [ToolCall(one, "bash") for one in called]
    step = [
        message(100, "assistant", Reasoning("hm", origin("gemini"), {"signature": "s"}), *calls, Finish("tool_use")),
        message(101, "tool", *[ToolResult(one, "bash", text="ok") for one in reversed(called)]),
        message(102, "user", Text("a steer")),
    ]
    whole = request_messages([*before, *step], images=True)
    assert whole == request_messages(before, images=True) + following_messages(step, images=True)
    check_every_wire(ModelRequest(messages=whole))


@pytest.mark.promise("C6", "R12")
@given(histories(), st.integers(0, MAX_LEVEL))
def test_the_request_for_a_summary_of_any_history_is_valid_without_tools(stored: list[Message], level: int) -> None:
    sent = request_messages([*stored, message(99, "user", Text("go on"))], images=True)
    plain = plain_conversation(sent, level=level)
    assert all(isinstance(part, Text) for one in plain for part in one.parts)
    prompt = message(100, "user", Text("write the summary"))
    check_every_wire(ModelRequest(system=("head",), messages=(*plain, prompt)))


@pytest.mark.promise("C6")
def test_reasoning_before_a_call_is_kept_if_the_answer_was_cut_off() -> None:
    """Providers refuse a call without the reasoning before it, and reasoning that nothing follows."""
    reasonings = [Reasoning("hm", origin("anthropic"), {"signature": f"s{number}"}) for number in range(3)]
    cut = (reasonings[0], ToolCall("c1", "bash"), reasonings[1], Text("so"), reasonings[2], Finish("cancelled"))
    sent = request_messages([message(1, "user", Text("q")), message(2, "assistant", *cut)], images=True)
    assert sent[1].parts == (reasonings[0], ToolCall("c1", "bash"), Text("so"))


def test_an_empty_prompt_gives_a_valid_request() -> None:
    sent = request_messages([message(1, "user", Text(" "))], images=True)
    check_every_wire(ModelRequest(messages=sent))
