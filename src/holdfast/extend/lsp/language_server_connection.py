"""The messages between Holdfast and one running language server.

A request is answered, times out, or fails when the connection ends; no caller waits without end. What the server asks
is answered at once, without waiting for anything. A server that floods the connection is stopped.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.extend.lsp.language_server_process import ServerProcess
from holdfast.extend.lsp.message_framing import FrameReader, LanguageServerError, ProtocolViolation, encode_message
from holdfast.extend.lsp.protocol_types import IncomingMessage, read_message

_READ_BYTES = 1 << 17
_THREAD_BYTES = 1 << 18
"""Messages from this size on are decoded in a thread."""
_FLOOD_SECONDS = 10.0
_FLOOD_BYTES = 256 << 20
_FLOOD_MESSAGES = 50_000
"""More than this within `_FLOOD_SECONDS` is a flood."""


class LanguageServerRefusal(LanguageServerError):
    """The server answered with an error."""

    def __init__(self, message: str, *, number: int) -> None:
        super().__init__(message)
        self.number = number
        """The code of the protocol."""


class LanguageServerTimeout(LanguageServerError):
    code = "language_server_timeout"


class ServerConnection:
    """A connection from its first message to its end."""

    def __init__(
        self,
        process: ServerProcess,
        *,
        name: str,
        on_notification: Callable[[str, msgspec.Raw], None],
        answer: Callable[[str, msgspec.Raw], Any],
    ) -> None:
        """``answer`` returns the result of a request of the server, and raises `KeyError` for an unknown one."""
        self._process = process
        self._name = name
        self._on_notification = on_notification
        self._answer = answer
        self._waiting: dict[int, asyncio.Future[msgspec.Raw]] = {}
        self._next_id = 1
        self._end_reason = ""
        self._reader = asyncio.create_task(self._read(), name=f"lsp:{name}")

    @property
    def pending(self) -> int:
        """How many requests wait for an answer."""
        return len(self._waiting)

    async def request(self, method: str, params: Any, *, seconds: float) -> msgspec.Raw:
        """Send a request and return its result. If the caller is cancelled, the server is told."""
        number, self._next_id = self._next_id, self._next_id + 1
        future: asyncio.Future[msgspec.Raw] = asyncio.get_running_loop().create_future()
        self._send({"id": number, "method": method, "params": params})
        self._waiting[number] = future
        try:
            async with asyncio.timeout(seconds):
                return await future
        except TimeoutError:
            self._cancel(number)
            raise LanguageServerTimeout(f"{self._name} did not answer {method!r} within {seconds:g} s") from None
        except asyncio.CancelledError:
            self._cancel(number)
            raise
        finally:
            self._waiting.pop(number, None)

    def notify(self, method: str, params: Any) -> None:
        self._send({"method": method, "params": params})

    async def wait_ended(self) -> str:
        """Wait until the connection has ended and its process is gone. Returns why, as a part of a sentence."""
        await asyncio.shield(self._reader)
        return self._end_reason

    async def close(self) -> None:
        """Kill the server, and return when it has ended."""
        await self._process.kill()
        await self.wait_ended()

    def _cancel(self, number: int) -> None:
        if not self._reader.done():
            self._process.write(encode_message({"method": "$/cancelRequest", "params": {"id": number}}))

    def _send(self, message: dict[str, Any]) -> None:
        if self._reader.done():
            raise LanguageServerError(f"{self._name} does not run: {self._end_reason}")
        if not self._process.write(encode_message(message)):
            raise LanguageServerError(f"{self._name} does not read what it is sent")

    async def _read(self) -> None:
        try:
            self._end_reason = await self._read_messages()
        except ProtocolViolation as error:
            self._end_reason = error.message
        await self._process.kill()
        if not self._end_reason:
            code = self._process.exit_code
            self._end_reason = "it was killed" if code is None else f"it exited with code {code}"
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(LanguageServerError(f"{self._name} does not run: {self._end_reason}"))

    async def _read_messages(self) -> str:
        """Read until the end. Returns why the server must be stopped; empty if it ended."""
        frames = FrameReader()
        began, size, count = time.monotonic(), 0, 0
        while data := await self._process.reader.read(_READ_BYTES):
            now = time.monotonic()
            if now - began > _FLOOD_SECONDS:
                began, size, count = now, 0, 0
            bodies = frames.feed(data)
            size, count = size + len(data), count + len(bodies)
            if size > _FLOOD_BYTES or count > _FLOOD_MESSAGES:
                return f"it sent {count:,} messages with {size:,} bytes within {now - began:.0f} s"
            for body in bodies:
                if len(body) < _THREAD_BYTES:
                    self._handle(read_message(body))
                else:
                    self._handle(await asyncio.to_thread(read_message, body))
            await asyncio.sleep(0)  # a flood must not keep the event loop
        return ""

    def _handle(self, message: IncomingMessage) -> None:
        if message.method is None:
            self._resolve(message)
        elif message.id is None:
            self._on_notification(message.method, message.params)
        else:
            reply: dict[str, Any] = {"id": message.id}
            try:
                reply["result"] = self._answer(message.method, message.params)
            except KeyError:
                reply["error"] = {"code": -32601, "message": "not supported"}
            except LanguageServerError as error:
                reply["error"] = {"code": -32602, "message": error.message}
            self._process.write(encode_message(reply))

    def _resolve(self, message: IncomingMessage) -> None:
        future = self._waiting.get(message.id) if isinstance(message.id, int) else None
        if future is None or future.done():
            return
        if message.error is not None:
            what = message.error.message[:500] or f"error {message.error.code}"
            future.set_exception(LanguageServerRefusal(f"{self._name}: {what}", number=message.error.code))
        elif isinstance(message.result, msgspec.Raw):
            future.set_result(message.result)
        else:
            future.set_exception(LanguageServerError(f"{self._name} sent an answer without a result"))
