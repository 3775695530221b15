"""Connections to providers: whatever a server sends, the body is exact or the response is broken."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from holdfast.models import provider_connection, tcp_connect
from holdfast.models.provider_connection import (
    BrokenHttpResponse,
    CannotConnect,
    DirectConnections,
    DirectResponse,
    InvalidHttpRequest,
    parse_url,
    request_head,
)
from holdfast.models.tcp_connect import open_socket
from tests.support.connections import serve_connections
from tests.support.mcp_peers import eventually

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture
async def connections() -> AsyncIterator[DirectConnections]:
    opened = DirectConnections(tls=None, keep_alive_seconds=60)
    yield opened
    await opened.aclose()


async def send(connections: DirectConnections, port: int) -> DirectResponse:
    return await connections.send("POST", f"http://127.0.0.1:{port}/", headers={}, content=b"{}", connect_seconds=30)


async def read_all(response: DirectResponse) -> bytes:
    pieces = []
    while (piece := await response.read()) is not None:
        pieces.append(piece)
    await response.aclose()
    return b"".join(pieces)


class Server:
    """Answers each request with the next of these bytes. After the last one it closes the connection."""

    def __init__(self, *answers: bytes, by_byte: bool = False) -> None:
        self.connections = 0
        self.closed = asyncio.Event()
        self._answers = list(answers)
        self._by_byte = by_byte

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while self._answers:
            try:
                await reader.readuntil(b"\r\n\r\n{}")
            except asyncio.IncompleteReadError:
                break
            answer = self._answers.pop(0)
            for piece in [answer[at : at + 1] for at in range(len(answer))] if self._by_byte else [answer]:
                writer.write(piece)
                await writer.drain()
            if not self._answers:
                break
        self.closed.set()


@pytest.mark.parametrize("by_byte", [False, True])
@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", b"ok"),
        (CHUNKED + b"1\r\no\r\n1\r\nk\r\n0\r\n\r\n", b"ok"),
        (CHUNKED + b"2;x=y\r\nok\r\n0\r\nTrailer: x\r\n\r\n", b"ok"),
        (b"HTTP/1.1 200 OK\r\n\r\nok", b"ok"),
        (b"HTTP/1.0 200 OK\r\n\r\nok", b"ok"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", b"ok"),
        (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", b"ok"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\nmore", b"ok"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok", None),
        (CHUNKED + b"2\r\nok\r\n", None),
        (CHUNKED + b"zz\r\nok\r\n0\r\n\r\n", None),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok", None),
        (b"HTTP/1.1 200", None),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", None),
        (b"SSH-2.0-x\r\n\r\n", None),
        (b"", None),
    ],
)
async def test_a_response_is_exact_or_broken(
    connections: DirectConnections, answer: bytes, body: bytes | None, by_byte: bool
) -> None:
    server = Server(answer, by_byte=by_byte)
    async with serve_connections(server.serve) as port:
        if body is not None:
            assert await read_all(await send(connections, port)) == body
        else:
            with pytest.raises(BrokenHttpResponse):
                await read_all(await send(connections, port))


async def test_a_head_without_an_end_is_refused(
    connections: DirectConnections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider_connection, "MAX_HEAD_BYTES", 1000)
    server = Server(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1000)
    async with serve_connections(server.serve) as port:
        with pytest.raises(BrokenHttpResponse, match="too long"):
            await send(connections, port)


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
LEAVES = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


@pytest.mark.parametrize(("first", "expected"), [(OK, 1), (LEAVES, 2), (OK + b"unasked", 2)])
async def test_a_connection_is_used_again_only_after_a_clean_end(
    connections: DirectConnections, first: bytes, expected: int
) -> None:
    server = Server(first, OK, OK)
    async with serve_connections(server.serve) as port:
        for _ in range(2):
            assert await read_all(await send(connections, port)) == b"ok"
        assert server.connections == expected


async def test_a_response_that_is_not_read_to_its_end_closes_the_connection_at_once(
    connections: DirectConnections,
) -> None:
    server = Server(CHUNKED + b"2\r\nok\r\n", OK)
    async with serve_connections(server.serve) as port:
        response = await send(connections, port)
        assert await response.read() == b"ok"
        await response.aclose()
        await asyncio.wait_for(server.closed.wait(), 30)


async def test_a_reader_that_is_cancelled_closes_the_connection_before_anything_else_happens(
    connections: DirectConnections,
) -> None:
    server = Server(CHUNKED, OK)
    async with serve_connections(server.serve) as port:
        response = await send(connections, port)
        reading = asyncio.create_task(response.read())
        await asyncio.sleep(0)
        assert response._connection.is_open
        reading.cancel()
        assert not response._connection.is_open
        with pytest.raises(asyncio.CancelledError):
            await reading
        await asyncio.wait_for(server.closed.wait(), 30)


async def test_a_connection_that_the_server_closed_is_not_used_again(connections: DirectConnections) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n{}")
        writer.write(OK)
        await writer.drain()

    async with serve_connections(serve) as port:
        for _ in range(3):
            response = await send(connections, port)
            connection = response._connection
            assert await read_all(response) == b"ok"
            await eventually(lambda: not connection.is_open)  # noqa: B023 - it is called at once


async def test_what_a_slow_reader_leaves_waits_at_the_server(connections: DirectConnections) -> None:
    size = 64 << 20
    sent = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n{}")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        piece = bytes(1 << 16)
        while sent < size:
            writer.write(piece)
            await writer.drain()
            sent += len(piece)

    async with serve_connections(serve) as port:
        response = await send(connections, port)
        connection = response._connection
        await eventually(lambda: connection._is_paused)
        assert connection._waiting_bytes < 2 << 20
        assert sent < size
        assert len(await read_all(response)) == size


async def test_closing_all_connections_ends_a_response(connections: DirectConnections) -> None:
    server = Server(CHUNKED, OK)
    async with serve_connections(server.serve) as port:
        response = await send(connections, port)
        reading = asyncio.create_task(response.read())
        await asyncio.sleep(0)
        await connections.aclose()
        with pytest.raises(BrokenHttpResponse):
            await reading


async def test_an_address_that_is_dead_does_not_hide_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as refusing:
        dead = refusing.getsockname()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        live = listening.getsockname()
        silent = asyncio.Event()
        connect = tcp_connect._connect_socket

        async def connect_unless_silent(family: int, address: object) -> socket.socket:
            if address == "silent":
                await silent.wait()
            return await connect(family, address)

        monkeypatch.setattr(tcp_connect, "_connect_socket", connect_unless_silent)
        for addresses in ([dead, live], ["silent", live], ["silent", dead, live], [live, dead]):
            _use_addresses(monkeypatch, addresses)
            (opened := await open_socket("host.example", 1)).close()
            assert opened.fileno() == -1
    _use_addresses(monkeypatch, [dead, dead])
    with pytest.raises(ConnectionRefusedError):
        await open_socket("host.example", 1)


def test_a_connection_needs_no_codec_for_international_names() -> None:
    program = """
import asyncio, socket, sys
from holdfast.models.tcp_connect import open_socket
with socket.create_server(("127.0.0.1", 0)) as listening:
    port = listening.getsockname()[1]
    for host in ("127.0.0.1", "localhost"):
        asyncio.run(open_socket(host, port)).close()
print("encodings.idna" in sys.modules)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"


def _use_addresses(monkeypatch: pytest.MonkeyPatch, addresses: list[object]) -> None:
    async def found(host: str, port: int) -> list[tuple[int, object]]:
        return [(socket.AF_INET, address) for address in addresses]

    monkeypatch.setattr(tcp_connect, "_addresses", found)


async def test_the_families_of_a_host_are_tried_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    async def getaddrinfo(host: str, port: int, **options: object) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        return [(family, 1, 6, "", (name, port)) for family, name in ((6, "a"), (6, "b"), (4, "c"))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    assert [address[0] for _, address in await tcp_connect._addresses("host.example", 1)] == ["a", "c", "b"]


async def test_a_server_that_does_not_answer_is_an_error(connections: DirectConnections) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closing:
        port = closing.getsockname()[1]
    with pytest.raises(CannotConnect, match="Errno"):
        await send(connections, port)


@pytest.mark.parametrize(
    ("url", "host_header", "target"),
    [
        ("http://localhost:8080/v1/chat", b"localhost:8080", b"/v1/chat"),
        ("https://api.example/v1?api-version=2&x=a/b", b"api.example", b"/v1?api-version=2&x=a/b"),
        ("http://[::1]:9/a b", b"[::1]:9", b"/a%20b"),
        ("https://api.example:443", b"api.example", b"/"),
        ("https://bücher.example/ü%20", b"xn--bcher-kva.example", b"/%C3%BC%20"),
    ],
)
def test_urls_are_sent_as_servers_expect_them(url: str, host_header: bytes, target: bytes) -> None:
    endpoint = parse_url(url)
    assert (endpoint.host_header, endpoint.target) == (host_header, target)


@pytest.mark.parametrize(
    "headers", [{"a": "b\r\nc: d"}, {"a b": "c"}, {"a\r\n": "b"}, {"a": "ü"}, {"a": "\0"}, {"": "x"}]
)
def test_no_header_can_add_another_line(headers: dict[str, str]) -> None:
    with pytest.raises(InvalidHttpRequest) as raised:
        request_head("POST", parse_url("http://a/"), headers, length=0)
    assert not str(raised.value).count("c: d")


@pytest.mark.parametrize("url", ["ftp://a/", "http:///x", "a/b"])
def test_other_addresses_cannot_be_requested(url: str) -> None:
    with pytest.raises(InvalidHttpRequest):
        parse_url(url)
