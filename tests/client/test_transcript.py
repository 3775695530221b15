"""The transcript after each event."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.client.transcript import StreamedText, Transcript
from holdfast.schema.base import Unknown
from holdfast.schema.events import Delta, Hello, MessageFinished, MessageUpdated, OpenPart, Reset, Snapshot
from holdfast.schema.messages import Finish, Message, Part, Text, ToolResult

AT = "2026-01-01T00:00:00.000Z"


def delta(text: str, offset: int, *, part: int = 0, attempt: int = 1, **more: Any) -> Delta:
    return Delta(AT, "ses_1", "msg_1", part, attempt, more.pop("of", "text"), offset, text)


def snapshot(*parts: OpenPart) -> Snapshot:
    return Snapshot(AT, "ses_1", "msg_1", parts)


def message(*parts: Part, message_id: str = "msg_1") -> Message:
    return Message(message_id, "ses_1", "run_1", "assistant", 1, AT, parts)


@pytest.mark.promise("E3")
@given(st.text(), st.lists(st.integers(0, 50), max_size=8))
def test_deltas_at_any_cut_add_up_to_the_text(text: str, cuts: list[int]) -> None:
    transcript = Transcript()
    places = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    for start, end in pairwise(places):
        assert transcript.apply(delta(text[start:end], start))
    assert transcript.text("msg_1") == text


def test_a_delta_after_missing_text_is_refused() -> None:
    transcript = Transcript()
    assert not transcript.apply(delta("b", 1))
    assert transcript.apply(delta("a", 0))
    assert not transcript.apply(delta("c", 2))
    assert transcript.text("msg_1") == "a"


def test_a_repeated_delta_changes_nothing() -> None:
    transcript = Transcript()
    for _ in range(2):
        assert transcript.apply(delta("ab", 0))
    assert transcript.apply(delta("bc", 1))
    assert transcript.text("msg_1") == "abc"


def test_a_later_attempt_replaces_an_earlier_one() -> None:
    transcript = Transcript()
    transcript.apply(delta("wrong", 0))
    transcript.apply(delta("right", 0, attempt=2))
    transcript.apply(delta(" again", 5, attempt=1))
    assert transcript.text("msg_1") == "right"


def test_a_snapshot_replaces_the_open_parts_of_its_message() -> None:
    transcript = Transcript()
    transcript.apply(delta("old", 0, part=3))
    transcript.apply(snapshot(OpenPart(0, 1, "text", "new"), OpenPart(1, 1, "arguments", "{", "call_1", "bash")))
    assert [part.text for part in transcript.open_parts("msg_1")] == ["new", "{"]
    assert transcript.open_parts("msg_1")[1].name == "bash"
    transcript.apply(snapshot())
    assert transcript.open_parts("msg_1") == ()


@pytest.mark.promise("E3")
def test_stored_text_wins_over_streamed_text() -> None:
    transcript = Transcript()
    transcript.load([message(Text("stored"))])
    transcript.apply(delta("stored and more", 0))
    assert transcript.text("msg_1") == "stored and more"
    transcript.apply(Hello(AT, "a.1", 10.0))
    assert transcript.text("msg_1") == "stored"
    transcript.apply(delta("something", 0))
    transcript.apply(MessageUpdated(AT, "ses_1", message(Text("cut back"))))
    assert transcript.text("msg_1") == "cut back"


def test_a_finished_message_has_no_open_parts() -> None:
    transcript = Transcript()
    transcript.apply(delta("x", 0, part=5))
    transcript.apply(MessageFinished(AT, "ses_1", message(Text("all"), Finish("end_turn"))))
    assert (transcript.text("msg_1"), transcript.open_parts("msg_1")) == ("all", ())


def test_output_is_shown_until_the_result_of_its_call_is_stored() -> None:
    transcript = Transcript()
    transcript.apply(snapshot(OpenPart(0, 1, "output", "one", "call_1", "bash")))
    transcript.apply(delta(" two", 3, of="output"))
    assert transcript.output("call_1") == "one two"
    transcript.apply(MessageUpdated(AT, "ses_1", message(Text("other"))))
    assert transcript.output("call_1") == "one two"
    result = message(ToolResult("call_1", "bash"), message_id="msg_2")
    transcript.apply(MessageUpdated(AT, "ses_1", result))
    assert transcript.output("call_1") is None


def test_a_reset_clears_the_transcript() -> None:
    transcript = Transcript()
    transcript.load([message(Text("old"))])
    transcript.apply(delta("x", 0, part=1))
    transcript.apply(Reset(AT, "a.9", "pruned"))
    assert (transcript.messages, transcript.open_parts("msg_1")) == ({}, ())


def test_unknown_events_are_ignored() -> None:
    assert Transcript().apply(Unknown("something.new", b"{}"))


def test_streamed_text_keeps_nothing_of_messages_that_have_ended() -> None:
    streamed = StreamedText()
    for number in range(100):
        ended = message(Text("text"), message_id=f"msg_{number}")
        assert streamed.apply(Delta(AT, "ses_1", ended.id, 0, 1, "text", 0, "text"))
        assert streamed.apply(MessageFinished(AT, "ses_1", ended))
    assert not streamed._open.message_ids()
    assert not streamed.apply(delta("gap", 4))
