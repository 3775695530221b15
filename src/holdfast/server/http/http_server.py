"""The connections of one listener: accepted within the limits of the process, and stopped in bounded time."""

from __future__ import annotations

import asyncio
import resource
import socket
from functools import partial
from typing import TYPE_CHECKING

from holdfast.server.http.connection_peer import FindToolPeers
from holdfast.server.http.http_connection import ConnectionGroup, HttpConnection
from holdfast.server.http.responses import AsgiApp
from holdfast.server.server_parts import ServerLimits

if TYPE_CHECKING:
    import ssl

_BACKLOG = 2048
_RESERVED_DESCRIPTORS = 64
"""Open files that connections may not take: the store, tools and requests to models need them."""
_UNREAD_STOP_SECONDS = 0.2
"""How long a stop waits for clients that have not read what was sent."""


class HttpServer:
    """Serves one listener from `start` until `stop`. It handles no signals."""

    def __init__(self, app: AsgiApp, *, limits: ServerLimits, find_tool_peers: FindToolPeers | None = None) -> None:
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        reserved = min(_RESERVED_DESCRIPTORS, most // 4)
        self._group = ConnectionGroup(
            app, limits=limits, find_tool_peers=find_tool_peers, max_descriptor=most - reserved
        )
        self._server: asyncio.Server | None = None
        self._stop_seconds = limits.stop_seconds

    async def start(self, sock: socket.socket, *, tls: ssl.SSLContext | None = None) -> None:
        """Return when connections are accepted."""
        loop = asyncio.get_running_loop()
        make = partial(HttpConnection, self._group, loop)
        self._server = await loop.create_server(make, sock=sock, ssl=tls, backlog=_BACKLOG)

    async def stop(self, *, at_once: bool = False) -> None:
        """Accept no more connections, give responses `ServerLimits.stop_seconds` to finish, then close all.

        With ``at_once``, streams and other responses that have begun are cut off, and those to come are still sent.
        """
        group = self._group
        group.is_stopped = True
        await self._stop_accepting()
        for connection in tuple(group.connections):
            connection.shut_down()
            if at_once and connection.is_sending:
                connection.abort()
        if at_once:
            return
        await self._wait_for_responses(min(_UNREAD_STOP_SECONDS, self._stop_seconds))
        for connection in tuple(group.connections):
            if connection.is_unread:
                connection.abort()
        await self._wait_for_responses(self._stop_seconds)
        for task in tuple(group.tasks):
            task.cancel()
        await self._wait_for_responses(0.5)
        for connection in tuple(group.connections):
            connection.abort()
        await asyncio.sleep(0)

    async def _stop_accepting(self) -> None:
        """Close the listening socket after the connections already accepted are set up.

        asyncio leaks a connection that was accepted, but is not set up, when its server closes.
        """
        if self._server is None:
            return
        loop = asyncio.get_running_loop()
        for sock in self._server.sockets:
            loop.remove_reader(sock)
        await asyncio.sleep(0)
        self._server.close()

    async def _wait_for_responses(self, seconds: float) -> None:
        if tasks := tuple(self._group.tasks):
            await asyncio.wait(tasks, timeout=seconds)
