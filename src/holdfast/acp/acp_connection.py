"""The JSON-RPC connection with an editor: one message per line, on two file descriptors.

The protocol's library matches requests and responses. This module reads and writes the lines, so that nothing an editor
sends ends the connection: rubbish, messages of the wrong shape and messages that are too large are answered with an
error. Reading and writing happen in two threads, because stdin and stdout may be anything. They never keep the process
alive.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import queue
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, TypeAlias

import msgspec

from holdfast.acp.tool_updates import JsonObject
from holdfast.schema.base import repair_text

_logger = logging.getLogger(__name__)

LARGEST_MESSAGE = 64 << 20
_CHUNK = 1 << 16
_CHUNKS_AHEAD = 16
_MOST_WAITING = 10_000
"""Messages without a waiting sender. An editor that sends rubbish and reads nothing gets no more answers than this."""
_MOST_UNFINISHED = 1000
"""Messages that are being handled or whose answer is not written. Beyond it, nothing more is read from the editor."""
_LAST_WRITES_SECONDS = 1.0
"""How long an editor may take to read what was said last."""
_STUCK_SECONDS = 30.0
"""An editor that sent so much and reads no answer for so long is taken as gone."""
_PARSE_ERROR, _INVALID_REQUEST = -32700, -32600
CANCEL_REQUEST = "$/cancel_request"
"""The notification that a request needs no response any more. Either side may send it."""
PROMPT = "session/prompt"
"""Its response comes when the run ends, which may need another message, as a cancel."""

RequestId: TypeAlias = int | str | None
MethodHandler: TypeAlias = Callable[[str, Any, bool], Awaitable[Any]]

request_id: ContextVar[RequestId] = ContextVar("acp_request_id", default=None)
"""The id of the request that a handler handles."""


class EditorGone(ConnectionError):
    """The editor closed the connection."""


class AcpConnection:
    """Calls ``handler(method, params, is_notification)`` for what the editor sends, each call in its own task."""

    def __init__(self, handler: MethodHandler, *, reads: int, writes: int) -> None:
        from acp.connection import Connection

        self._transport = LineTransport(reads=reads, writes=writes)
        self._handler = handler
        self._connection = Connection(self._handle, self._transport, listening=False)

    async def listen(self) -> None:
        """Handle messages until the editor closes its side."""
        self._transport.start()
        await self._connection.main_loop()

    async def _handle(self, method: str, params: Any, is_notification: bool) -> Any:  # noqa: FBT001 - the library's form
        try:
            return await self._handler(method, params, is_notification)
        finally:
            if method != PROMPT:
                self._transport.unfinished.remove()

    async def request(self, method: str, params: JsonObject) -> Any:
        """Ask the editor. If the caller is cancelled, the editor is told that no answer is needed."""
        try:
            return await self._connection.send_request(method, params)
        except asyncio.CancelledError:
            sent = self._transport.take_id(params)
            if sent is not None:
                self._transport.send_soon(_notification(CANCEL_REQUEST, {"requestId": sent}))
            raise
        finally:
            self._transport.take_id(params)

    async def notify(self, method: str, params: JsonObject) -> None:
        await self._connection.send_notification(method, params)

    def after_sending(self, result: JsonObject, do: Callable[[], None]) -> None:
        """Call ``do`` when the response with this result is on its way, so that what follows comes after it."""
        self._transport.after_sending(result, do)

    async def answered(self) -> None:
        """Wait until the answers to all requests but prompts are written."""
        await self._transport.unfinished.none_left()

    async def close(self) -> None:
        await self._connection.close()


class LineTransport:
    """A `Transport` of the library: messages as lines."""

    def __init__(self, *, reads: int, writes: int) -> None:
        self._reads = reads
        self._writes = writes
        self._loop = asyncio.get_running_loop()
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue(_CHUNKS_AHEAD)
        self._lines = LineSplitter(LARGEST_MESSAGE)
        self._messages: list[JsonObject] = []
        self._has_ended = False
        """Whether the editor has closed its side. Its last line may be a message without an end."""
        self._outgoing: queue.SimpleQueue[tuple[bytes, asyncio.Future[None] | None] | None] = queue.SimpleQueue()
        self._ids: dict[int, RequestId] = {}
        """The ids of requests to the editor, by the identity of their parameters."""
        self._after: dict[int, Callable[[], None]] = {}
        self._is_closed = False
        self._writer: threading.Thread | None = None
        self.unfinished = UnfinishedWork(_MOST_UNFINISHED)

    def start(self) -> None:
        threading.Thread(target=self._read, name="acp:stdin", daemon=True).start()
        self._writer = threading.Thread(target=self._write, name="acp:stdout", daemon=True)
        self._writer.start()

    async def receive(self) -> JsonObject | None:
        while not self._messages:
            if self._has_ended or (self._is_closed and self._chunks.empty()):
                return None
            chunk = await self._chunks.get()
            self._has_ended = not chunk
            for line in self._lines.feed(chunk):
                self._take(line)
        try:
            await self.unfinished.has_room(seconds=_STUCK_SECONDS)
        except TimeoutError:
            _logger.warning("the editor sent %d messages and reads no answers; it is left", _MOST_UNFINISHED)
            return None
        message = self._messages.pop(0)
        if message.get("method") not in (None, PROMPT):
            self.unfinished.add()
        request_id.set(message.get("id"))
        return message

    async def send(self, message: JsonObject) -> None:
        """Raises `EditorGone`, except for a response: nobody waits for it any more."""
        try:
            await self._send(message)
        except EditorGone:
            if "method" in message:
                raise

    async def _send(self, message: JsonObject) -> None:
        if self._is_closed:
            raise EditorGone("the editor closed the connection")
        if "method" in message and "id" in message:
            self._ids[id(message["params"])] = message["id"]
        done: asyncio.Future[None] = self._loop.create_future()
        self._outgoing.put((_encode(message), done))
        if (result := message.get("result")) is not None and (then := self._after.pop(id(result), None)):
            then()
        self.unfinished.add()
        try:
            await done
        finally:
            self.unfinished.remove()

    def send_soon(self, message: JsonObject) -> None:
        """Send without waiting, in order with the others."""
        if not self._is_closed and self._outgoing.qsize() < _MOST_WAITING:
            self._outgoing.put((_encode(message), None))

    def take_id(self, params: JsonObject) -> RequestId:
        return self._ids.pop(id(params), None)

    def after_sending(self, result: JsonObject, do: Callable[[], None]) -> None:
        self._after[id(result)] = do

    async def close(self) -> None:
        """Write what is waiting, unless the editor does not read it. Nothing is written afterwards."""
        self._is_closed = True
        self._outgoing.put(None)
        if self._writer is not None:
            await asyncio.to_thread(self._writer.join, _LAST_WRITES_SECONDS)

    def _take(self, line: bytes | None) -> None:
        """Keep a message, or answer what is none. ``None``: the line was too long."""
        if line is None:
            self._refuse(_INVALID_REQUEST, f"a message has at most {LARGEST_MESSAGE:,} bytes")
            return
        if not line.strip():
            return
        try:
            message = read_json(line)
        except ValueError:
            self._refuse(_PARSE_ERROR, "this line is not JSON; send one message per line")
            return
        if wrong := shape_problem(message):
            refused = message.get("id") if isinstance(message, dict) else None
            self._refuse(_INVALID_REQUEST, wrong, request=refused if isinstance(refused, int | str) else None)
            return
        self._messages.append(message)

    def _refuse(self, code: int, text: str, *, request: RequestId = None) -> None:
        _logger.warning("a message of the editor was refused: %s", text)
        self.send_soon({"jsonrpc": "2.0", "id": request, "error": {"code": code, "message": text}})

    def _read(self) -> None:
        """Runs in a thread. Waits while the event loop is behind."""
        chunk = b"first"
        while chunk:
            try:
                chunk = os.read(self._reads, _CHUNK)
            except OSError:
                chunk = b""
            putting = self._chunks.put(chunk)
            try:
                asyncio.run_coroutine_threadsafe(putting, self._loop).result()
            except (RuntimeError, CancelledError):
                putting.close()
                return  # the event loop has ended

    def _write(self) -> None:
        """Runs in a thread. Writes everything that is waiting at once."""
        while (item := self._outgoing.get()) is not None:
            items, size = [item], len(item[0])
            while size < _CHUNK and not self._outgoing.empty():
                following = self._outgoing.get()
                if following is None:
                    self._outgoing.put(None)
                    break
                items.append(following)
                size += len(following[0])
            error = self._write_bytes(b"".join(data for data, _ in items))
            waiting = [done for _, done in items if done is not None]
            try:
                self._loop.call_soon_threadsafe(_settle, waiting, error)
                if error is not None:
                    self._is_closed = True
                    self._loop.call_soon_threadsafe(self._stop_reading)
            except RuntimeError:
                return  # the event loop has ended

    def _stop_reading(self) -> None:
        """Wake the reader, which ends after what has arrived."""
        with suppress(asyncio.QueueFull):
            self._chunks.put_nowait(b"")

    def _write_bytes(self, data: bytes) -> OSError | None:
        if self._is_closed and not data:
            return None
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._writes, view) :]
        except OSError as error:
            return error
        return None


class UnfinishedWork:
    """Counts messages, so that an editor that reads nothing does not fill the memory with what it sends."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0
        self._room = asyncio.Event()
        self._room.set()
        self._none_left = asyncio.Event()
        self._none_left.set()

    def add(self) -> None:
        self._count += 1
        self._none_left.clear()
        if self._count >= self._most:
            self._room.clear()

    def remove(self) -> None:
        self._count -= 1
        if not self._count:
            self._none_left.set()
        if self._count < self._most:
            self._room.set()

    async def none_left(self) -> None:
        while self._count:  # an answer is counted in the same step in which its request has been handled
            await self._none_left.wait()

    async def has_room(self, *, seconds: float) -> None:
        """Raises `TimeoutError`."""
        if self._count < self._most:
            return
        async with asyncio.timeout(seconds):
            while self._count >= self._most:  # a message that was handled made room, and its answer may have taken it
                await self._room.wait()


class LineSplitter:
    """Splits bytes into lines. A line beyond the limit is dropped and reported as ``None``. Pure."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0
        self._dropping = False

    def feed(self, chunk: bytes) -> list[bytes | None]:
        """The lines that are complete now. An empty chunk ends the last one."""
        found: list[bytes | None] = []
        *ended, rest = chunk.split(b"\n") if chunk else (b"", b"")
        for piece in ended:
            self._add(piece)
            if self._dropping:
                found.append(None)
            else:
                found.append(b"".join(self._pieces))
            self._pieces, self._size, self._dropping = [], 0, False
        self._add(rest)
        return found

    def _add(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._limit:
            self._dropping = True
            self._pieces = []
        if piece and not self._dropping:
            self._pieces.append(piece)


def read_json(line: bytes) -> Any:
    """Decode a line. Lone surrogates, which some editors send, are repaired. Raises `ValueError`."""
    try:
        return msgspec.json.decode(line)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except msgspec.DecodeError:
        try:
            return _repaired(json.loads(line))
        except RecursionError:
            raise ValueError("nested too deeply") from None


def shape_problem(message: object) -> str:
    """Why this JSON value is no message; empty if it is one."""
    if not isinstance(message, dict):
        return "a message is a JSON object"
    if not isinstance(message.get("id"), int | str | None) or isinstance(message.get("id"), bool):
        return "'id' must be a number or a text"
    if "method" in message:
        if not isinstance(message["method"], str):
            return "'method' must be a text"
        if not isinstance(message.get("params"), dict | None):
            return "'params' must be an object"
        return ""
    if "id" not in message or not ("result" in message or "error" in message):
        return "a message has a 'method', or an 'id' with 'result' or 'error'"
    if not isinstance(message.get("error"), dict | None):
        return "'error' must be an object"
    return ""


def _repaired(value: Any) -> Any:
    if isinstance(value, str):
        return repair_text(value)
    if isinstance(value, list):
        return [_repaired(one) for one in value]
    if isinstance(value, dict):
        return {repair_text(name): _repaired(one) for name, one in value.items()}
    return value


def _encode(message: JsonObject) -> bytes:
    try:
        return msgspec.json.encode(message) + b"\n"
    except UnicodeEncodeError:
        return msgspec.json.encode(_repaired(message)) + b"\n"


def _notification(method: str, params: JsonObject) -> JsonObject:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def _settle(waiting: list[asyncio.Future[None]], error: OSError | None) -> None:
    for done in waiting:
        if done.done():
            continue
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(EditorGone(f"the editor cannot be written to: {error.strerror}"))
