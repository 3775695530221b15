"""A TCP server on loopback whose connections are all closed when it stops."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class ConnectionServer:
    """Calls ``serve`` for each connection. A connection that breaks is no error."""

    def __init__(self, serve: Serve, *, tls: ssl.SSLContext | None = None, limit: int = 1 << 16) -> None:
        self._serve = serve
        self._tls = tls
        self._limit = limit
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        self._server = await asyncio.start_server(self._accept, host, port, ssl=self._tls, limit=self._limit)

    @property
    def port(self) -> int:
        assert self._server, "the server is not started"
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Also ends connections whose client does not read or has sent nothing yet."""
        server, self._server = self._server, None
        if server is None:
            return
        loop = asyncio.get_running_loop()
        for listening in server.sockets:
            loop.remove_reader(listening.fileno())
        await asyncio.sleep(0)  # asyncio loses a connection that was accepted and not yet made when its server closes
        server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None:
            writer.transport.abort()
            return

        def end(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            writer.transport.abort()

        task = asyncio.create_task(self._handle(reader, writer), name="connection")
        self._tasks.add(task)
        task.add_done_callback(end)

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            await self._serve(reader, writer)
            writer.close()
            await writer.wait_closed()
