"""The process at the other end of a connection: requests of the agent's own commands are refused (`W8`)."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from holdfast.errors import Forbidden

if TYPE_CHECKING:
    from holdfast.tools.process.tool_peers import ToolPeers

FindToolPeers: TypeAlias = "Callable[[], ToolPeers | None]"
"""What recognises tools; None as long as no tool can have started a process."""

PEER: Final = "holdfast.peer"
"""The key of a request's scope for its `ConnectionPeer`."""


class ConnectionPeer:
    """Checks the peer of one connection once, at its first request."""

    def __init__(self, transport: asyncio.BaseTransport, find_tool_peers: FindToolPeers) -> None:
        self._transport = transport
        self._find_tool_peers = find_tool_peers
        self._is_tool: bool | None = None

    async def refuse_tools(self) -> None:
        """Raise `Forbidden` if the peer is a process that one of the agent's tools started."""
        if self._is_tool is None:
            self._is_tool = await self._check()
        if self._is_tool:
            raise Forbidden(
                "commands that the agent runs cannot use the server; only the person can, from a terminal of their own",
                code="tool_process",
            )

    async def refuse_other_users(self) -> None:
        """Raise `Forbidden` if the peer is a process of another user of this machine, who may have seen a code."""
        connection = self._transport.get_extra_info("socket")
        if connection is None or connection.family == socket.AF_UNIX:
            return
        client, server = connection.getpeername()[:2], connection.getsockname()[:2]
        uid = await asyncio.to_thread(_tcp_peer_uid, client, server)
        if uid not in (None, 0, os.geteuid()):
            raise Forbidden("only browsers of the user who runs the server can be paired here", code="other_user")

    async def _check(self) -> bool:
        peers = self._find_tool_peers()
        if peers is None or not peers.exist:
            return False
        connection = self._transport.get_extra_info("socket")
        if connection is None:
            return True
        if connection.family == socket.AF_UNIX:
            return peers.is_unix_peer(connection)
        client, server = connection.getpeername()[:2], connection.getsockname()[:2]
        return await asyncio.to_thread(peers.is_tcp_peer, client, server)


def _tcp_peer_uid(client: tuple[str, int], server: tuple[str, int]) -> int | None:
    from holdfast.tools.process.tool_peers import tcp_peer_uid

    return tcp_peer_uid(client, server)
