"""The test provider: a real HTTP server on loopback that answers on all four wires as its script says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, Self

import msgspec

from holdfast.testing import provider_wires
from holdfast.testing.connection_server import ConnectionServer
from holdfast.testing.provider_script import Answer, Gate, Hang, WireName, text

Responder = Callable[["ReceivedRequest"], Answer]

_MAX_HEADER_BYTES = 1 << 20


class ReceivedRequest(msgspec.Struct, frozen=True):
    """A request that the provider received."""

    number: int
    wire: WireName
    path: str
    headers: dict[str, str]
    body: Any
    model: str


class TestProvider:
    """``async with TestProvider([text("hello")]) as provider: … provider.url("anthropic")``

    Answers are used in order, then ``fallback`` is repeated. A callable instead of a list chooses each answer.
    """

    __test__ = False  # for pytest: not a test class

    def __init__(self, answers: list[Answer] | Responder | None = None, *, fallback: Answer | None = None) -> None:
        self._respond: Responder | None = answers if callable(answers) else None
        self._answers: list[Answer] = [] if callable(answers) or answers is None else list(answers)
        self._fallback = fallback or text("The script has ended.")
        self._gates: dict[str, asyncio.Event] = {}
        self._server = ConnectionServer(self._serve, limit=_MAX_HEADER_BYTES)
        self._changed = asyncio.Condition()
        self.models: tuple[str, ...] = ("test-model",)
        self.requests: list[ReceivedRequest] = []
        self.disconnects: list[int] = []
        """The numbers of requests whose client disconnected before the answer was complete."""
        self.finished: list[int] = []

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    async def start(self, port: int = 0) -> Self:
        await self._server.start(port=port)
        return self

    async def stop(self) -> None:
        await self._server.stop()

    @property
    def port(self) -> int:
        return self._server.port

    def url(self, wire: WireName = "openai-chat") -> str:
        """The base URL of a wire."""
        return f"http://127.0.0.1:{self.port}/" + ("v1beta" if wire == "gemini" else "v1")

    def script(self, *answers: Answer) -> None:
        """Add answers to the script."""
        self._answers.extend(answers)

    def open(self, gate: str) -> None:
        """Open a gate for the answers that wait at it now or later."""
        self._gate(gate).set()

    async def wait_for_requests(self, count: int) -> list[ReceivedRequest]:
        """Wait until this many requests were received."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.requests) >= count)
        return self.requests

    async def wait_for_disconnect(self, number: int) -> None:
        """Wait until the client of a request (0 is the first) disconnects before the end of its answer."""
        async with self._changed:
            await self._changed.wait_for(lambda: number in self.disconnects)

    def _gate(self, name: str) -> asyncio.Event:
        return self._gates.setdefault(name, asyncio.Event())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await self._exchange(reader, writer):
            pass

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request. Returns whether the connection can be used again."""
        head = await reader.readuntil(b"\r\n\r\n")
        method, path, headers = _parse_headers(head)
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        if method == "GET":
            return await self._list_models(path, writer)
        received = self._receive(path, headers, body)
        self.requests.append(received)  # before any await, because its number is its index
        async with self._changed:
            self._changed.notify_all()
        answer = self._answer(received)
        return await self._send_and_watch(received, answer, reader, writer)

    def _receive(self, path: str, headers: dict[str, str], body: bytes) -> ReceivedRequest:
        wire = _wire_of(path)
        content = json.loads(body) if body else None
        model = path.rsplit("/", 1)[-1].split(":")[0] if wire == "gemini" else str((content or {}).get("model"))
        return ReceivedRequest(len(self.requests), wire, path, headers, content, model)

    def _answer(self, received: ReceivedRequest) -> Answer:
        if self._respond:
            return self._respond(received)
        return self._answers.pop(0) if self._answers else self._fallback

    async def _send_and_watch(
        self, received: ReceivedRequest, answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Send the answer and record whether the client disconnects before its end."""
        sending = asyncio.create_task(self._send(received, answer, writer), name=f"answer:{received.number}")
        disconnect = asyncio.create_task(reader.read(1), name=f"watch:{received.number}")
        try:
            await asyncio.wait({sending, disconnect}, return_when=asyncio.FIRST_COMPLETED)
            complete = sending.done() and not sending.cancelled() and sending.exception() is None
            async with self._changed:
                (self.finished if complete else self.disconnects).append(received.number)
                self._changed.notify_all()
            return False  # the watcher may have read a byte of the next request
        finally:
            for task in (sending, disconnect):
                task.cancel()
            await asyncio.gather(sending, disconnect, return_exceptions=True)

    async def _send(self, received: ReceivedRequest, answer: Answer, writer: asyncio.StreamWriter) -> None:
        if answer.hang_first:
            await asyncio.Event().wait()
        if answer.delay:
            await asyncio.sleep(answer.delay)
        streaming = answer.status == 200 and answer.body is None
        kind = answer.content_type or ("text/event-stream" if streaming else "application/json")
        headers = {"Content-Type": kind, "Connection": "close", **answer.headers}
        if streaming:
            headers["Transfer-Encoding"] = "chunked"
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"HTTP/1.1 {answer.status} Scripted\r\n{lines}\r\n".encode())
        if streaming:
            await self._stream(received, answer, writer)
            return
        body = answer.body
        if body is None:
            body = json.dumps(answer.error or provider_wires.error_body(received.wire, answer.status)).encode()
        writer.write(body)
        await writer.drain()

    async def _stream(self, received: ReceivedRequest, answer: Answer, writer: asyncio.StreamWriter) -> None:
        body = _ChunkedBody(writer, split=answer.split, drop_after=answer.drop_after)
        for item in provider_wires.events(received.wire, answer, model=received.model):
            match item:
                case Hang():
                    await asyncio.Event().wait()
                case Gate(name=name):
                    await self._gate(name).wait()
                case bytes():
                    if not await body.write(item):
                        return
                    if answer.pace:
                        await asyncio.sleep(answer.pace)
        while answer.endless_line:
            await body.write(b"data: " + b"x" * 65536)
        await body.end()

    async def _list_models(self, path: str, writer: asyncio.StreamWriter) -> bool:
        if path.endswith("/api/tags"):
            body: dict[str, Any] = {"models": [{"name": name} for name in self.models]}
        else:
            body = {"object": "list", "data": [{"id": name, "object": "model"} for name in self.models]}
        data = json.dumps(body).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n")
        writer.write(f"Content-Length: {len(data)}\r\n\r\n".encode() + data)
        await writer.drain()
        return False


class _ChunkedBody:
    """Writes a chunked body: one event at a time, in small pieces, or only its beginning."""

    def __init__(self, writer: asyncio.StreamWriter, *, split: int, drop_after: int | None) -> None:
        self._writer = writer
        self._split = split
        self._left = drop_after
        self._held = b""

    async def write(self, data: bytes) -> bool:
        """Write data. Returns False when the connection must be dropped."""
        if self._left is not None:
            data, self._left = data[: self._left], self._left - len(data)
        self._held += data
        step = self._split or len(self._held)
        while self._held and len(self._held) >= step:
            await self._put(self._held[:step])
            self._held = self._held[step:]
        if self._left is not None and self._left < 0:
            await self._put(self._held)
            return False
        return True

    async def end(self) -> None:
        await self._put(self._held)
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    async def _put(self, data: bytes) -> None:
        if data:
            self._writer.write(b"%x\r\n%b\r\n" % (len(data), data))
            await self._writer.drain()
        if self._split:
            await asyncio.sleep(0)


def _parse_headers(head: bytes) -> tuple[str, str, dict[str, str]]:
    request, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = request.split(" ", 2)
    headers = {}
    for line in lines:
        name, found, value = line.partition(":")
        if found:
            headers[name.strip().lower()] = value.strip()
    return method, path, headers


def _wire_of(path: str) -> WireName:
    plain = path.split("?")[0]
    if plain.endswith("/chat/completions"):
        return "openai-chat"
    if plain.endswith("/responses"):
        return "openai-responses"
    if plain.endswith("/messages"):
        return "anthropic"
    return "gemini"
