"""The rules of leases: who may renew, declare dead, take, release and write. Pure.

The statements of `store/postgres/lease_table.py` apply the same rules to rows; a test compares both. ``now`` and
``expires_at`` are the database's clock. What an owner decides by itself uses only durations of its own steady clock.

- A server is alive until it is declared dead. It may renew late: until somebody declared it dead, nobody took anything.
- A server is declared dead when its time is over by the database's clock. That is final: the same incarnation never
  renews or takes again, and must start anew.
- A lease can be taken if it is free or its holder is dead, or by its holder: one that does not know of it, because the
  answer to a change was lost. Each change of the holder makes the fence greater by one.
- A commit is allowed for the holder with the current fence. The check locks the lease until the commit is done, so that
  a commit is wholly before or after each change of the holder.
- An owner that could not renew stops its work `stops_after` seconds after it *sent* the last renewal that succeeded.
  The database counts from a later moment and waits longer, so the work has stopped before anyone else can begin.
"""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.schema.base import Value


class LeaseTimes(Value, frozen=True):
    """Durations in seconds."""

    lasts: float
    """How long a renewal lasts, by the database's clock."""
    stops_after: float
    """How long an owner works after it sent a renewal. Shorter than ``lasts``."""

    @property
    def renews_after(self) -> float:
        """How long after a renewal the next one is sent."""
        return self.lasts / 6

    @property
    def gives_up_after(self) -> float:
        """How long a renewal may take: until the owner must stop."""
        return self.stops_after - self.renews_after

    @property
    def asks_again_after(self) -> float:
        """How long a renewal is waited for before it is sent over another connection, too.

        A connection may lead nowhere without a word. So two more are tried before the owner must stop.
        """
        return self.gives_up_after / 3


class ServerRow(Value, frozen=True):
    """One incarnation of a server."""

    id: str
    expires_at: float
    dead: bool = False


class LeaseRow(Value, frozen=True):
    """The lease of one workspace."""

    holder: str | None = None
    fence: int = 0


def renew(server: ServerRow, *, now: float, times: LeaseTimes) -> ServerRow | None:
    """The renewed row; ``None`` if the server was declared dead."""
    if server.dead:
        return None
    return replace(server, expires_at=now + times.lasts)


def declare_dead(server: ServerRow, *, now: float) -> ServerRow | None:
    """The row of a dead server; ``None`` if its time is not over, or it is dead already."""
    if server.dead or server.expires_at > now:
        return None
    return replace(server, dead=True)


def take(lease: LeaseRow, *, taker: ServerRow, holder: ServerRow | None) -> LeaseRow | None:
    """The lease with its new holder; ``None`` if it cannot be taken.

    ``holder`` is the row of the present holder; ``None`` if the lease is free.
    """
    if taker.dead or (holder is not None and not holder.dead and holder.id != taker.id):
        return None
    return LeaseRow(taker.id, lease.fence + 1)


def release(lease: LeaseRow, *, server_id: str, fence: int) -> LeaseRow | None:
    """The free lease; ``None`` if the server does not hold it any more."""
    if not may_write(lease, server_id=server_id, fence=fence):
        return None
    return LeaseRow(None, lease.fence + 1)


def may_write(lease: LeaseRow, *, server_id: str, fence: int) -> bool:
    """Whether a commit with this fence is allowed."""
    return lease.holder == server_id and lease.fence == fence


def must_stop(*, since_renewal: float, times: LeaseTimes) -> bool:
    """Whether an owner must stop its work: its last renewal that succeeded was sent so many seconds ago."""
    return since_renewal >= times.stops_after


def may_declare(*, seen_for: float, times: LeaseTimes) -> bool:
    """Whether a server may declare another one dead whose row it has seen unchanged for so many seconds.

    The database may have been away. Then everyone's time is over when it is back, and everyone gets the time to renew.
    """
    return seen_for >= times.lasts
