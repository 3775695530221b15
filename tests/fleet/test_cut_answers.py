"""A request that was forwarded to a server which ends in the middle of its answer is answered by the next owner."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import anyio._backends._asyncio  # noqa: F401 - as the next one
import httpx2  # noqa: F401 - imported by every server before its first forwarded request, and not on the event loop
import pytest

from holdfast.errors import WorkspaceElsewhere
from holdfast.fleet import fleet_router
from holdfast.fleet.fleet_member import FleetMember
from holdfast.fleet.fleet_router import FleetRouter
from holdfast.fleet.request_places import Forward, Handle, RequestPlace
from holdfast.server.http.error_boundary import ErrorBoundary
from holdfast.server.http.request_parsing import HEADERS, Receive
from holdfast.server.http.responses import Scope, Send
from holdfast.store.postgres.lease_table import KnownServer

_PEER, _HERE = b'{"from":"the other server"}', b'{"from":"here"}'
_OTHER = b'{"error":{"code":"workspace_elsewhere","message":""}}'


def _answer(status: bytes, body: bytes) -> bytes:
    head = b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (status, len(body))
    return head + body


def _in_chunks(*chunks: bytes) -> bytes:
    pieces = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    return b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n" + pieces + b"0\r\n\r\n"


class CutPeer:
    """Sends so many bytes of an answer to each request, and then closes or resets the connection."""

    def __init__(self, answer: bytes, *, resets: bool) -> None:
        self._answer = answer
        self._resets = resets
        self.bytes = 0
        self.requests = 0

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        self.requests += 1
        writer.write(self._answer[: self.bytes])
        await writer.drain()
        if self._resets and self.bytes < len(self._answer):
            connection = writer.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        writer.close()


class ReplacedMember(FleetMember):
    """Another server owns the workspace until it has not answered. Then this one does."""

    def __init__(self, address: str) -> None:
        peer = KnownServer("srv_peer", "there", address, "", 3.0, dead=False, info={})
        keeper: Any = SimpleNamespace(servers={"srv_peer": peer}, host_id="here", look=None, fence=lambda _: 1)
        keeper.kind = lambda _: "owner"
        super().__init__(keeper, token="a-token-that-all-servers-share")
        self.is_replaced = False

    async def place(self, workspace_id: str, *, mutates: bool, forwarded: bool) -> RequestPlace:
        return Handle() if self.is_replaced else Forward("srv_peer")

    def forget_place(self, workspace_id: str) -> None:
        self.is_replaced = True

    def new_key(self) -> bytes:
        return b"key"

    async def aclose(self) -> None:
        assert self._connections is not None
        await self._connections.aclose()


async def _here(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": _HERE})


async def _ask(member: ReplacedMember, method: str) -> tuple[int, bytes, bool]:
    """The status and body that the client gets, and whether the body is complete."""
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    app = ErrorBoundary(FleetRouter(_here, member), is_stopping=lambda: False, redact=lambda body: body)
    path = "/v1/workspaces/wsp_1/sessions"
    member.is_replaced = False
    try:
        await app({"type": "http", "method": method, "path": path, "query_string": b"", HEADERS: {}}, receive, send)
    except ConnectionAbortedError:
        pass
    start, *rest = sent
    assert [message["type"] for message in rest] == ["http.response.body"] * len(rest)
    body = b"".join(message["body"] for message in rest)
    return start["status"], body, not rest[-1].get("more_body", False)


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_router, "_PAUSE_SECONDS", 0.0)


@pytest.mark.promise("W16", "R1")
@pytest.mark.parametrize(
    ("method", "status", "resets"),
    [("POST", b"202 Accepted", False), ("POST", b"200 OK", True), ("GET", b"200 OK", False), ("POST", b"503 No", True)],
)
async def test_an_answer_that_is_cut_after_any_byte_is_given_by_the_next_owner(
    method: str, status: bytes, resets: bool
) -> None:
    answer = _answer(status, _OTHER if status.startswith(b"503") else _PEER)
    peer = CutPeer(answer, resets=resets)
    async with peer.listening() as address:
        member = ReplacedMember(address)
        for peer.bytes in range(len(answer)):
            assert await _ask(member, method) == (200, _HERE, True), f"cut after {peer.bytes} bytes"
        peer.bytes = len(answer)
        whole = (200, _HERE, True) if status.startswith(b"503") else (int(status[:3]), _PEER, True)
        assert await _ask(member, method) == whole
        await member.aclose()
    assert peer.requests == len(answer) + 1


@pytest.mark.promise("W16")
@pytest.mark.parametrize("resets", [False, True])
async def test_a_long_answer_that_is_cut_after_it_has_begun_does_not_look_complete(
    resets: bool, caplog: pytest.LogCaptureFixture
) -> None:
    answer = _in_chunks(b"one ", b"two ", b"three")
    peer = CutPeer(answer, resets=resets)
    begun = 0
    async with peer.listening() as address:
        member = ReplacedMember(address)
        for peer.bytes in range(len(answer) + 1):
            status, body, is_complete = await _ask(member, "GET")
            assert status == 200
            if body == _HERE:
                assert is_complete
            else:
                assert b"one two three".startswith(body)
                assert is_complete == (peer.bytes == len(answer)), f"cut after {peer.bytes} bytes"
                begun += 1
        await member.aclose()
    assert begun >= len(b"two three") or resets  # a reset may discard what was not read yet
    assert caplog.records == []  # a server that ends is no bug of this one


async def test_an_owner_that_cannot_be_reached_is_a_503_that_says_when_to_try_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fleet_router, "ROUTE_SECONDS", 0.0)
    heads: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        heads.append(message)

    member = ReplacedMember("http://127.0.0.1:1")
    app = ErrorBoundary(FleetRouter(_here, member), is_stopping=lambda: False, redact=lambda body: body)
    path = "/v1/sessions/ses_1/runs"
    member._workspaces[fleet_router.request_target(path)] = "wsp_1"  # type: ignore[index]
    await app({"type": "http", "method": "POST", "path": path, "query_string": b"", HEADERS: {}}, receive, send)
    head, body = heads
    assert head["status"] == WorkspaceElsewhere.status
    assert (b"retry-after", b"2") in head["headers"]
    assert b'"workspace_elsewhere"' in body["body"]
