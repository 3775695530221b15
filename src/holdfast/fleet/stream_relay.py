"""Links from a reader's server to the servers that own what is read, over HTTP with the fleet's token.

Each reader that watches a workspace of another server has one link to it, with the reader's name: so the owner knows
its clients as if they were connected to it (`W7`, `W13`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress

from holdfast.errors import HoldfastError
from holdfast.fleet.fleet_member import FleetMember
from holdfast.fleet.peer_http import PeerUnreachable
from holdfast.fleet.relayed_subscription import RelayedSubscription, read_items
from holdfast.fleet.request_places import RequestTarget
from holdfast.server.http.request_access import RequestAccess
from holdfast.services.event_service import AttachedStream
from holdfast.tasks import OwnedTasks

_logger = logging.getLogger(__name__)

_LOOK_SECONDS = 0.25


class StreamRelay:
    """Adds the live events of other servers to the streams of this one."""

    def __init__(self, member: FleetMember) -> None:
        self._member = member
        self._tasks = OwnedTasks()

    def add(
        self,
        stream: AttachedStream,
        *,
        workspace_id: str | None,
        session_id: str | None,
        target: str,
        headers: Mapping[bytes, bytes],
        access: RequestAccess,
    ) -> RelayedStream:
        """Return the stream with live events of the owner of a workspace, or of all servers."""
        relayed = RelayedStream(stream)
        links = _StreamLinks(
            self._member,
            relayed.subscription,
            workspace_id=workspace_id,
            session_id=session_id,
            target=target,
            headers=headers,
            access=access,
        )
        relayed.links = self._tasks.spawn(links.keep(), name="relay")
        return relayed

    async def aclose(self) -> None:
        await self._tasks.finish(seconds=1.0)


class RelayedStream:
    """An open event stream, like `AttachedStream`."""

    def __init__(self, stream: AttachedStream) -> None:
        self.subscription = RelayedSubscription(stream.subscription)
        self.links: asyncio.Task[None] | None = None
        self._stream = stream

    def close(self) -> None:
        self.subscription.close()
        self._stream.close()
        if self.links is not None:
            self.links.cancel()


class _StreamLinks:
    """Keeps a link to each server that a stream needs."""

    def __init__(
        self,
        member: FleetMember,
        subscription: RelayedSubscription,
        *,
        workspace_id: str | None,
        session_id: str | None,
        target: str,
        headers: Mapping[bytes, bytes],
        access: RequestAccess,
    ) -> None:
        self._member = member
        self._subscription = subscription
        self._workspace_id = workspace_id
        self._session_id = session_id
        self._target = target
        self._headers = headers
        self._access = access
        self._open: dict[str, asyncio.Task[None]] = {}

    async def keep(self) -> None:
        """Connect to those servers that are needed, until cancelled."""
        changed = asyncio.Event()
        unlisten = self._member.looks.listen(changed.set)
        self._member.looks.ask()
        try:
            await self._find_workspace()
            while True:
                changed.clear()
                needed = self._member.live_servers(self._workspace_id)
                for server_id in set(self._open) - needed:
                    self._open.pop(server_id).cancel()
                for server_id in needed:
                    task = self._open.get(server_id)
                    if task is None or task.done():
                        self._open[server_id] = asyncio.create_task(self._link(server_id), name=f"relay:{server_id}")
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_SECONDS):
                        await changed.wait()
        finally:
            unlisten()
            for task in self._open.values():
                task.cancel()

    async def _find_workspace(self) -> None:
        while self._workspace_id is None and self._session_id is not None:
            try:
                self._workspace_id = await self._member.workspace_of(RequestTarget("session", self._session_id))
                return
            except HoldfastError as error:
                _logger.debug("no live events yet: %s", error)
                await asyncio.sleep(_LOOK_SECONDS)

    async def _link(self, server_id: str) -> None:
        """Read one link until it ends. An error only means that there is no live text."""
        subscription = self._subscription
        link = subscription.connect(server_id)
        try:
            headers = {**self._headers, b"last-event-id": subscription.cursor.encode()}
            response = await self._member.send(server_id, "GET", self._target, headers=headers, access=self._access)
            try:
                if response.status != 200:
                    return
                async for item in read_items(response.chunks()):
                    if not link.is_connected:
                        return
                    subscription.receive(link, item)
                    await link.wait_for_room()
            finally:
                await response.aclose()
        except PeerUnreachable as error:
            _logger.debug("no live events: %s", error)
        finally:
            if link.is_connected:
                subscription.drop(server_id)
