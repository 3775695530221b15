"""The bytes of requests and responses, with applications made for the test."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast.server import ServerLimits
from holdfast.server.http.http_server import HttpServer
from holdfast.server.http.request_parsing import Receive, read_body, wait_for_disconnect
from holdfast.server.http.responses import UNFRAMED, AsgiApp, Header, Scope, Send

LIMITS = ServerLimits()


@asynccontextmanager
async def served(app: AsgiApp) -> AsyncIterator[int]:
    sock = socket.create_server(("127.0.0.1", 0))
    sock.setblocking(False)
    server = HttpServer(app, limits=LIMITS)
    await server.start(sock)
    try:
        yield sock.getsockname()[1]
    finally:
        await server.stop()
        sock.close()


async def exchange(port: int, *sent: bytes) -> bytes:
    """Send these pieces one by one, and return what was received until the server closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for piece in sent:
        writer.write(piece)
        await writer.drain()
    received = await reader.read()
    writer.close()
    return received


async def answer(send: Send, body: bytes, *headers: Header, status: int = 200) -> None:
    head = [(b"content-length", b"%d" % len(body)), *headers]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the path and the body; close after it if the path says so."""
    body = await read_body(receive, length=None, limit=1 << 24)
    close = [(b"connection", b"close")] if scope["path"] == "/last" else []
    await answer(send, b"%b %b" % (scope["path"].encode(), body), *close)


async def stream(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["path"] == "/unframed":
        scope[UNFRAMED]()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for piece in (b"one ", b"", b"two"):
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


CLOSE = b"Connection: close\r\n\r\n"


async def test_responses_have_a_length_or_chunks_or_end_with_the_connection() -> None:
    chunks = b"4\r\none \r\n3\r\ntwo\r\n0\r\n\r\n"
    async with served(stream) as port:
        found = await exchange(port, b"GET / HTTP/1.1\r\n" + CLOSE)
        assert found == b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n" + chunks
        ended = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\none two"
        assert await exchange(port, b"GET /unframed HTTP/1.1\r\n\r\n") == ended
        assert await exchange(port, b"GET / HTTP/1.0\r\n\r\n") == ended
        head = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n"
        assert await exchange(port, b"HEAD / HTTP/1.1\r\n" + CLOSE) == head
    async with served(echo) as port:
        head = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\nconnection: close\r\n\r\n"
        assert await exchange(port, b"GET /last HTTP/1.1\r\n\r\n") == head + b"/last "
        assert await exchange(port, b"HEAD /last HTTP/1.1\r\n\r\n") == head


async def test_requests_ahead_of_their_answers_are_answered_in_order_also_in_pieces() -> None:
    requests = b"".join(
        b"POST /%d HTTP/1.1\r\nContent-Length: 70000\r\n\r\n%b" % (number, b"%d" % number * 70_000)
        for number in range(3)
    )
    requests += b"POST /last HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    requests += b"GET /never-answered HTTP/1.1\r\n\r\n"
    expected = [b"/%d %b" % (number, b"%d" % number * 70_000) for number in range(3)] + [b"/last abcde"]
    async with served(echo) as port:
        whole = await exchange(port, requests)
        for size in (7, 4096):
            pieces = [requests[start : start + size] for start in range(0, len(requests), size)]
            assert await exchange(port, *pieces) == whole
    bodies = []
    rest = whole
    while rest:
        head, _, rest = rest.partition(b"\r\n\r\n")
        length = int(head.partition(b"content-length: ")[2].split(b"\r\n")[0])
        bodies.append(rest[:length])
        rest = rest[length:]
    assert bodies == expected


async def test_a_body_is_asked_for_when_the_application_reads_it() -> None:
    async with served(echo) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /last HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"ab")
        assert (await reader.read()).endswith(b"/last ab")
        writer.close()


async def test_an_upgrade_is_answered_as_http_and_what_follows_is_ignored() -> None:
    request = b"GET /a HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    async with served(echo) as port:
        found = await exchange(port, request + b"\x81\x05hello", b"more")
        assert found == b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\nconnection: close\r\n\r\n/a "


async def test_paths_are_decoded_and_queries_are_not() -> None:
    seen: list[Any] = []

    async def note(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append((scope["method"], scope["path"], scope["query_string"], scope["headers"]))
        await answer(send, b"")

    async with served(note) as port:
        await exchange(port, b"PUT /a%20b/%C3%BC?x=%20&y HTTP/1.1\r\nX-Name: V\r\nx-name: w\r\n" + CLOSE)
        await exchange(port, b"GET http://host/c HTTP/1.1\r\n" + CLOSE)
    names = [(b"x-name", b"V"), (b"x-name", b"w"), (b"connection", b"close")]
    assert seen == [("PUT", "/a b/ü", b"x=%20&y", names), ("GET", "/c", b"", names[2:])]


async def test_a_response_that_stays_incomplete_ends_with_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(scope: Scope, receive: Receive, send: Send) -> None:
        match scope["path"]:
            case "/nothing":
                return
            case "/early":
                raise ValueError("before the head")
            case "/line-break":
                await answer(send, b"", (b"x", b"a\r\nset-cookie: b"))
            case "/short":
                await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
                await send({"type": "http.response.body", "body": b"1234"})
            case "/long":
                await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
                await send({"type": "http.response.body", "body": b"123456", "more_body": True})
            case _:
                await send({"type": "http.response.start", "status": 200, "headers": []})
                await send({"type": "http.response.body", "body": b"begun", "more_body": True})
                raise ConnectionAbortedError

    async with served(fail) as port:
        for path in (b"/nothing", b"/early", b"/line-break", b"/short", b"/long"):
            assert await exchange(port, b"GET %b HTTP/1.1\r\n\r\n" % path) == b"", path
        found = await exchange(port, b"GET /begun HTTP/1.1\r\n\r\n")
        assert found.endswith(b"\r\n\r\n5\r\nbegun\r\n")
    logged = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert logged == ["GET /early failed", "GET /line-break failed", "GET /short failed", "GET /long failed"]


async def test_an_application_hears_of_a_disconnect_and_of_the_end_of_its_response() -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()

    async def wait(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/answered":
            await answer(send, b"")
        await wait_for_disconnect(receive)
        if scope["path"] == "/gone":
            await answer(send, b"dropped")
        heard.put_nowait(scope["path"])

    async with served(wait) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /gone HTTP/1.1\r\n\r\n")
        await writer.drain()
        writer.close()
        assert await heard.get() == "/gone"
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(2):  # the connection stays open
            writer.write(b"GET /answered HTTP/1.1\r\n\r\n")
            assert (await reader.readuntil(b"\r\n\r\n")).endswith(b"content-length: 0\r\n\r\n")
            assert await heard.get() == "/answered"
        writer.close()


async def test_a_slow_reader_gets_everything() -> None:
    async def flood(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for number in range(200):
            await send({"type": "http.response.body", "body": b"%d" % (number % 10) * 50_000, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async with served(flood) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.write(b"GET / HTTP/1.1\r\n" + CLOSE)
        found = bytearray()
        while piece := await reader.read(60_000):
            found += piece
        writer.close()
    assert sum(found.count(b"%d" % digit * 50_000) for digit in range(10)) == 200
    assert found.endswith(b"0\r\n\r\n")
