"""This server as a member of a fleet: which workspaces it owns, where the others are, and what it takes over.

A workspace is taken in one order: the lease, then the ends of the runs that its last owner left, then everything else.
So nobody sees a run of a dead owner as active once somebody owns the workspace again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from holdfast import __version__
from holdfast.errors import BadRequest, HoldfastError, NotFound, WorkspaceElsewhere
from holdfast.fleet.directory_checks import DirectoryChecks
from holdfast.fleet.fleet_looks import FleetLooks
from holdfast.fleet.fleet_report import fleet_view
from holdfast.fleet.lease_keeper import LeaseKeeper, LeaseStore
from holdfast.fleet.peer_http import FleetToken, PeerConnections, PeerResponse, PeerUnreachable
from holdfast.fleet.request_places import (
    FleetServer,
    Forward,
    Handle,
    PlaceFacts,
    RefuseForwarded,
    RequestPlace,
    RequestTarget,
    WaitForOwner,
    choose_place,
)
from holdfast.fleet.workspace_tasks import WorkspaceTasks
from holdfast.ids import Ids
from holdfast.runs import Engine
from holdfast.schema.api.server_views import FleetView
from holdfast.schema.events import RunFinished, RunStarted
from holdfast.server.http.request_access import RequestAccess
from holdfast.services import Services
from holdfast.store import CommittedEvent, Store
from holdfast.store.postgres import lease_table
from holdfast.store.postgres.connection import PostgresConnection
from holdfast.store.postgres.lease_table import KnownServer, LeaseKind, WorkspacePlace
from holdfast.workspace.maintenance import mark_lost_jobs
from holdfast.workspace.shared_parts import SharedParts

_logger = logging.getLogger(__name__)

_MAX_KNOWN = 16384
_ADOPT_SECONDS = 0.5
_FORGET_SECONDS = 5.0
_LOOK_SECONDS = 0.25

T = TypeVar("T")


class FleetMember:
    """Implements `WorkspaceOwnership`."""

    def __init__(self, keeper: LeaseKeeper, *, token: str | None, shared: Sequence[str] = (), name: str = "") -> None:
        """``shared``: directories that every host mounts. ``name``: what people call this host."""
        self.keeper = keeper
        self.looks = FleetLooks(keeper.look)
        self.token = None if token is None else FleetToken(token)
        self._connections = None if self.token is None else PeerConnections(self.token)
        self.shared_directories = tuple(shared)
        self._name = name or socket.gethostname()
        self._locks: dict[str, asyncio.Lock] = {}
        self._uses: dict[str, int] = {}
        self._unopened: set[str] = set()
        """Workspaces that this server has come to own, and whose queues do not go on yet."""
        self._adopting = WorkspaceTasks("taken over")
        self._opening = WorkspaceTasks("opened")
        self._directories = DirectoryChecks()
        self._holders: dict[str, str] = {}
        """Where requests for a workspace were answered last. A wrong one is found out and forgotten."""
        self._workspaces: OrderedDict[RequestTarget, str] = OrderedDict()
        self._keeping: asyncio.Task[None] | None = None
        self._shared: SharedParts | None = None
        self._engine: Engine | None = None
        self._services: Services | None = None

    async def join(self, store: LeaseStore) -> None:
        """Enter the fleet. From now on the leases are renewed."""
        await self.keeper.register(store)
        self._keeping = asyncio.create_task(self.keeper.keep(), name="keep leases")

    async def start(self, shared: SharedParts, engine: Engine, services: Services) -> None:
        """Call this when the parts of the server are there, before it serves. Takes over what nobody owns."""
        self._shared, self._engine, self._services = shared, engine, services
        self.keeper.on_late, self.keeper.on_in_time = engine.stop_turns, engine.allow_turns
        self.keeper.info = self._about
        shared.store.listen(self._on_commit)
        await self.adopt()

    def _about(self) -> dict[str, Any]:
        services = self._services_part
        return {
            "version": __version__,
            "pid": os.getpid(),
            "name": self._name,
            "position": self._store.last_number,
            "streams": services.presence.streams,
            "active_runs": self._engine_part.count_active(),
        }

    async def announce(self, address: str | None) -> None:
        """Tell the others at once where this server listens. If the database is away, the next renewal tells it."""
        try:
            await self.keeper.announce(address)
        except HoldfastError as error:
            _logger.warning("the address of this server cannot be told to the others now: %s", error)

    async def aclose(self) -> None:
        """Leave the fleet: others can take everything at once. Everything of the server has stopped."""
        await self.looks.aclose()
        if self._keeping is not None:
            self._keeping.cancel()
            with suppress(asyncio.CancelledError):
                await self._keeping
        with suppress(HoldfastError):  # the others find out by themselves
            await self.keeper.leave()
        if self._connections is not None:
            await self._connections.aclose()

    # Ownership

    async def own(self, workspace_id: str) -> None:
        """Own the workspace, or raise `WorkspaceElsewhere`."""
        async with self._lock(workspace_id):
            if self.keeper.kind(workspace_id) == "owner":
                return
            place = await self.keeper.transact(partial(lease_table.read_place, workspace_id=workspace_id))
            may_own = place is None or await self.has_directory(place)
            if not may_own or self.keeper.kind(workspace_id) or not await self._take(workspace_id, "owner"):
                raise WorkspaceElsewhere(f"another server owns workspace {workspace_id!r}; try again")
            if place is not None:
                self._unopened.add(workspace_id)  # the caller opens it; its queue must go on also if that fails

    async def disown(self, workspace_id: str) -> None:
        """Let others own it, unless something of it is still to be written."""
        async with self._lock(workspace_id):
            await self._release(workspace_id)

    @asynccontextmanager
    async def using(self, workspace_id: str, take_as: LeaseKind | None) -> AsyncIterator[bool]:
        """Keep the lease while a request is handled; with ``take_as``, take it first if nobody living holds it.

        Yields whether this server has it. A caretaker gives it back after the last request.
        """
        async with self._lock(workspace_id):
            is_held = self.keeper.fence(workspace_id) is not None
            if not is_held and take_as is not None:
                is_held = await self._take(workspace_id, take_as)
                if is_held and take_as == "owner":
                    self._unopened.add(workspace_id)
            if is_held:
                self._uses[workspace_id] = self._uses.get(workspace_id, 0) + 1
        if not is_held:
            yield False
            return
        try:
            yield True
        finally:
            self._uses[workspace_id] -= 1
            if not self._uses[workspace_id]:
                del self._uses[workspace_id]
                if self.keeper.kind(workspace_id) == "caretaker":
                    async with self._lock(workspace_id):
                        if workspace_id not in self._uses:
                            await self._release(workspace_id)

    async def _take(self, workspace_id: str, kind: LeaseKind) -> bool:
        """Take a lease that nobody living holds, and end what a dead owner left active. Needs the lock."""
        if not await self.keeper.take(workspace_id, kind):
            return False
        try:
            if kind == "caretaker":
                self._engine_part.caretake(workspace_id)
            ended = await self._engine_part.recover_workspace(workspace_id)
            await mark_lost_jobs(self._shared_part, workspace_id=workspace_id)
        except BaseException:
            await self._release(workspace_id)
            raise
        if ended:
            _logger.warning("workspace %s: ended %d runs of a server that is gone", workspace_id, ended)
        return True

    async def _release(self, workspace_id: str) -> None:
        try:
            async with asyncio.timeout(_FORGET_SECONDS):
                await self._engine_part.stop_caretaking(workspace_id)
        except TimeoutError:
            _logger.warning("workspace %s is kept: something of it is not written yet", workspace_id)
            return
        try:
            await self.keeper.release(workspace_id)
        except HoldfastError as error:
            _logger.warning("the lease of workspace %s cannot be released now: %s", workspace_id, error)

    def _lock(self, workspace_id: str) -> asyncio.Lock:
        return self._locks.setdefault(workspace_id, asyncio.Lock())

    # Requests

    async def place(self, workspace_id: str, *, mutates: bool, forwarded: bool) -> RequestPlace:
        """Decide who handles a request for a workspace."""
        if self.keeper.fence(workspace_id) is not None:
            if mutates and await self._is_leaving(workspace_id):
                return RefuseForwarded() if forwarded else WaitForOwner(self.keeper.server_id)
            return Handle()
        known = self._holders.get(workspace_id)
        if known is not None and not forwarded:
            return Forward(known)
        found = await self._place_of(workspace_id)
        facts = await self._facts(found, mutates=mutates, forwarded=forwarded)
        chosen = choose_place(facts)
        if isinstance(chosen, Forward) and facts.holder is not None:
            self._holders[workspace_id] = chosen.server_id
        return chosen

    async def _is_leaving(self, workspace_id: str) -> bool:
        """Whether this caretaker must give the lease back after its present requests: the directory is served again.

        Otherwise requests that overlap would keep the lease for ever, and the queue would not go on.
        """
        if self.keeper.kind(workspace_id) != "caretaker" or workspace_id not in self._uses:
            return False
        return self._has_host(await self._place_of(workspace_id))

    def forget_place(self, workspace_id: str) -> None:
        """Look again where the workspace is: the server there did not answer, or is not the owner."""
        self._holders.pop(workspace_id, None)

    async def send(
        self,
        server_id: str,
        method: str,
        target: str,
        *,
        headers: Mapping[bytes, bytes],
        access: RequestAccess,
        body: bytes = b"",
    ) -> PeerResponse:
        """Send a request to another server. Raises `PeerUnreachable`."""
        address = self.address_of(server_id)
        if self._connections is None or address is None:
            raise PeerUnreachable(f"server {server_id} has no address, or this one has no fleet token")
        sending = self._connections.send(address, method, target, headers=headers, access=access, body=body)
        return await self.while_alive(server_id, sending)

    async def while_alive(self, server_id: str, answer: Awaitable[T]) -> T:
        """Wait for something from another server. Raises `PeerUnreachable` when that server is late.

        A server that is paused keeps its connections, so nothing else would end the wait.
        """
        waiting = asyncio.ensure_future(answer)
        try:
            while not (await asyncio.wait((waiting,), timeout=_LOOK_SECONDS))[0]:
                server = self.keeper.servers.get(server_id)
                if server is None or not server.is_alive:
                    raise PeerUnreachable(f"server {server_id} has not renewed its leases in time")
            return waiting.result()
        finally:
            if not waiting.done():
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)

    def live_servers(self, workspace_id: str | None) -> set[str]:
        """The other servers that have live events of a workspace, or of any. As of the last look."""
        me, servers, leases = self.keeper.server_id, self.keeper.servers, self.keeper.leases
        if workspace_id is None:
            holders = set(servers)
        else:
            holders = set() if self.keeper.fence(workspace_id) is not None else {leases.get(workspace_id, me)}
        return {one for one in holders - {me} if one in servers and servers[one].is_alive and self.address_of(one)}

    def address_of(self, server_id: str) -> str | None:
        server = self.keeper.servers.get(server_id)
        if server is None or server.dead or server.address is None:
            return None
        is_near = server.host_id == self.keeper.host_id
        return server.address if is_near or not server.address.startswith("unix:") else None

    def new_key(self) -> bytes:
        return self._ids.new("run").encode()

    async def workspace_of(self, target: RequestTarget) -> str | None:
        """The workspace that a request is about; None if there is no such thing."""
        known = self._workspaces.get(target)
        if known is None:
            if target.kind == "workspace":
                return target.id
            known = await self._store.workspace_of(target.kind, target.id)
            if known is None:
                return None
            self._workspaces[target] = known
            if len(self._workspaces) > _MAX_KNOWN:
                self._workspaces.popitem(last=False)
        return known

    def workspace_of_call(self, client_call_id: str) -> str | None:
        """The workspace of a call that a client executes, if this server runs it."""
        return self._shared_part.client_calls.workspace_of(client_call_id)

    async def workspace_at(self, path: str | None) -> str | None:
        """The workspace of a directory of this host, if it is known."""
        if path is None or not os.path.isabs(path) or "\0" in path:
            return None
        resolved = await asyncio.to_thread(os.path.realpath, path)
        found = await self._store.workspace_at(resolved)
        return None if found is None else found.id

    async def _place_of(self, workspace_id: str) -> WorkspacePlace:
        def read(sql: PostgresConnection) -> tuple[WorkspacePlace | None, tuple[KnownServer, ...]]:
            return lease_table.read_place(sql, workspace_id), lease_table.read_servers(sql)

        look = self.keeper.known.begin_look()
        found, servers = await self.keeper.transact(read)
        self.keeper.known.note_servers(servers, look=look)
        if found is None:
            raise NotFound(f"there is no workspace {workspace_id!r}", code="workspace_not_found")
        return found

    async def _facts(self, place: WorkspacePlace, *, mutates: bool, forwarded: bool) -> PlaceFacts:
        servers = self.keeper.servers
        holder_id = None if place.lease is None else place.lease.server_id
        holder: FleetServer | None = None
        if holder_id is not None:
            known = servers.get(holder_id)
            holder = FleetServer(holder_id, "", is_alive=False, is_dead=True) if known is None else _facts_of(known)
        return PlaceFacts(
            me=self.keeper.server_id,
            holder=holder,
            is_mine=await self.has_directory(place),
            host_id=place.host_id,
            others=tuple(_facts_of(one) for one in servers.values() if one.id != self.keeper.server_id),
            mutates=mutates,
            forwarded=forwarded,
        )

    async def has_directory(self, place: WorkspacePlace) -> bool:
        """Whether this server can work in the directory."""
        if place.host_id not in ("", self.keeper.host_id):
            return False
        return await self._directories.exists(place.path)

    async def view(self) -> FleetView:
        """Part of `FleetReader`."""
        look = self.keeper.known.begin_look()
        servers, places, queues, last = await self.keeper.transact(lease_table.read_fleet)
        self.keeper.known.note_servers(servers, look=look)
        return fleet_view(servers, places, queues, last=last, me=self.keeper.server_id)

    # Takeover

    async def adopt_periodically(self) -> None:
        """Take over the work of servers that are gone, until cancelled."""
        if self._connections is not None:
            await self._connections.prepare()
        try:
            while True:
                try:
                    await self._release_unused()
                    await self.adopt()
                except HoldfastError as error:
                    _logger.info("cannot look for work of servers that are gone now: %s", error)
                except Exception:  # without this loop nothing is ever taken over again
                    _logger.exception("cannot look for work of servers that are gone")
                await asyncio.sleep(_ADOPT_SECONDS)
        finally:
            await self._adopting.aclose()
            await self._opening.aclose()

    async def adopt(self) -> int:
        """Take over workspaces with unfinished work that no living server owns. Returns how many."""
        for place in await self.keeper.transact(lease_table.read_orphans):
            if not self.keeper.is_late and place.workspace_id not in self.keeper.held:
                self._adopting.start(place.workspace_id, partial(self._adopt, place))
        count = await self._adopting.settle()
        for workspace_id in self._unopened:
            self._opening.start(workspace_id, partial(self._open, workspace_id))
        await self._opening.settle()
        return count

    async def _open(self, workspace_id: str) -> bool:
        """Let the queues go on of what this server owns, whether it took it by itself or for a request."""
        try:
            if self.keeper.kind(workspace_id) == "owner":
                path = (await self._store.workspace(workspace_id)).path
                if not await self._directories.exists(path) and self._directories.is_hanging(path):
                    return False
                await self._services_part.workspaces.configured(workspace_id)
        except (BadRequest, NotFound) as error:
            _logger.warning("workspace %s cannot be opened: %s", workspace_id, error)
            async with self._lock(workspace_id):
                if workspace_id in self._uses:
                    return False
                await self._release(workspace_id)  # so that it is taken over when its directory is back
        self._unopened.discard(workspace_id)
        return True

    async def _adopt(self, place: WorkspacePlace) -> bool:
        workspace_id = place.workspace_id
        if self.keeper.is_late:
            return False
        if await self.has_directory(place):
            async with self.using(workspace_id, "owner") as is_held:
                return is_held
        if self._has_host(place) or not place.has_active_runs:
            return False
        async with self.using(workspace_id, "caretaker") as is_held:
            return is_held

    def _has_host(self, place: WorkspacePlace) -> bool:
        """Whether a server can work in the directory. As of the last look."""
        return any(one.is_alive and one.host_id == place.host_id for one in self.keeper.servers.values())

    async def _release_unused(self) -> None:
        """Give back what a caretaker could not give back after its last request."""
        unused = [one for one in self.keeper.held if self.keeper.kind(one) == "caretaker" and one not in self._uses]
        for workspace_id in unused:
            async with self._lock(workspace_id):
                if workspace_id not in self._uses and self.keeper.kind(workspace_id) == "caretaker":
                    await self._release(workspace_id)

    def _on_commit(self, events: tuple[CommittedEvent, ...]) -> None:
        for logged in events:
            if isinstance(logged.event, RunFinished):
                self._engine_part.note_end(logged.event.run)
            elif isinstance(logged.event, RunStarted):
                self._note_start(logged.workspace_id)

    def _note_start(self, workspace_id: str | None) -> None:
        """Live text follows. If another server has begun the run, it may be new, or own the workspace only now."""
        if self.looks.has_listeners and (workspace_id is None or self.keeper.fence(workspace_id) is None):
            self.looks.ask()

    @property
    def _engine_part(self) -> Engine:
        assert self._engine is not None, "start first"
        return self._engine

    @property
    def _services_part(self) -> Services:
        assert self._services is not None, "start first"
        return self._services

    @property
    def _shared_part(self) -> SharedParts:
        assert self._shared is not None, "start first"
        return self._shared

    @property
    def _store(self) -> Store:
        return self._shared_part.store

    @property
    def _ids(self) -> Ids:
        return self._shared_part.ids


def _facts_of(server: KnownServer) -> FleetServer:
    return FleetServer(
        server.id,
        server.host_id,
        is_alive=server.is_alive,
        is_dead=server.dead,
        has_address=server.address is not None,
    )
