"""Our ends of a command's pipes, on the event loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable

_PIPE_BUFFER = 1 << 17
_READ_BYTES = 1 << 16


class CommandPipes:
    """The output of a command and, for a piped command, its input and its errors."""

    def __init__(self, descriptors: Iterable[int]) -> None:
        self.output = asyncio.StreamReader(limit=_PIPE_BUFFER)
        self.input: asyncio.StreamWriter | None = None
        self.errors: asyncio.StreamReader | None = None
        self._descriptors = list(descriptors)
        """Not yet in the hands of the event loop."""
        self._transports: list[asyncio.BaseTransport] = []

    async def open(self) -> None:
        """Hand the pipes over to the event loop. Whether it succeeds or not, `close` closes them."""
        piped = len(self._descriptors) > 1
        self._open_reader(self.output)
        if piped:
            await self._open_input()
            self.errors = asyncio.StreamReader(limit=_PIPE_BUFFER)
            self._open_reader(self.errors)

    def close(self) -> None:
        for transport in self._transports:
            transport.close()
        while self._descriptors:
            os.close(self._descriptors.pop())

    def _open_reader(self, reader: asyncio.StreamReader) -> None:
        self._transports.append(_PipeTransport(self._descriptors.pop(0), reader))

    async def _open_input(self) -> None:
        """The file of the pipe is closed by the event loop from now on, exactly once.

        A transport of asyncio closes the file. One of uvloop closes the number and then the file. If the file closed
        the number, too, it could be that of a file or connection which another thread has opened in between.
        """
        loop = asyncio.get_running_loop()
        closes_files = isinstance(loop, asyncio.SelectorEventLoop)
        file = os.fdopen(self._descriptors.pop(0), "wb", buffering=0, closefd=closes_files)
        transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, file)
        self._transports.append(transport)
        self.input = asyncio.StreamWriter(transport, protocol, None, loop)


class _PipeTransport(asyncio.ReadTransport):
    """Feeds a stream with what a pipe contains. The loop's own transport needs several rounds of the loop to open."""

    def __init__(self, descriptor: int, reader: asyncio.StreamReader) -> None:
        super().__init__()
        os.set_blocking(descriptor, False)
        self._descriptor: int | None = descriptor
        self._reader = reader
        self._loop = asyncio.get_running_loop()
        reader.set_transport(self)
        self.resume_reading()

    def resume_reading(self) -> None:
        if self._descriptor is not None:
            self._loop.add_reader(self._descriptor, self._read)

    def pause_reading(self) -> None:
        if self._descriptor is not None:
            self._loop.remove_reader(self._descriptor)

    def close(self) -> None:
        if self._descriptor is not None:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None
            self._reader.feed_eof()

    def _read(self) -> None:
        assert self._descriptor is not None
        try:
            data = os.read(self._descriptor, _READ_BYTES)
        except BlockingIOError:
            return
        if data:
            self._reader.feed_data(data)
        else:
            self.close()
