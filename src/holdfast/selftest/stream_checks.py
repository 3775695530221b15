"""Checks of event streams: replay after cuts, exact text, a reader that does not read."""

from __future__ import annotations

import asyncio
import socket

from holdfast.client.async_client import AsyncEventStream
from holdfast.client.server_address import ServerAddress
from holdfast.schema.events import (
    CallClosed,
    CallRequested,
    ClientAttached,
    ClientDetached,
    Delta,
    Heartbeat,
    Hello,
    RunFinished,
    RunProgress,
    Snapshot,
)
from holdfast.schema.messages import text_of
from holdfast.selftest.check_context import WAIT_SECONDS, CheckContext
from holdfast.testing import WIRES, Answer, Gate, Say

_LIVE = (Delta, Snapshot, RunProgress, CallRequested, CallClosed, ClientAttached, ClientDetached, Heartbeat, Hello)
_LETTERS = 'abc äöü ß €  漢字 かな 한글 😀👩‍👩‍👧 مرحبا שלום é é ́ <b>&amp; \t\\ "quoted" \n'
"""One to four bytes in UTF-8, combining characters, right to left, and what JSON and HTML escape."""


async def replay_after_cuts(context: CheckContext) -> None:
    """Readers whose connection is cut again and again get the same events as one that listened from the beginning.

    One of them comes when all is over and is cut after each event, so that it reads everything from the log.
    """
    client = context.client()
    for number in context.rounds():
        session_id = await context.new_session(client)
        gate = f"cuts-{number}"
        pieces = tuple(f"piece {n} " for n in range(200))
        _, prompt = context.plan(Answer(pieces=(Gate(gate), Say(deltas=pieces)), pace=0.001))
        cursor = (await client.session(session_id)).cursor
        listening = asyncio.Event()
        first = asyncio.create_task(_read(context, session_id, cursor, most=None, began=listening))
        await asyncio.wait((first, asyncio.create_task(listening.wait())), return_when=asyncio.FIRST_COMPLETED)
        accepted = await context.start(client, session_id, context.request(prompt, wire=context.wire()))
        others = [asyncio.create_task(_read(context, session_id, cursor, most=60)) for _ in range(2)]
        context.provider.open(gate)
        whole, *cut = await asyncio.gather(first, *others)
        cut.append(await _read(context, session_id, cursor, most=1))
        context.expect(len(set(whole)) == len(whole), "an event came twice")
        for events in cut:
            context.expect(events == whole, f"a reader with cuts got {len(events)} events, one without {len(whole)}")
        context.count("events", len(whole))
        shown = (await context.end_of(client, accepted.run.id)).text
        context.expect(shown == "".join(pieces), "the answer's text is not what the model sent")


async def _read(
    context: CheckContext, session_id: str, cursor: str, *, most: int | None, began: asyncio.Event | None = None
) -> list[str | None]:
    """The cursors of the durable events up to the end of the run. ``most``: cut after at most this many events."""
    found: list[str | None] = []
    client = context.client()
    stream = client.events(session_id=session_id, after=cursor)
    left = context.random.randint(1, most) if most else 0
    async with asyncio.timeout(WAIT_SECONDS):
        async for event in stream:
            if began is not None:
                began.set()
            is_live = isinstance(event, _LIVE)
            if not is_live:
                found.append(stream.cursor)
            if isinstance(event, RunFinished):
                break
            left -= most != 1 or not is_live  # a stream of which nothing is kept would begin again for ever
            if most and left <= 0:
                await stream.aclose()  # iterating again connects at the cursor
                context.count("cuts")
                left = context.random.randint(1, most)
    await stream.aclose()
    return found


async def exact_text(context: CheckContext) -> None:
    """Text of all scripts, cut at any byte on all four wires, is shown and stored letter for letter."""
    client = context.client()
    for number in context.rounds(least=len(WIRES)):
        session_id = await context.new_session(client)
        said = "".join(context.random.choice(_LETTERS) for _ in range(context.random.randrange(50, 1500)))
        answer = Answer(
            pieces=(Say(said, chunk=context.random.randrange(1, 9)),), split=context.random.randrange(1, 64)
        )
        _, prompt = context.plan(answer)
        cursor = (await client.session(session_id)).cursor
        stream = client.events(session_id=session_id, after=cursor)
        request = context.request(prompt, wire=WIRES[number % len(WIRES)])
        accepted = await context.start(client, session_id, request)
        shown = await _shown_text(stream, accepted.run.id)
        run = await context.end_of(client, accepted.run.id)
        messages, _cursor = await client.all_messages(session_id)
        stored = "".join(text_of(message.parts) for message in messages if message.role == "assistant")
        for name, found in (("shown", shown), ("stored", stored), ("final", run.text)):
            context.expect(found == said, f"the {name} text differs from what the model sent ({len(said)} letters)")
        context.count("letters", len(said))


async def _shown_text(stream: AsyncEventStream, run_id: str) -> str:
    async with asyncio.timeout(WAIT_SECONDS):
        async for event in stream:
            if isinstance(event, RunFinished) and event.run.id == run_id:
                break
    await stream.aclose()
    messages = stream.transcript.messages.values()
    return "".join(text_of(message.parts) for message in messages if message.role == "assistant")


async def slow_reader(context: CheckContext) -> None:
    """A reader that never reads, while a long answer streams: the others get all of it, and the session goes on."""
    client = context.client()
    for _ in context.rounds():
        session_id = await context.new_session(client)
        pieces = tuple(f"{n:999d} " for n in range(2_000))
        _, prompt = context.plan(Answer(pieces=(Say(deltas=pieces),)))
        cursor = (await client.session(session_id)).cursor
        stalled = await asyncio.to_thread(_open_unread_stream, context.address, context.stream_headers())
        try:
            accepted = await context.start(client, session_id, context.request(prompt))
            streams = [context.client().events(session_id=session_id, after=cursor) for _ in range(3)]
            shown = await asyncio.gather(*(_shown_text(stream, accepted.run.id) for stream in streams))
            context.expect(all(text == "".join(pieces) for text in shown), "a reader beside the stalled one lost text")
            context.count("megabytes beside a stalled reader", sum(map(len, shown)) >> 20)
            await context.answer_next(client, session_id)
        finally:
            stalled.close()


def _open_unread_stream(address: ServerAddress, headers: str) -> socket.socket:
    """Ask for the event stream and read nothing of it. Blocks."""
    if address.path is not None:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(address.path)
    else:
        connection = socket.create_connection((address.host, address.port), timeout=WAIT_SECONDS)
    connection.sendall(f"GET /v1/events HTTP/1.1\r\nHost: {address.authority}\r\n{headers}\r\n".encode())
    return connection
