"""The parts of a message are exactly what was streamed."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from holdfast.agent.message_builder import MessageBuilder, PartClosed, PartGrew
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
from holdfast.schema.messages import Reasoning, Text, ToolCall
from holdfast.schema.usage import Usage


def new_fold() -> MessageBuilder:
    numbers = itertools.count(1)
    return MessageBuilder(lambda: f"call_{next(numbers)}")


def fold(*deltas: ModelDelta) -> MessageBuilder:
    made = new_fold()
    for delta in deltas:
        made.add(delta)
    return made


def test_text_grows_in_one_part_until_something_else_begins() -> None:
    made = new_fold()
    assert made.add(TextDelta("a")) == (PartGrew(0, "text", "a", opened=True),)
    assert made.add(TextDelta("b")) == (PartGrew(0, "text", "b"),)
    assert made.add(ReasoningDelta("c")) == (PartClosed(0), PartGrew(1, "reasoning", "c", opened=True))
    assert made.parts() == (Text("ab"), Reasoning("c"))


def test_reasoning_keeps_the_opaque_data_of_its_wire() -> None:
    made = fold(ReasoningDelta("hm"), ReasoningEnd({"signature": "s"}, wire="anthropic"), TextDelta("x"))
    assert made.parts() == (Reasoning("hm", wire="anthropic", opaque={"signature": "s"}), Text("x"))


def test_opaque_reasoning_without_text_is_a_separate_part() -> None:
    made = fold(TextDelta("x"), ReasoningEnd({"data": "zz"}, wire="anthropic"), ReasoningEnd())
    assert made.parts() == (Text("x"), Reasoning("", wire="anthropic", opaque={"data": "zz"}))


def test_interleaved_calls_each_get_their_own_arguments_in_the_order_they_were_opened() -> None:
    made = fold(
        CallStart(0, "view", provider_id="p0"),
        CallStart(1, "bash", provider_id="p1"),
        CallArguments(1, '{"command":'),
        CallArguments(0, '{"path":"a"}'),
        CallArguments(1, '"ls"}'),
        CallEnd(1),
        CallEnd(0, opaque={"sig": 1}, wire="gemini"),
        Stop("tool_use"),
    )
    first, second = made.parts()
    assert first == ToolCall(
        id="call_1", name="view", arguments={"path": "a"}, provider_id="p0", opaque={"sig": 1}, wire="gemini"
    )
    assert second == ToolCall(id="call_2", name="bash", arguments={"command": "ls"}, provider_id="p1")


def test_arguments_that_are_not_a_json_object_are_kept_unchanged() -> None:
    for text in ("{", "[1]", '"x"', '{"a": \x00}'):
        (call,) = fold(CallStart(0, "view"), CallArguments(0, text), CallEnd(0)).parts()
        assert isinstance(call, ToolCall)
        assert (call.arguments, call.malformed) == ({}, text)


def test_missing_arguments_are_an_empty_object() -> None:
    (call,) = fold(CallStart(0, "ls"), CallEnd(0)).parts()
    assert call == ToolCall(id="call_1", name="ls")


def test_an_incomplete_call_is_left_out_of_the_complete_parts() -> None:
    made = fold(TextDelta("I will "), CallStart(0, "bash"), CallArguments(0, '{"command": "rm'))
    assert made.complete_parts() == (Text("I will "),)
    assert len(made.parts()) == 2


def test_stop_closes_everything_once_and_late_arguments_change_nothing() -> None:
    made = new_fold()
    made.add(CallStart(0, "ls"))
    assert made.add(Stop("tool_use")) == (PartClosed(0),)
    before = made.parts()
    assert made.add(CallArguments(0, "x")) == ()
    assert made.add(CallEnd(0)) == ()
    assert made.parts() == before


def test_the_last_usage_report_counts() -> None:
    made = fold(UsageReport(Usage(input=1)), UsageReport(Usage(input=2, output=3)))
    assert made.usage == Usage(input=2, output=3)


words = st.text(max_size=4)
deltas = st.lists(
    st.one_of(
        st.builds(TextDelta, words),
        st.builds(ReasoningDelta, words),
        st.builds(ReasoningEnd, st.none() | st.just({"s": 1})),
        st.builds(CallStart, st.integers(0, 3), st.just("t")),
        st.builds(CallArguments, st.integers(0, 3), words),
        st.builds(CallEnd, st.integers(0, 3)),
    ),
    max_size=30,
)


@given(deltas)
def test_the_parts_are_exactly_what_was_streamed(stream: list[ModelDelta]) -> None:
    made = new_fold()
    seen: dict[int, str] = {}
    closed: set[int] = set()
    for delta in stream:
        for change in made.add(delta):
            match change:
                case PartGrew(part, _, text, opened):
                    assert opened == (part not in seen)
                    assert part not in closed
                    seen[part] = seen.get(part, "") + text
                case PartClosed(part):
                    assert part not in closed
                    closed.add(part)
    for index, part in enumerate(made.parts()):
        if isinstance(part, Text | Reasoning):
            assert part.text == seen.get(index, "")
    assert len(made.parts()) == len(seen.keys() | closed)


def test_reasoning_says_how_long_it_took() -> None:
    times = iter([10.0, 12.5])
    made = MessageBuilder(lambda: "call_1", seconds=lambda: next(times))
    for delta in (ReasoningDelta("h"), ReasoningDelta("m"), TextDelta("x")):
        made.add(delta)
    assert made.parts() == (Reasoning("hm", duration=2.5), Text("x"))
