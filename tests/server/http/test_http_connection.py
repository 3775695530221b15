"""Connections that send too much, too slowly, or no HTTP at all."""

import asyncio
import socket
from pathlib import Path

import msgspec
import pytest

from holdfast.server import ServerLimits
from holdfast.server.http.http_connection import HttpConnection
from holdfast.server.routes.runs import MAX_PROMPT_BYTES
from tests.support.http_client import read_answer
from tests.support.running_server import RunningServer, run_server, until

QUICK = ServerLimits(head_bytes=4096, head_seconds=0.05, body_seconds=0.05)
"""Bounds that a test reaches; what is asserted is that they are reached, not when."""


def code(raw: bytes) -> str:
    found: str = msgspec.json.decode(raw.partition(b"\r\n\r\n")[2])["error"]["code"]
    return found


@pytest.mark.promise("W9")
async def test_bytes_that_are_not_http_get_a_400_with_an_error_body(home: Path) -> None:
    async with run_server(home) as server:
        for sent in (
            b"nonsense\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"GET /v1/health HTTP/1.1\r\nbad header\r\n\r\n",
            b"POST /v1/workspaces HTTP/1.1\r\nContent-Length: nine\r\n\r\n",
            b"POST /v1/workspaces HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            b"GET \xff HTTP/1.1\r\n\r\n",
        ):
            answer = await server.http.raw(sent)
            assert answer.startswith(b"HTTP/1.1 400 "), sent
            assert code(answer) in ("invalid_http", "invalid_request")
        assert (await server.http.get("/v1/health")).status == 200


async def test_a_head_that_is_too_large_is_refused_whether_it_ends_or_not(home: Path) -> None:
    limits = msgspec.structs.replace(QUICK, head_seconds=60)
    async with run_server(home, limits=limits) as server:
        for head in (
            b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 5000 + b"\r\n\r\n",
            b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 1000 + b"\r\n",
            b"GET /v1/health HTTP/1.1\r\nX: " + b"y" * 5000,
            b"GET /" + b"y" * 5000,
        ):
            answer = await server.http.raw(head)
            assert answer.startswith(b"HTTP/1.1 431 ")
            assert code(answer) == "too_large"


@pytest.mark.parametrize(
    "begun", [b"GET /v1/health HT", b"POST /v1/workspaces HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"]
)
async def test_an_incomplete_request_times_out(home: Path, begun: bytes) -> None:
    async with run_server(home, limits=QUICK) as server:
        answer = await server.http.raw(begun)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert code(answer) == "too_slow"


async def test_a_silent_connection_is_closed_without_a_response(home: Path) -> None:
    async with run_server(home, limits=QUICK) as server:
        assert await server.http.raw(b"") == b""


async def test_a_long_response_does_not_time_out(home: Path) -> None:
    async with run_server(home, limits=QUICK) as server, server.http.stream("/v1/events") as stream:
        await stream.data()
        run = await server.prompt(await server.session())
        await server.ended(run["run"]["id"])
        server.app.hub.send_heartbeat()
        await stream.until("heartbeat")


async def test_requests_one_after_the_other_and_ahead_of_their_answers_share_a_connection(home: Path) -> None:
    async with run_server(home) as server:
        reader, writer = await server.http.connect()
        one = server.http.head("GET", "/v1/health", {})
        for _ in range(2):
            writer.write(one)
            assert (await read_answer(reader)).status == 200
        writer.write(one + one + one)
        assert [(await read_answer(reader)).status for _ in range(3)] == [200] * 3
        writer.close()


@pytest.mark.promise("W9")
async def test_a_body_that_is_too_large_is_refused_with_or_without_a_length(home: Path) -> None:
    async with run_server(home) as server:
        session_id = await server.session()
        target = f"/v1/sessions/{session_id}/cancel"
        over = b'{"scope": "' + b"x" * 300_000 + b'"}'
        answer = await server.http.send("POST", target, body=over)
        assert (answer.status, answer.code) == (413, "too_large")
        declared = await server.http.raw(
            server.http.head("POST", target, {"Content-Length": str(10 * MAX_PROMPT_BYTES), "Expect": "100-continue"})
        )
        assert declared.startswith(b"HTTP/1.1 413 ")
        chunks = b"".join(b"8000\r\n" + b"x" * 0x8000 + b"\r\n" for _ in range(20)) + b"0\r\n\r\n"
        head = server.http.head("POST", target, {"Transfer-Encoding": "chunked", "Connection": "close"})
        assert (await server.http.raw(head + chunks)).startswith(b"HTTP/1.1 413 ")


async def test_a_large_prompt_is_accepted(home: Path) -> None:
    async with run_server(home) as server:
        text = "x" * (2 << 20)
        attached = {"name": "a", "media_type": "text/plain", "text": text}
        run = await server.prompt(await server.session(), attachments=[attached])
        assert run["run"]["attachments"][0]["text"] == text
        await server.ended(run["run"]["id"])


async def test_a_disconnect_within_a_body_changes_nothing(home: Path) -> None:
    async with run_server(home) as server:
        _, writer = await server.http.connect()
        writer.write(server.http.head("POST", "/v1/workspaces", {"Content-Length": "100"}) + b'{"path"')
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        await asyncio.sleep(0)
        assert len((await server.http.get("/v1/workspaces")).ok()["items"]) == 1


async def _never_read(server: RunningServer) -> socket.socket:
    """Open a stream and read nothing, while a run sends more than all buffers hold."""
    path = str(server.app.shared.locations.socket)
    connection = socket.socket(socket.AF_UNIX)
    connection.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(connection, path)
    await loop.sock_sendall(connection, b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await until(lambda: server.app.services.presence.streams > 0)
    session_id = await server.session()
    for _ in range(8):
        run = await server.prompt(session_id, "x" * 900_000)
        await server.ended(run["run"]["id"])
    return connection


@pytest.mark.promise("E4")
async def test_a_client_that_never_reads_loses_its_stream(home: Path) -> None:
    limits = ServerLimits(unread_seconds=1)  # long enough for the clients that read, on a busy machine
    async with run_server(home, limits=limits) as server:
        connection = await _never_read(server)
        await until(lambda: server.app.services.presence.streams == 0)
        connection.close()


@pytest.mark.promise("W5")
async def test_a_stop_does_not_wait_for_a_client_that_never_reads_and_logs_no_error(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with run_server(home, limits=ServerLimits(stop_seconds=50)) as server:
        connection = await _never_read(server)
        server.stop()
        await server.serving  # the time-out of this test is shorter than `stop_seconds` and the next wait
        connection.close()
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


@pytest.mark.promise("W9")
async def test_a_connection_that_would_take_a_reserved_descriptor_gets_503(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with run_server(home) as server:
        monkeypatch.setattr(HttpConnection, "_takes_reserved_descriptor", lambda *_: True)
        answer = await server.http.raw(b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert code(answer) == "no_descriptors"
