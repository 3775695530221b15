"""Keeps the leases of this server: registers it, renews, takes and releases, and watches the other servers.

`LeaseKeeper` is the `Fences` of the store. It blocks nothing: its statements run in the store's threads. If it learns
that the server was declared dead, or cannot renew in time, it says so (`on_dead`, `on_late`, `on_in_time`); it does not
decide what follows.

Nothing delays a renewal: it has connections of its own, is one message, and is sent over another connection if the
answer does not come. What follows from what it read is done by another task.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol, TypeVar

from holdfast.errors import HoldfastError, LeaseLost
from holdfast.fleet.known_fleet import KnownFleet
from holdfast.fleet.lease_rules import LeaseTimes, may_declare, must_stop
from holdfast.store.postgres import lease_table
from holdfast.store.postgres.connection import PostgresConnection
from holdfast.store.postgres.lease_table import FleetLook, KnownLease, KnownServer, LeaseKind
from holdfast.store.postgres.reader_pool import Ask

T = TypeVar("T")

_logger = logging.getLogger(__name__)

_RETRY_SECONDS = 0.5
"""How soon a renewal is tried again that failed: a database that is back is found before the owner must stop."""


class LeaseStore(Protocol):
    """What the keeper needs of the store."""

    async def transact(self, work: Callable[[PostgresConnection], T]) -> T: ...

    async def exchange(self, ask: Ask[T]) -> T:
        """Run a transaction that is sent as one message. Does not wait for anything else that the store does."""
        ...


class _Answer(NamedTuple):
    sent: float
    """When the renewal was sent."""
    come: float
    """When its answer was there."""
    number: int
    """The number of the look; see `KnownFleet`."""
    look: FleetLook


class LeaseKeeper:
    def __init__(
        self,
        *,
        host_id: str,
        times: LeaseTimes,
        home: str,
        on_dead: Callable[[], None],
        server_id: str | None = None,
    ) -> None:
        self.server_id = server_id or f"srv_{secrets.token_hex(8)}"
        """The id of this incarnation. A restarted server has another one."""
        self.host_id = host_id
        self.times = times
        self.known = KnownFleet()
        self.info: Callable[[], dict[str, Any]] = dict
        """What this server tells about itself with each renewal."""
        self.on_late: Callable[[], None] = lambda: None
        """Called when the work must stop, because the leases could not be renewed in time."""
        self.on_in_time: Callable[[], None] = lambda: None
        """Called when the leases are renewed again after that."""
        self.address: str | None = None
        """Where other servers reach this one; told with each renewal."""
        self._home = home
        self._on_dead = on_dead
        self._fences: dict[str, tuple[int, LeaseKind]] = {}
        self._in_change: set[str] = set()
        """The workspaces whose leases are being taken or released."""
        self._renewed_at = 0.0
        """When the last renewal was sent that succeeded, by the steady clock."""
        self._is_late = False
        self._dead = False
        self._seen: dict[str, tuple[str, float]] = {}
        """The last renewal of each other server that was seen, and since when."""
        self._overdue: tuple[KnownServer, ...] = ()
        """The servers that may be declared dead as of the last look."""
        self._known_leases: tuple[KnownLease, ...] = ()
        """The leases as of the last look."""
        self._has_looked = asyncio.Event()
        self._store: LeaseStore | None = None

    # What the store asks

    def fence(self, workspace_id: str) -> int | None:
        """Part of `Fences`: the number of the lease; None if it is not held."""
        held = self._fences.get(workspace_id)
        return None if held is None or self._dead else held[0]

    def lost(self) -> LeaseLost:
        """Part of `Fences`. Called in another thread."""
        return LeaseLost("this server does not own the workspace any more; try again")

    # What the fleet asks

    @property
    def servers(self) -> dict[str, KnownServer]:
        """All servers as of the last look, by id."""
        return self.known.servers

    @property
    def leases(self) -> dict[str, str]:
        """The holder of each lease as of the last look, by workspace."""
        return self.known.leases

    def kind(self, workspace_id: str) -> LeaseKind | None:
        held = self._fences.get(workspace_id)
        return None if held is None else held[1]

    @property
    def held(self) -> tuple[str, ...]:
        return tuple(self._fences)

    @property
    def is_late(self) -> bool:
        """Whether the server must not begin anything: it could not renew its leases in time."""
        return self._is_late or self._dead

    async def take(self, workspace_id: str, kind: LeaseKind) -> bool:
        """Take a lease that is free or whose holder is dead. True also if this server has it already."""
        if workspace_id in self._fences:
            return True
        with self._changing(workspace_id):
            fence = await self.transact(
                lambda sql: lease_table.take(sql, workspace_id, server_id=self.server_id, kind=kind)
            )
            if fence is None:
                return False
            self._fences[workspace_id] = (fence, kind)
        _logger.info("owns workspace %s as %s, fence %d", workspace_id, kind, fence)
        return True

    async def release(self, workspace_id: str) -> None:
        """Release a lease. Nothing of its workspace may be written any more."""
        held = self._fences.pop(workspace_id, None)
        if held is not None:
            with self._changing(workspace_id):
                await self._free(workspace_id, held[0])

    async def _free(self, workspace_id: str, fence: int) -> None:
        await self.transact(lambda sql: lease_table.release(sql, workspace_id, server_id=self.server_id, fence=fence))

    @contextmanager
    def _changing(self, workspace_id: str) -> Iterator[None]:
        self._in_change.add(workspace_id)
        try:
            yield
        finally:
            self._in_change.discard(workspace_id)

    async def _free_forgotten(self, leases: tuple[KnownLease, ...]) -> None:
        """Free the leases that this server has by the table only: the answer to a change was lost, or it failed.

        Nobody else could take them while this server lives. A lease that changed after it was read has another fence.
        """
        for lease in leases:
            known = lease.workspace_id in self._fences or lease.workspace_id in self._in_change
            if lease.server_id == self.server_id and not known:
                _logger.warning("the lease of workspace %s was not released; it is released now", lease.workspace_id)
                await self._free(lease.workspace_id, lease.fence)

    # Life

    async def register(self, store: LeaseStore) -> None:
        """Enter this server into the table of servers."""
        self._store = store
        sent = asyncio.get_running_loop().time()
        about = self._about()
        await self.transact(
            lambda sql: lease_table.register(
                sql, self.server_id, host_id=self.host_id, lasts=self.times.lasts, info=about
            )
        )
        self._renewed_at = sent
        await self.look()

    async def leave(self) -> None:
        """Release everything and leave the table."""
        self._fences.clear()
        if not self._dead:
            await self.transact(lambda sql: lease_table.leave(sql, self.server_id))

    async def keep(self) -> None:
        """Renew, and watch the other servers, until cancelled."""
        others = (
            asyncio.create_task(self._watch_time(), name="lease time"),
            asyncio.create_task(self._follow_looks(), name="lease upkeep"),
        )
        try:
            while not self._dead:
                pause = self.times.renews_after
                try:
                    self._note(await self._renew())
                except HoldfastError as error:
                    _logger.warning("the leases cannot be renewed now: %s", error)
                    self._seen.clear()  # what was seen before the database was away does not count
                    pause = min(pause, _RETRY_SECONDS)
                await asyncio.sleep(pause)
        finally:
            for task in others:
                task.cancel()

    async def look(self) -> None:
        """Read the tables of servers and leases."""
        look = self.known.begin_look()
        servers, leases = await self.transact(lambda sql: (lease_table.read_servers(sql), lease_table.read_leases(sql)))
        self.known.note_servers(servers, look=look)
        self.known.note_leases(leases, look=look)

    async def announce(self, address: str | None) -> None:
        """Tell the other servers at once where this one listens."""
        self.address = address
        about = self._about()
        await self.transact(lambda sql: lease_table.announce(sql, self.server_id, address=address, info=about))

    async def _renew(self) -> _Answer:
        """Renew once. While there is no answer, the renewal is sent over further connections: one may lead nowhere."""
        loop = asyncio.get_running_loop()
        waiting: set[asyncio.Task[_Answer]] = set()
        next_at = loop.time()
        try:
            while True:
                if loop.time() >= next_at:
                    waiting.add(asyncio.create_task(self._send_renewal(), name="renew leases"))
                    next_at = loop.time() + self.times.asks_again_after
                done, waiting = await asyncio.wait(
                    waiting, timeout=next_at - loop.time(), return_when=asyncio.FIRST_COMPLETED
                )
                answered = [one for one in done if one.exception() is None]
                if answered or not waiting:
                    return (answered or list(done))[0].result()
        finally:
            for one in waiting:
                one.cancel()

    async def _send_renewal(self) -> _Answer:
        assert self._store is not None, "register first"
        loop = asyncio.get_running_loop()
        sent, about, address = loop.time(), self._about(), self.address
        number = self.known.begin_look()
        look = await self._store.exchange(
            lambda sql: lease_table.renew(sql, self.server_id, lasts=self.times.lasts, address=address, info=about)
        )
        return _Answer(sent, loop.time(), number, look)

    def _note(self, answer: _Answer) -> None:
        look = answer.look
        self.known.note_servers(look.servers, look=answer.number)
        self.known.note_leases(look.leases, look=answer.number)
        if not look.is_renewed:
            self._dead = True
            self._fences.clear()
            _logger.critical("this server was declared dead: it did not renew its leases in time; it stops now")
            self._on_dead()
            return
        self._renewed_at = answer.sent
        if self._is_late and not must_stop(since_renewal=answer.come - answer.sent, times=self.times):
            self._is_late = False
            _logger.warning("the leases are renewed again")
            self.on_in_time()
        self._overdue = tuple(server for server in look.servers if self._is_overdue(server, answer))
        self._known_leases = look.leases
        self._has_looked.set()

    def _is_overdue(self, server: KnownServer, answer: _Answer) -> bool:
        """Whether a server may be declared dead that the answer shows. Remembers since when it looks like this."""
        if server.dead or server.id == self.server_id:
            self._seen.pop(server.id, None)
            return False
        renewals, since = self._seen.setdefault(server.id, (server.renewals, answer.come))
        if renewals != server.renewals:
            self._seen[server.id] = (server.renewals, answer.come)
            return False
        return server.expires_in <= 0 and may_declare(seen_for=answer.sent - since, times=self.times)

    def _about(self) -> dict[str, Any]:
        return {**self.info(), "home": f"{self.host_id}:{self._home}"}

    async def _follow_looks(self) -> None:
        """Do what follows from what the renewals read. It may take long, and fail: the next look shows it again."""
        while True:
            await self._has_looked.wait()
            self._has_looked.clear()
            try:
                for server in self._overdue:
                    await self._declare_dead(server)
                await self._free_forgotten(self._known_leases)
            except HoldfastError as error:
                _logger.warning("cannot follow up on the leases now: %s", error)

    async def _declare_dead(self, server: KnownServer) -> None:
        assert self._store is not None, "register first"
        loop = asyncio.get_running_loop()
        decided = loop.time()

        def declare(sql: PostgresConnection) -> Callable[[], bool]:
            if loop.time() - decided > self.times.asks_again_after:
                return lambda: False  # the database was away meanwhile: the server gets the time to renew
            return lease_table.declare_dead(sql, server.id)

        if await self._store.exchange(declare):
            _logger.warning("server %s of host %s is dead: it did not renew", server.id, server.host_id)
        await self.look()

    async def _watch_time(self) -> None:
        """Say when the work must stop, by the steady clock alone: the database may not answer."""
        loop = asyncio.get_running_loop()
        while True:
            left = self._renewed_at + self.times.stops_after - loop.time()
            if left > 0:
                await asyncio.sleep(left)
            elif must_stop(since_renewal=loop.time() - self._renewed_at, times=self.times):
                if not self._is_late:
                    self._is_late = True
                    _logger.error("the leases could not be renewed in time; active runs are stopped")
                    self.on_late()
                await asyncio.sleep(self.times.renews_after)

    async def transact(self, work: Callable[[PostgresConnection], T]) -> T:
        """Run the work in one transaction. Raises `StoreUnreachable` while the database is away."""
        assert self._store is not None, "register first"
        return await self._store.transact(work)
