"""HTTP servers that misbehave: too much, too little, or nothing."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.errors import ToolError
from tests.support.connections import serve_connections
from tests.support.mcp_peers import QUICK, open_server

_RESULTS: dict[str, Any] = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "http", "version": "1"},
    },
    "tools/list": {"tools": [{"name": "say", "inputSchema": {"type": "object"}}]},
}


class HttpPeer:
    """Answers the handshake, and calls as it is told."""

    def __init__(self) -> None:
        self.behaviour = ""
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        method = (await reader.readline()).split(b" ")[0]
        length = 0
        while line := (await reader.readline()).strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        request = json.loads(await reader.readexactly(length) or b"{}")
        await self._answer(method, request, writer)
        await writer.drain()

    async def _answer(self, method: bytes, request: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if method != b"POST" or self.behaviour == "refuses":
            writer.write(b"HTTP/1.1 503 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        elif request.get("method") in _RESULTS:
            result = {"jsonrpc": "2.0", "id": request["id"], "result": _RESULTS[request["method"]]}
            _write(writer, "application/json", json.dumps(result).encode())
        elif request.get("method") != "tools/call":
            writer.write(b"HTTP/1.1 202 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        elif self.behaviour == "rubbish":
            _write(writer, "application/json", b"rubbish")
        elif self.behaviour == "compressed":
            writer.write(b"HTTP/1.1 200 X\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n\r\nxx")
        else:
            kind = "text/event-stream" if self.behaviour == "huge events" else "application/json"
            start = b"data: " if self.behaviour == "huge events" else b'{"a": "'
            writer.write(f"HTTP/1.1 200 X\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n".encode() + start)
            for _ in range(100):
                writer.write(b"x" * (1 << 20))
                await writer.drain()


def _write(writer: asyncio.StreamWriter, kind: str, body: bytes) -> None:
    head = f"HTTP/1.1 200 X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode() + body)


@asynccontextmanager
async def open_peer() -> AsyncIterator[HttpPeer]:
    peer = HttpPeer()
    async with serve_connections(peer.serve) as port:
        peer.url = f"http://127.0.0.1:{port}/mcp"
        yield peer


@pytest.mark.parametrize("behaviour", ["huge", "huge events", "rubbish", "compressed"])
async def test_an_answer_that_is_too_large_or_rubbish_is_an_error_of_the_call(tmp_path: Path, behaviour: str) -> None:
    async with open_peer() as peer, open_server(tmp_path, url=peer.url, transport="http") as probe:
        assert probe.server.status.state == "ready", probe.server.status
        peer.behaviour = behaviour
        with pytest.raises(ToolError):
            await probe.call("say")


async def test_a_server_that_refuses_or_is_not_there_fails_with_a_reason(tmp_path: Path) -> None:
    once = replace(QUICK, first_attempts=1)
    async with open_peer() as peer:
        peer.behaviour = "refuses"
        async with open_server(tmp_path, url=peer.url, transport="http", times=once) as probe:
            assert probe.server.status.state == "failed"
            assert probe.server.status.detail
    async with open_server(tmp_path, url="http://127.0.0.1:9/mcp", times=once) as probe:
        assert probe.server.status.state == "failed"
        assert probe.server.status.detail
