"""A plain HTTP client for tests: one connection per request, without code of Holdfast's clients."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self

import msgspec

from holdfast.schema.sse_parser import SseEvent, SseParser


class Answer(msgspec.Struct, frozen=True):
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The error code."""
        code: str = self.json()["error"]["code"]
        return code

    def ok(self, status: int = 200) -> Any:
        """Check the status and return the JSON value."""
        assert self.status == status, f"{self.status}: {self.body[:2000]!r}"
        return self.json()


class Stream:
    """An open event stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, headers: dict[str, str]) -> None:
        self._reader = reader
        self._writer = writer
        self._parser = SseParser()
        self._waiting: list[SseEvent] = []
        self.headers = headers
        self.last_id = ""

    async def next(self) -> SseEvent | None:
        """Return the next event, or ``None`` at the end of the stream."""
        while not self._waiting:
            size = int(await self._reader.readline() or b"0", 16)
            if size == 0:
                return None
            self._waiting = self._parser.feed(await self._reader.readexactly(size))
            await self._reader.readexactly(2)
        event = self._waiting.pop(0)
        self.last_id = event.id
        return event

    async def data(self) -> dict[str, Any]:
        event = await self.next()
        assert event is not None, "the stream has ended"
        found: dict[str, Any] = json.loads(event.data)
        return found

    async def until(self, kind: str) -> dict[str, Any]:
        """Return the data of the next event of this kind."""
        while True:
            data = await self.data()
            if data["kind"] == kind:
                return data

    async def rest(self) -> list[dict[str, Any]]:
        """Return the data of all events until the stream ends."""
        found = []
        while (event := await self.next()) is not None:
            found.append(json.loads(event.data))
        return found

    @property
    def retry(self) -> int | None:
        return self._parser.retry

    async def close(self) -> None:
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except ConnectionError:
            pass


class HttpClient:
    """Connects to a Unix socket or to a host and port."""

    def __init__(self, address: str | tuple[str, int], *, token: str | None = None, client: str | None = None) -> None:
        self._address = address
        self.port = 0 if isinstance(address, str) else address[1]
        self._headers: dict[str, str] = {"Host": "localhost"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        if client is not None:
            self._headers["X-Holdfast-Client"] = client

    def named(self, client: str) -> Self:
        other = type(self)(self._address)
        other._headers = {**self._headers, "X-Holdfast-Client": client}
        return other

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self._address, str):
            return await asyncio.open_unix_connection(self._address)
        return await asyncio.open_connection(*self._address)

    def head(self, method: str, target: str, headers: Mapping[str, str | None]) -> bytes:
        lines = {**self._headers, **headers}
        shown = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value is not None)
        return f"{method} {target} HTTP/1.1\r\n{shown}\r\n".encode("latin-1")

    async def raw(self, sent: bytes) -> bytes:
        """Send bytes and return everything until the server closes the connection."""
        reader, writer = await self.connect()
        try:
            writer.write(sent)
            await writer.drain()
            return await reader.read()
        finally:
            writer.close()

    async def send(
        self, method: str, target: str, value: Any = None, *, body: bytes | None = None, **headers: str | None
    ) -> Answer:
        if value is not None:
            body = json.dumps(value).encode()
        given: dict[str, str | None] = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            given = {"Content-Type": "application/json", "Content-Length": str(len(body)), **given}
        reader, writer = await self.connect()
        try:
            writer.write(self.head(method, target, {"Connection": "close", **given}) + (body or b""))
            await writer.drain()
            return await read_answer(reader, method=method)
        finally:
            writer.close()

    async def get(self, target: str, **headers: str | None) -> Answer:
        return await self.send("GET", target, **headers)

    async def post(self, target: str, value: Any = None, **headers: str | None) -> Answer:
        return await self.send("POST", target, value, **headers)

    @asynccontextmanager
    async def stream(self, target: str, **headers: str | None) -> AsyncIterator[Stream]:
        stream = await self.open_stream(target, **headers)
        try:
            yield stream
        finally:
            await stream.close()

    async def open_stream(self, target: str, **headers: str | None) -> Stream:
        reader, writer = await self.connect()
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        writer.write(self.head("GET", target, given))
        status, found = await _read_head(reader)
        if status != 200:
            answer = Answer(status, found, await _read_rest(reader, found))
            writer.close()
            raise Refused(answer)
        return Stream(reader, writer, found)


class Refused(Exception):
    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.body)
        self.answer = answer


async def read_answer(reader: asyncio.StreamReader, *, method: str = "GET") -> Answer:
    status, headers = await _read_head(reader)
    if status == 100:
        status, headers = await _read_head(reader)
    body = b"" if method == "HEAD" else await _read_rest(reader, headers)
    return Answer(status, headers, body)


async def _read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}
    return int(first.split(" ")[1]), headers


async def _read_rest(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if "content-length" in headers:
        return await reader.readexactly(int(headers["content-length"]))
    pieces = []
    while size := int(await reader.readline() or b"0", 16):
        pieces.append(await reader.readexactly(size))
        await reader.readexactly(2)
    return b"".join(pieces)
