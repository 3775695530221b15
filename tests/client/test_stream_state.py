"""A stream may be cut at any byte, any number of times: its cursor and its text stay exact."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.client.stream_state import Following, OutOfStep
from holdfast.client.transcript import Transcript
from holdfast.schema.events import (
    Delta,
    Event,
    Heartbeat,
    Hello,
    MessageFinished,
    MessageUpdated,
    OpenPart,
    Reset,
    SessionDeleted,
    Snapshot,
)
from holdfast.schema.messages import Finish, Message, Reasoning, Text
from tests.client.stub import frame

HELLO = Hello(at="", cursor="log.0", heartbeat_seconds=10)


def following(after: str | None = None) -> Following:
    return Following(after=after, transcript=Transcript(), random=lambda: 1.0)


def take_all(stream: Following) -> list[Event]:
    found = []
    while (event := stream.take()) is not None:
        found.append(event)
    return found


def delta(offset: int, text: str, *, part: int = 0, attempt: int = 1) -> Delta:
    return Delta("", "ses_1", "msg_1", part, attempt, "text", offset, text)


def test_a_stream_without_a_cursor_goes_on_from_where_it_first_began() -> None:
    stream = following()
    stream.feed(frame(HELLO))
    assert take_all(stream) == [HELLO]
    assert stream.cursor == "log.0"
    stream.connected()
    stream.feed(frame(Hello(at="", cursor="log.7", heartbeat_seconds=10)))
    take_all(stream)
    assert stream.cursor == "log.0"


@pytest.mark.promise("E2")
def test_the_cursor_moves_as_events_are_handed_out_and_not_before() -> None:
    stream = following("log.0")
    stream.feed(frame(Heartbeat(at=""), "log.5") + frame(SessionDeleted("", "ses_1"), "log.6") + b"id: log.7\ndata: {")
    assert stream.cursor == "log.0"
    assert stream.take() == Heartbeat(at="")
    assert stream.cursor == "log.5"
    assert take_all(stream) == [SessionDeleted("", "ses_1")]
    assert stream.cursor == "log.6"


@pytest.mark.promise("E2")
def test_a_reset_moves_the_cursor_and_forgets_what_was_known() -> None:
    stream = following("old.9")
    stream.transcript.load([Message("msg_1", "ses_1", "run_1", "assistant", 1, "")])
    stream.feed(frame(HELLO) + frame(Reset("", "log.3", "foreign"), "log.3"))
    take_all(stream)
    assert stream.cursor == "log.3"
    assert stream.transcript.messages == {}


def test_kinds_of_tomorrow_are_passed_over_but_move_the_cursor() -> None:
    stream = following("log.0")
    stream.feed(b'event: moon.rose\nid: log.1\ndata: {"kind":"moon.rose"}\n\n')
    assert take_all(stream) == []
    assert stream.cursor == "log.1"


@pytest.mark.promise("E3")
def test_text_that_does_not_continue_what_is_here_is_never_handed_out() -> None:
    stream = following("log.0")
    stream.feed(frame(delta(0, "abc")) + frame(delta(5, "fg")) + frame(delta(7, "h")))
    assert stream.take() == delta(0, "abc")
    with pytest.raises(OutOfStep):
        stream.take()
    assert stream.take() is None
    stream.connected()
    snapshot = Snapshot("", "ses_1", "msg_1", (OpenPart(0, 1, "text", "abcdefg"),))
    stream.feed(frame(HELLO) + frame(snapshot) + frame(delta(7, "h")))
    assert take_all(stream) == [HELLO, snapshot, delta(7, "h")]
    assert stream.transcript.text("msg_1") == "abcdefgh"


@pytest.mark.parametrize("rubbish", [b"data: <html>\n\n", b"data: \xff\n\n", b"data: " + b"[" * 100_000 + b"\n\n"])
def test_a_stream_that_carries_no_json_is_given_up(rubbish: bytes) -> None:
    stream = following("log.0")
    stream.feed(rubbish)
    with pytest.raises(OutOfStep):
        stream.take()
    assert stream.cursor == "log.0"


@pytest.mark.promise("E6")
def test_silence_is_measured_in_the_servers_own_heartbeats() -> None:
    stream = following()
    before = stream.silence
    stream.feed(frame(Hello(at="", cursor="log.0", heartbeat_seconds=2)))
    take_all(stream)
    assert stream.silence == 5.0
    stream.connected()
    assert stream.silence == before


def test_a_lost_connection_is_tried_at_once_and_then_ever_less_often() -> None:
    stream = following()
    assert [stream.wait_after_loss() for _ in range(9)] == [0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    stream.feed(frame(HELLO))
    take_all(stream)
    assert stream.wait_after_loss() == 5.0
    stream.feed(frame(Heartbeat(at="")))
    take_all(stream)
    assert stream.wait_after_loss() == 0.0


def test_waits_are_spread_so_that_not_all_clients_come_at_once() -> None:
    stream = Following(after=None, transcript=Transcript(), random=lambda: 0.0)
    assert [stream.wait_after_loss() for _ in range(3)] == [0.0, 0.05, 0.1]


def test_a_server_that_never_continues_is_not_asked_in_a_tight_circle() -> None:
    stream = following("log.0")
    waits = []
    for _ in range(4):
        stream.connected()
        snapshot = Snapshot("", "ses_1", "msg_1", (OpenPart(0, 1, "text", "ab"),))
        stream.feed(frame(HELLO) + frame(snapshot) + frame(delta(9, "x")))
        with pytest.raises(OutOfStep):
            take_all(stream)
        waits.append(stream.wait_after_loss())
    assert waits == [0.1, 0.2, 0.4, 0.8]


class Log:
    """A server's side in a few lines: durable events by number, and one message that is being written."""

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts
        self.durable: list[bytes] = []
        self.parts: list[Text | Reasoning] = []
        self.text = ""

    def steps(self) -> list[tuple[str, str]]:
        """What happens, one after the other: a delta, or the end of a part."""
        return [step for text in self.texts for step in [*(("delta", c) for c in text), ("end", text)]]

    def message(self, *more: Finish) -> Message:
        return Message("msg_1", "ses_1", "run_1", "assistant", 1, "", (*self.parts, *more))

    def happen(self, step: tuple[str, str]) -> bytes:
        """The frame that a connected stream is sent."""
        what, text = step
        if what == "delta":
            self.text += text
            return frame(delta(len(self.text) - len(text), text, part=len(self.parts)))
        self.parts.append(Text(text))
        self.text = ""
        return self.commit(MessageUpdated("", "ses_1", self.message()))

    def finish(self) -> bytes:
        return self.commit(MessageFinished("", "ses_1", self.message(Finish("end_turn"))))

    def commit(self, event: Event) -> bytes:
        sent = frame(event, f"log.{len(self.durable) + 1}")
        self.durable.append(sent)
        return sent

    def connect(self, cursor: str | None) -> bytes:
        """What a stream begins with."""
        number = int((cursor or f"log.{len(self.durable)}").partition(".")[2])
        begun = frame(Hello(at="", cursor=f"log.{number}", heartbeat_seconds=10)) + b"".join(self.durable[number:])
        if self.text:
            begun += frame(Snapshot("", "ses_1", "msg_1", (OpenPart(len(self.parts), 1, "text", self.text),)))
        return begun


@pytest.mark.promise("E2", "E3")
@settings(max_examples=200)
@given(texts=st.lists(st.text("aé😀\n", min_size=1, max_size=12), min_size=1, max_size=4), data=st.data())
def test_a_stream_cut_at_random_bytes_gives_exactly_what_is_stored(texts: list[str], data: st.DataObject) -> None:
    log, stream, transcript = Log(texts), following("log.0"), Transcript()
    stream.transcript = transcript
    wire = log.connect("log.0")
    seen: list[Event] = []
    for step in [*log.steps(), None]:
        wire += log.happen(step) if step else log.finish()
        at = data.draw(st.integers(0, len(wire)))
        stream.feed(wire[:at])
        wire = wire[at:]
        seen += take_all(stream)
        if transcript.messages or transcript.open_parts("msg_1"):
            written = "".join(part.text for part in log.parts) + log.text
            assert written.startswith(transcript.text("msg_1"))
        if data.draw(st.booleans()):  # cut here, in the middle of whatever it is
            stream.connected()
            wire = log.connect(stream.cursor)
    stream.feed(wire)
    seen += take_all(stream)
    assert transcript.messages == {"msg_1": log.message(Finish("end_turn"))}
    assert transcript.text("msg_1") == "".join(texts)
    assert transcript.open_parts("msg_1") == ()
    durable = [event for event in seen if isinstance(event, MessageUpdated | MessageFinished)]
    assert len(durable) == len(log.durable)
