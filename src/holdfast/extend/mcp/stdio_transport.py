"""Exchanges messages with an MCP server over the pipes of its process. Imports the protocol's library.

The process runs under the supervisor. A message is a line of JSON. Lines that are too long or no message are dropped
and reported; an answer that is too long becomes an error of its request, if its id can be read.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter

from holdfast.tools.process.command_process import RunningCommand

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

_CHUNK = 1 << 16
_KEPT = 4_096
"""Bytes at each end of a line that is too long in which its id is looked for."""
_ID = re.compile(rb'"id"\s*:\s*(\d{1,15})\b')
_BURST = 200
_PAUSE = 0.05
"""After so many messages in a row the reader pauses, so that a flood cannot take the event loop."""


@asynccontextmanager
async def open_stdio(
    running: RunningCommand, *, max_message: int, report: Callable[[str], None]
) -> AsyncIterator[tuple[Any, Any]]:
    """Yield the streams of messages from and to the process. ``report`` gets what is wrong with its output."""
    received, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_server, sent = anyio.create_memory_object_stream[SessionMessage](0)
    async with received, from_server, to_server, sent, anyio.create_task_group() as group:
        group.start_soon(_read, running, received, max_message, report)
        group.start_soon(_write, running, sent, received)
        yield from_server, to_server
        group.cancel_scope.cancel()


async def _read(
    running: RunningCommand,
    received: MemoryObjectSendStream[SessionMessage | Exception],
    max_message: int,
    report: Callable[[str], None],
) -> None:
    lines = _LineReader(running.output, max_message)
    count = 0
    async with received:
        async for line in lines:
            count += 1
            if count % _BURST == 0:
                await asyncio.sleep(_PAUSE)
            if not line.strip() and not lines.skipped:
                continue
            message = _too_long(lines.skipped, max_message, report) if lines.skipped else _parsed(line, report)
            if message is not None:
                try:
                    await received.send(message)
                except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                    return


class _LineReader:
    """Splits a stream into lines. Of a line that is too long only its ends are kept, in `skipped`."""

    def __init__(self, reader: asyncio.StreamReader, limit: int) -> None:
        self._reader = reader
        self._limit = limit
        self.skipped = b""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        buffer = bytearray()
        head = b""
        while chunk := await self._reader.read(_CHUNK):
            start = 0
            while (end := chunk.find(b"\n", start)) >= 0:
                buffer += chunk[start:end]
                self.skipped = head + b" " + bytes(buffer[-_KEPT:]) if head else b""
                yield bytes(buffer) if not head else b""
                buffer.clear()
                head, start = b"", end + 1
            buffer += chunk[start:]
            if len(buffer) > self._limit:
                head = head or bytes(buffer[:_KEPT])
                del buffer[:-_KEPT]


def _parsed(line: bytes, report: Callable[[str], None]) -> SessionMessage | None:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        report(f"not a message: {line[:200].decode('utf-8', 'replace')}")
        return None


def _too_long(ends: bytes, limit: int, report: Callable[[str], None]) -> SessionMessage | None:
    text = f"the answer is larger than {limit >> 20} MiB"
    report(text)
    found = _ID.search(ends)
    if found is None:
        return None
    error = ErrorData(code=INTERNAL_ERROR, message=text)
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=int(found[1]), error=error))


async def _write(
    running: RunningCommand,
    sent: MemoryObjectReceiveStream[SessionMessage],
    received: MemoryObjectSendStream[SessionMessage | Exception],
) -> None:
    assert running.input is not None
    try:
        async for message in sent:
            running.input.write(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
            await running.input.drain()
    except OSError:
        await received.aclose()  # the process closed its input; the session sees the end of the connection
