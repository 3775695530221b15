"""A stream may be cut at any byte, any number of times; its cursor and its text stay exact."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.client.retry import ReconnectRules, Retry, RetryBudget, StreamBroken
from holdfast.client.stream_state import StreamState
from holdfast.client.transcript import Transcript
from holdfast.errors import (
    ClientError,
    Conflict,
    HoldfastError,
    InternalError,
    NoAnswer,
    NotFound,
    NotHoldfast,
    ServerStopping,
    TooMany,
    Unreachable,
)
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
from tests.client.stub_server import frame

HELLO = Hello(at="", cursor="log.0", heartbeat_seconds=10)


def new_stream(after: str | None = None, *, random: float = 1.0, **rules: bool) -> StreamState:
    budget = RetryBudget(None, clock=lambda: 0.0)
    return StreamState(
        after=after, transcript=Transcript(), rules=ReconnectRules(budget, random=lambda: random, **rules)
    )


def waits(stream: StreamState, count: int) -> list[float]:
    return [stream.after_loss(Unreachable("gone")).seconds for _ in range(count)]


def take_all(stream: StreamState) -> list[Event]:
    found = []
    while (event := stream.take()) is not None:
        found.append(event)
    return found


def delta(offset: int, text: str, *, part: int = 0, attempt: int = 1) -> Delta:
    return Delta("", "ses_1", "msg_1", part, attempt, "text", offset, text)


def test_a_stream_without_a_cursor_continues_at_its_first_hello() -> None:
    stream = new_stream()
    stream.feed(frame(HELLO))
    assert take_all(stream) == [HELLO]
    assert stream.cursor == "log.0"
    stream.connect()
    stream.feed(frame(Hello(at="", cursor="log.7", heartbeat_seconds=10)))
    take_all(stream)
    assert stream.cursor == "log.0"


@pytest.mark.promise("E2")
def test_the_cursor_moves_when_an_event_is_returned() -> None:
    stream = new_stream("log.0")
    stream.feed(frame(Heartbeat(at=""), "log.5") + frame(SessionDeleted("", "ses_1"), "log.6") + b"id: log.7\ndata: {")
    assert stream.cursor == "log.0"
    assert stream.take() == Heartbeat(at="")
    assert stream.cursor == "log.5"
    assert take_all(stream) == [SessionDeleted("", "ses_1")]
    assert stream.cursor == "log.6"


@pytest.mark.promise("E2")
def test_a_reset_moves_the_cursor_and_clears_the_transcript() -> None:
    stream = new_stream("old.9")
    stream.transcript.load([Message("msg_1", "ses_1", "run_1", "assistant", 1, "")])
    stream.feed(frame(HELLO) + frame(Reset("", "log.3", "foreign"), "log.3"))
    take_all(stream)
    assert stream.cursor == "log.3"
    assert stream.transcript.messages == {}


def test_unknown_events_are_skipped_but_move_the_cursor() -> None:
    stream = new_stream("log.0")
    stream.feed(b'event: moon.rose\nid: log.1\ndata: {"kind":"moon.rose"}\n\n')
    assert take_all(stream) == []
    assert stream.cursor == "log.1"


@pytest.mark.promise("E3")
def test_a_delta_that_does_not_continue_the_text_is_not_returned() -> None:
    stream = new_stream("log.0")
    stream.feed(frame(delta(0, "abc")) + frame(delta(5, "fg")) + frame(delta(7, "h")))
    assert stream.take() == delta(0, "abc")
    with pytest.raises(StreamBroken):
        stream.take()
    assert stream.take() is None
    stream.connect()
    snapshot = Snapshot("", "ses_1", "msg_1", (OpenPart(0, 1, "text", "abcdefg"),))
    stream.feed(frame(HELLO) + frame(snapshot) + frame(delta(7, "h")))
    assert take_all(stream) == [HELLO, snapshot, delta(7, "h")]
    assert stream.transcript.text("msg_1") == "abcdefgh"


@pytest.mark.parametrize("rubbish", [b"data: <html>\n\n", b"data: \xff\n\n", b"data: " + b"[" * 100_000 + b"\n\n"])
def test_a_stream_without_json_is_broken(rubbish: bytes) -> None:
    stream = new_stream("log.0")
    stream.feed(rubbish)
    with pytest.raises(StreamBroken):
        stream.take()
    assert stream.cursor == "log.0"


@pytest.mark.promise("E6")
def test_the_silence_limit_follows_the_heartbeat_of_the_server() -> None:
    stream = new_stream()
    before = stream.silence
    stream.feed(frame(Hello(at="", cursor="log.0", heartbeat_seconds=2)))
    take_all(stream)
    assert stream.silence == 5.0
    stream.connect()
    assert stream.silence == before


def test_the_first_retry_is_immediate_and_the_waits_grow() -> None:
    stream = new_stream()
    assert waits(stream, 9) == [0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    stream.feed(frame(HELLO))
    take_all(stream)
    assert waits(stream, 1) == [5.0]
    stream.feed(frame(Heartbeat(at="")))
    take_all(stream)
    assert waits(stream, 1) == [0.0]


def test_waits_are_randomised() -> None:
    assert waits(new_stream(random=0.0), 3) == [0.0, 0.05, 0.1]


def test_repeated_broken_streams_wait_longer_each_time() -> None:
    stream = new_stream("log.0")
    waited = []
    for _ in range(4):
        stream.connect()
        snapshot = Snapshot("", "ses_1", "msg_1", (OpenPart(0, 1, "text", "ab"),))
        stream.feed(frame(HELLO) + frame(snapshot) + frame(delta(9, "x")))
        with pytest.raises(StreamBroken) as broken:
            take_all(stream)
        waited.append(stream.after_loss(broken.value).seconds)
    assert waited == [0.1, 0.2, 0.4, 0.8]


def test_a_connection_sends_its_cursor() -> None:
    assert new_stream().connect() == {"Accept": "text/event-stream"}
    assert new_stream("log.4").connect()["Last-Event-ID"] == "log.4"


_PASSING: list[HoldfastError | StreamBroken] = [
    Unreachable("x"),
    NoAnswer("x"),
    ServerStopping("x"),
    InternalError("x"),
    TooMany("x"),
    StreamBroken("x"),
]
_FINAL: list[HoldfastError] = [NotFound("x"), Conflict("x"), NotHoldfast("x"), ClientError("x")]


@pytest.mark.parametrize("error", _PASSING, ids=lambda error: type(error).__name__)
def test_temporary_errors_are_retried_at_once(error: HoldfastError | StreamBroken) -> None:
    assert new_stream().after_loss(error) == Retry(0.0)


@pytest.mark.parametrize("error", _FINAL, ids=lambda error: type(error).__name__)
def test_permanent_errors_are_raised(error: HoldfastError) -> None:
    with pytest.raises(type(error)):
        new_stream(can_revive=True).after_loss(error)


def test_too_many_is_raised_only_with_raise_when_full() -> None:
    assert new_stream(raise_when_full=False).after_loss(TooMany("full")) == Retry(0.0)
    with pytest.raises(TooMany):
        new_stream(raise_when_full=True).after_loss(TooMany("full"))


@pytest.mark.parametrize("error", _PASSING, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("can_revive", [True, False])
@pytest.mark.parametrize("leave_stopped", [True, False])
@pytest.mark.parametrize("ended_properly", [True, False])
def test_the_server_is_revived_only_when_it_is_unreachable_and_was_not_stopped(
    error: HoldfastError | StreamBroken, can_revive: bool, leave_stopped: bool, ended_properly: bool
) -> None:
    stream = new_stream(can_revive=can_revive, leave_stopped=leave_stopped)
    if ended_properly:
        with pytest.raises(Unreachable, match="ended the stream"):
            stream.feed(None)
    expected = can_revive and isinstance(error, Unreachable) and (leave_stopped or not ended_properly)
    assert stream.after_loss(error).revive is expected
    assert stream.after_loss(error).revive is expected
    stream.connect()
    assert stream.after_loss(error).revive is expected, "an attempt that was not accepted changes nothing"
    stream.connected()
    expected = can_revive and isinstance(error, Unreachable)
    assert stream.after_loss(error).revive is expected


def test_a_hello_restarts_the_retry_budget() -> None:
    now = [0.0]
    rules = ReconnectRules(RetryBudget(10.0, clock=lambda: now[0]), random=lambda: 1.0)
    stream = StreamState(after=None, transcript=Transcript(), rules=rules)
    for _ in range(3):
        stream.after_loss(Unreachable("gone"))
        now[0] += 8
        stream.feed(frame(HELLO))
        take_all(stream)
    stream.after_loss(Unreachable("gone"))
    now[0] += 10
    with pytest.raises(Unreachable):
        stream.after_loss(Unreachable("gone"))


class Log:
    """The server's side: numbered durable events, and one message that is being streamed."""

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts
        self.durable: list[bytes] = []
        self.parts: list[Text | Reasoning] = []
        self.text = ""

    def steps(self) -> list[tuple[str, str]]:
        """The steps in order: a delta, or the end of a part."""
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
        """The bytes that a stream starts with."""
        number = int((cursor or f"log.{len(self.durable)}").partition(".")[2])
        begun = frame(Hello(at="", cursor=f"log.{number}", heartbeat_seconds=10)) + b"".join(self.durable[number:])
        if self.text:
            begun += frame(Snapshot("", "ses_1", "msg_1", (OpenPart(len(self.parts), 1, "text", self.text),)))
        return begun


@pytest.mark.promise("E2", "E3")
@settings(max_examples=200)
@given(texts=st.lists(st.text("aé😀\n", min_size=1, max_size=12), min_size=1, max_size=4), data=st.data())
def test_a_stream_cut_at_random_bytes_delivers_exactly_the_stored_events(texts: list[str], data: st.DataObject) -> None:
    log, stream, transcript = Log(texts), new_stream("log.0"), Transcript()
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
        if data.draw(st.booleans()):  # cut here
            stream.connect()
            wire = log.connect(stream.cursor)
    stream.feed(wire)
    seen += take_all(stream)
    assert transcript.messages == {"msg_1": log.message(Finish("end_turn"))}
    assert transcript.text("msg_1") == "".join(texts)
    assert transcript.open_parts("msg_1") == ()
    durable = [event for event in seen if isinstance(event, MessageUpdated | MessageFinished)]
    assert len(durable) == len(log.durable)
