"""The event streams of both clients: they reconnect at their cursor and detect dead connections."""

import asyncio
import threading

import pytest

from holdfast.client.async_client import AsyncClient
from holdfast.client.sync_client import SyncClient
from holdfast.client.transcript import Transcript
from holdfast.errors import NotFound, NotHoldfast, TooMany, Unreachable
from holdfast.schema.events import Delta, Heartbeat, Hello, OpenPart, RunProgress, SessionDeleted, Snapshot
from holdfast.schema.runs import Now
from tests.client.both_clients import Open, both, first
from tests.client.stub_server import (
    STREAM,
    STREAM_END,
    Cut,
    Piece,
    StubServer,
    Wait,
    answer,
    chunk,
    error,
    frame,
    one_after_another,
)

HELLO = Hello(at="", cursor="log.0", heartbeat_seconds=10)


def gone(number: int) -> SessionDeleted:
    return SessionDeleted("", f"ses_{number}")


def stream(*frames: bytes, end: Piece = STREAM_END) -> list[Piece]:
    return [STREAM, chunk(frame(HELLO) + b"".join(frames)), end]


def cursors(stub: StubServer) -> list[str | None]:
    return [request.headers.get("last-event-id") for request in stub.requests]


@both
@pytest.mark.promise("E2")
async def test_a_stream_that_ends_is_reopened_at_its_cursor(open_client: Open) -> None:
    hold = threading.Event()
    answers = [
        stream(frame(gone(1), "log.1")),
        stream(frame(gone(2), "log.2"), frame(gone(3), "log.3"), end=Cut()),
        stream(frame(gone(4), "log.4"), end=Wait(hold)),
    ]
    with StubServer(one_after_another(*answers)) as stub:
        client = open_client(stub.address)
        events = client.events(workspace_id="wsp_1", session_id="ses_1", viewing="ses_2")
        seen = await first(events, 7)
        assert events.cursor == "log.4"
        hold.set()
        await events.aclose()
        await client.aclose()
    assert seen == [HELLO, gone(1), HELLO, gone(2), gone(3), HELLO, gone(4)]
    assert cursors(stub) == [None, "log.1", "log.3"]
    assert {request.target for request in stub.requests} == {"/v1/workspaces/wsp_1/events?session=ses_1&viewing=ses_2"}


@both
@pytest.mark.promise("E2")
async def test_an_event_cut_in_the_middle_is_delivered_whole(open_client: Open) -> None:
    whole = frame(gone(1), "log.1")
    hold = threading.Event()
    answers = [
        [STREAM, chunk(frame(HELLO)), chunk(whole[:-1]), Cut()],
        [STREAM, chunk(frame(HELLO)), chunk(whole)[:20], Cut()],
        stream(whole, end=Wait(hold)),
    ]
    with StubServer(one_after_another(*answers)) as stub:
        client = open_client(stub.address)
        events = client.events(after="log.0")
        assert await first(events, 4) == [HELLO, HELLO, HELLO, gone(1)]
        hold.set()
        await events.aclose()
        await client.aclose()
    assert cursors(stub) == ["log.0"] * 3


@both
@pytest.mark.promise("E3")
async def test_the_transcript_is_exact_across_a_cut_and_a_snapshot(open_client: Open) -> None:
    def delta(offset: int, text: str) -> Delta:
        return Delta("", "ses_1", "msg_1", 0, 1, "text", offset, text)

    hold = threading.Event()
    snapshot = Snapshot("", "ses_1", "msg_1", (OpenPart(0, 1, "text", "hello wo"),))
    answers = [
        stream(frame(delta(0, "hel")), frame(delta(3, "lo")), end=Cut()),
        stream(frame(snapshot), frame(delta(8, "rld")), end=Wait(hold)),
    ]
    texts = []
    with StubServer(one_after_another(*answers)) as stub:
        client = open_client(stub.address)
        transcript = Transcript()
        events = client.events(transcript=transcript)
        for _ in range(6):
            await anext(events)
            texts.append(transcript.text("msg_1"))
        hold.set()
        await events.aclose()
        await client.aclose()
    assert texts == ["", "hel", "hello", "", "hello wo", "hello world"]
    assert events.transcript is transcript


@both
async def test_a_delta_that_does_not_fit_reconnects_the_stream(open_client: Open) -> None:
    wrong = Delta("", "ses_1", "msg_1", 0, 1, "text", 7, "x")
    hold = threading.Event()
    lost: list[str] = []
    with StubServer(one_after_another(stream(frame(wrong), end=Wait(hold)), stream(frame(gone(1), "log.1")))) as stub:
        client = open_client(stub.address)
        events = client.events(on_lost=lambda error, wait: lost.append(str(error)))
        assert await first(events, 3) == [HELLO, HELLO, gone(1)]
        hold.set()
        await events.aclose()
        await client.aclose()
    assert lost == ["a delta does not continue the text received so far"]


@both
@pytest.mark.promise("E6")
async def test_a_connection_without_heartbeats_is_dead(open_client: Open) -> None:
    hello = Hello(at="", cursor="log.0", heartbeat_seconds=0.1)
    hold = threading.Event()
    lost: list[str] = []
    silent: list[Piece] = [STREAM, chunk(frame(hello)), Wait(hold)]
    with StubServer(one_after_another(silent, stream(frame(gone(1), "log.1")))) as stub:
        client = open_client(stub.address)
        events = client.events(on_lost=lambda error, wait: lost.append(type(error).__name__))
        assert await first(events, 3) == [hello, HELLO, gone(1)]
        hold.set()
        await events.aclose()
        await client.aclose()
    assert lost == ["NoAnswer"]


@both
@pytest.mark.parametrize(
    "refusal",
    [error(503, "stopping"), error(429, "too_many_streams"), error(500, "internal"), answer(b"<html>", status=502)],
)
async def test_a_temporary_error_is_retried(open_client: Open, refusal: list[Piece]) -> None:
    lost: list[float] = []
    with StubServer(one_after_another(refusal, refusal, stream(frame(gone(1), "log.1")))) as stub:
        client = open_client(stub.address)
        events = client.events(after="log.0", on_lost=lambda error, wait: lost.append(wait))
        assert await first(events, 2) == [HELLO, gone(1)]
        await events.aclose()
        await client.aclose()
    assert lost[0] == 0.0
    assert lost[1] > 0.0


@both
@pytest.mark.parametrize(
    ("refusal", "leaf"), [(error(404, "workspace_not_found"), NotFound), (answer(b"<html>", status=404), NotHoldfast)]
)
async def test_a_permanent_error_is_raised(open_client: Open, refusal: list[Piece], leaf: type) -> None:
    with StubServer(lambda request: refusal) as stub:
        client = open_client(stub.address)
        events = client.events(workspace_id="wsp_1")
        with pytest.raises(leaf):
            await anext(events)
        await events.aclose()
        await client.aclose()
    assert len(stub.requests) == 1


@both
async def test_a_stream_gives_up_after_give_up_after(open_client: Open) -> None:
    with StubServer(lambda request: []) as stub:
        address = stub.address
    client = open_client(address)
    events = client.events(give_up_after=0.0)
    with pytest.raises(Unreachable):
        await anext(events)
    await client.aclose()


@both
async def test_a_crashed_server_is_revived_and_a_stopped_one_is_not(open_client: Open) -> None:
    revived: list[int] = []
    answers = [
        stream(frame(gone(1), "log.1"), end=STREAM_END),
        stream(frame(gone(2), "log.2"), end=Cut()),
        stream(frame(gone(3), "log.3"), end=STREAM_END),
    ]
    with StubServer(one_after_another(*answers)) as stub:
        client = open_client(stub.address, revive=lambda **_: revived.append(len(stub.requests)))
        events = client.events()
        await first(events, 6)
        await events.aclose()
        await client.aclose()
    assert revived == [2]


@both
async def test_live_events_do_not_move_the_cursor(open_client: Open) -> None:
    progress = RunProgress("", "ses_1", "run_1", Now("streaming"))
    hold = threading.Event()
    live = stream(frame(progress), frame(Heartbeat(at=""), "log.8"), frame(progress), end=Wait(hold))
    with StubServer(lambda request: live) as stub:
        client = open_client(stub.address)
        events = client.events()
        await first(events, 2)
        assert events.cursor == "log.0"
        await first(events, 2)
        assert events.cursor == "log.8"
        hold.set()
        await events.aclose()
        await client.aclose()


async def test_a_cancelled_reader_continues_without_a_gap() -> None:
    reading = asyncio.Event()
    lost: list[Exception] = []
    hold = threading.Event()
    answers = [stream(frame(gone(number), f"log.{number}"), end=Wait(hold)) for number in (1, 2)]

    async def read() -> None:
        reading.set()
        await anext(events)

    with StubServer(one_after_another(*answers)) as stub:
        async with AsyncClient(stub.address) as client:
            events = client.events(after="log.0", on_lost=lambda error, wait: lost.append(error))
            assert await first(events, 2) == [HELLO, gone(1)]
            reader = asyncio.create_task(read())
            await reading.wait()
            reader.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reader
            assert await first(events, 2) == [HELLO, gone(2)]
            hold.set()
    assert lost == [], "a cancelled reader has not lost the connection"


def test_a_stream_interrupted_by_ctrl_c_continues_without_a_gap() -> None:
    hold = threading.Event()
    answers = [stream(frame(gone(1), "log.1"), end=Cut()), stream(frame(gone(2), "log.2"), end=Wait(hold))]
    interrupts = iter([KeyboardInterrupt])

    def interrupted(error: Exception, wait: float) -> None:
        for kind in interrupts:
            raise kind

    with StubServer(one_after_another(*answers)) as stub, SyncClient(stub.address) as client:
        with client.events(on_lost=interrupted) as events:
            assert [next(events), next(events)] == [HELLO, gone(1)]
            with pytest.raises(KeyboardInterrupt):
                next(events)
            assert [next(events), next(events)] == [HELLO, gone(2)]
        hold.set()
    assert cursors(stub) == [None, "log.1"]


async def test_closing_the_client_closes_its_open_streams() -> None:
    hold = threading.Event()
    with StubServer(lambda request: stream(end=Wait(hold))) as stub:
        async with AsyncClient(stub.address) as client:
            async for event in client.events():
                assert event == HELLO
                break
        hold.set()


@both
async def test_raise_when_full_raises_too_many(open_client: Open) -> None:
    answers = [error(429, "too_many_streams"), stream(frame(gone(1), "log.1"))]
    with StubServer(one_after_another(*answers)) as stub:
        client = open_client(stub.address)
        events = client.events(raise_when_full=True)
        with pytest.raises(TooMany):
            await anext(events)
        assert await first(events, 2) == [HELLO, gone(1)]
        await events.aclose()
        await client.aclose()


@both
async def test_a_good_connection_restarts_the_retry_budget(open_client: Open) -> None:
    now = [0.0]
    answers = [stream(frame(gone(number), f"log.{number}"), end=Cut()) for number in range(5)]

    def lost(error: Exception, wait: float) -> None:
        now[0] += 8

    with StubServer(one_after_another(*answers)) as stub:
        client = open_client(stub.address)
        events = client.events(on_lost=lost, give_up_after=10)
        inner = getattr(events, "_stream", events)
        inner._state._rules.budget._clock = lambda: now[0]
        assert len(await first(events, 10)) == 10
        await events.aclose()
        await client.aclose()


def test_an_interrupt_between_read_and_parse_loses_no_bytes() -> None:
    hold = threading.Event()
    answers = [stream(frame(gone(1), "log.1"), end=Wait(hold)), stream(frame(gone(1), "log.1"), end=Wait(hold))]
    with StubServer(one_after_another(*answers)) as stub, SyncClient(stub.address) as client:
        with client.events(after="log.0") as events:
            feed = events._state.feed

            def interrupted(chunk: bytes) -> None:
                events._state.feed = feed  # type: ignore[method-assign]
                raise KeyboardInterrupt

            events._state.feed = interrupted  # type: ignore[method-assign]
            with pytest.raises(KeyboardInterrupt):
                next(events)
            assert [next(events), next(events)] == [HELLO, gone(1)]
        hold.set()
    assert cursors(stub) == ["log.0", "log.0"]
