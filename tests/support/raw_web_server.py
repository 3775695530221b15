"""A web server on loopback that sends given bytes, also invalid responses."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

from tests.support.connections import serve_connections

Answer = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]


class ReceivedRequest(NamedTuple):
    path: str
    host: str
    headers: dict[str, str]
    body: bytes


class RawWebServer:
    """Raw responses by path. `requests` are the received requests in order."""

    def __init__(self, answers: dict[str, Answer]) -> None:
        self.answers = answers
        self.requests: list[ReceivedRequest] = []
        self.port = 0

    @asynccontextmanager
    async def running(
        self, host: str = "127.0.0.1", *, tls: ssl.SSLContext | None = None
    ) -> AsyncIterator["RawWebServer"]:
        async with serve_connections(self._serve, host=host, port=self.port, tls=tls) as self.port:
            yield self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *lines = head.strip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (part.partition(":") for part in lines)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        path = line.split(" ")[1]
        self.requests.append(ReceivedRequest(path, headers.get("host", ""), headers, body))
        answer = self.answers.get(path.partition("?")[0], page("no such page", status="404 Not Found"))
        if isinstance(answer, bytes):
            writer.write(answer)
            await writer.drain()
        else:
            await answer(writer)


def page(body: str | bytes, *, kind: str = "text/html; charset=utf-8", status: str = "200 OK", **headers: str) -> bytes:
    """Return a complete response."""
    data = body.encode() if isinstance(body, str) else body
    more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n{more}Connection: close\r\n\r\n"
    )
    return head.encode("latin-1") + data


def redirect(location: str, status: str = "302 Found") -> bytes:
    return page("", status=status, Location=location)
