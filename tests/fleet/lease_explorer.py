"""Explores every reachable state of two servers, one workspace and one database.

The servers renew, watch, take, write, start tools, release, are paused (SIGSTOP), killed and started again, in every
order and any number of times. Renewals and commits are in flight: the server sends, the database applies, the server
learns the result. Time is counted in ticks and stored relative to now; so there are finitely many states, and all are
visited. The wall clocks of the servers are wrong.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from types import ModuleType

from holdfast.fleet import lease_rules
from holdfast.fleet.lease_rules import LeaseRow, LeaseTimes, ServerRow

TIMES = LeaseTimes(lasts=2, stops_after=1)
_OLDEST = -2
"""Times further back are alike."""
_GONE = ServerRow("gone", expires_at=0, dead=True)
"""An incarnation whose server was started again. It holds the lock of its home, so the old one is known to be dead."""
CLOCK_ERROR = 3
"""How wrong the servers' own clocks are. Only a mistake makes it matter."""


class BrokenLeaseError(AssertionError):
    """A state that must not be reachable."""


@dataclass(frozen=True, slots=True)
class Process:
    """A server process, with what it believes. `row` is what the database has of it."""

    row: ServerRow
    is_up: bool = True
    is_paused: bool = False
    sent: int | None = None
    """When the renewal that is in flight was sent."""
    renewed: int = 0
    """When the last renewal was sent that succeeded."""
    fence: int | None = None
    """The fence that it believes to hold."""
    writing: int | None = None
    """The fence of a commit that passed the check and holds its lock."""
    has_written: bool = False
    works: bool = False
    """Whether a tool of it runs."""
    seen_since: int | None = None
    """Since when it sees the present row of the other server; None: it has not looked yet."""


@dataclass(frozen=True, slots=True)
class World:
    servers: tuple[Process, ...]
    lease: LeaseRow = field(default_factory=LeaseRow)
    now: int = 0
    """Always 0 between two steps."""


@dataclass(frozen=True, slots=True)
class Faults:
    """Mistakes outside the rules that the exploration must find too."""

    no_lock: bool = False
    servers_clock: bool = False
    impatient: bool = False
    """It does not wait for a renewal after it has first seen a server."""


def first_world() -> World:
    return World(tuple(Process(ServerRow(f"s{n}", expires_at=TIMES.lasts)) for n in (0, 1)))


def explore(rules: ModuleType = lease_rules, faults: Faults | None = None) -> tuple[int, int, int]:
    """Visit every state. Returns the number of states, of transitions, and of takeovers from a dead server."""
    faults = faults or Faults()
    start = first_world()
    seen = {start}
    waiting = deque([start])
    transitions = takeovers = 0
    while waiting:
        world = waiting.popleft()
        for name, after in _steps(world, rules, faults):
            transitions += 1
            takeovers += name == "take over"
            _check(world, after, name)
            after = _canonical(after)
            if after not in seen:
                seen.add(after)
                waiting.append(after)
    return len(seen), transitions, takeovers


def _steps(world: World, rules: ModuleType, faults: Faults) -> Iterator[tuple[str, World]]:
    if _timers_are_done(world, rules):
        yield "tick", replace(world, now=world.now + 1)
    for index, process in enumerate(world.servers):
        for name, changed, lease in _own_steps(world, index, process, rules, faults):
            yield name, _with(world, index, changed, lease)
        if process.is_up and process.fence is None:
            yield from _declarations(world, index, process, rules, faults)


def _timers_are_done(world: World, rules: ModuleType) -> bool:
    """A process that is not paused stops its work in time; its timers do not wait for the next tick."""
    return not any(
        one.works and not one.is_paused and rules.must_stop(since_renewal=world.now + 1 - one.renewed, times=TIMES)
        for one in world.servers
    )


def _with(world: World, index: int, process: Process, lease: LeaseRow | None) -> World:
    is_new_row = process.row.expires_at != world.servers[index].row.expires_at
    servers = tuple(
        process if n == index else replace(old, seen_since=None) if is_new_row else old
        for n, old in enumerate(world.servers)
    )
    return replace(world, servers=servers, lease=world.lease if lease is None else lease)


def _own_steps(
    world: World, index: int, one: Process, rules: ModuleType, faults: Faults
) -> Iterator[tuple[str, Process, LeaseRow | None]]:
    if not one.is_up:
        lease = replace_holder(world.lease, _GONE.id) if world.lease.holder == one.row.id else None
        yield "start again", Process(ServerRow(one.row.id, expires_at=TIMES.lasts)), lease
        return
    if one.fence is not None:  # of one that owns nothing, a pause or its end is like doing nothing
        yield "kill", _down(one), None
    if one.sent is not None:  # the database does not know that a server is paused
        row = rules.renew(one.row, now=world.now, times=TIMES)
        if row is not None:
            yield "renewal", replace(one, row=row, renewed=one.sent, sent=None), None
        elif not one.is_paused:
            yield "told dead", _down(one), None
    if one.is_paused:
        late = rules.must_stop(since_renewal=world.now - one.renewed, times=TIMES)
        yield "continue", replace(one, is_paused=False, works=one.works and not late), None  # timers come first
        if one.writing is not None:
            yield "idle transaction ends", replace(one, writing=None), None
        return
    if one.fence is not None:
        yield "pause", replace(one, is_paused=True), None
    yield from _steps_of_owner(world, one, rules, faults)


def _steps_of_owner(
    world: World, one: Process, rules: ModuleType, faults: Faults
) -> Iterator[tuple[str, Process, LeaseRow | None]]:
    if one.sent is None:
        yield "send renewal", replace(one, sent=world.now), None
    if one.works:
        yield "stop", replace(one, works=False), None
    if one.writing is not None:
        yield "commit", replace(one, writing=None, has_written=True), None
        return
    if one.fence is None:
        rows = {other.row.id: other.row for other in world.servers} | {_GONE.id: _GONE}
        holder = None if world.lease.holder is None else rows[world.lease.holder]
        is_locked = any(other.writing is not None for other in world.servers) and not faults.no_lock
        taken = None if is_locked else rules.take(world.lease, taker=one.row, holder=holder)
        if taken is not None:
            name = "take" if holder is None else "take over"
            yield name, replace(one, fence=taken.fence, has_written=False), taken
        return
    if rules.may_write(world.lease, server_id=one.row.id, fence=one.fence):
        yield "begin commit", replace(one, writing=one.fence), None
    if not one.works and (freed := rules.release(world.lease, server_id=one.row.id, fence=one.fence)) is not None:
        yield "release", replace(one, fence=None, has_written=False), freed
    in_time = not rules.must_stop(since_renewal=world.now - one.renewed, times=TIMES)
    if one.has_written and not one.works and in_time:
        yield "start tool", replace(one, works=True), None


def _declarations(
    world: World, index: int, one: Process, rules: ModuleType, faults: Faults
) -> Iterator[tuple[str, World]]:
    other = world.servers[1 - index]
    if other.row.dead:
        return
    if one.seen_since is None:
        yield "look", _with(world, index, replace(one, seen_since=world.now), None)
        return
    seen_for = TIMES.lasts if faults.impatient else world.now - one.seen_since
    clock = world.now + CLOCK_ERROR if faults.servers_clock else world.now
    if rules.may_declare(seen_for=seen_for, times=TIMES):
        dead = rules.declare_dead(other.row, now=clock)
        if dead is not None:
            yield "declare dead", _with(world, 1 - index, replace(other, row=dead), None)


def replace_holder(lease: LeaseRow, holder: str) -> LeaseRow:
    return LeaseRow(holder, lease.fence)


def _canonical(world: World) -> World:
    """The same state with times relative to now, fences relative to the present one, and the servers in one order."""
    now, fence = world.now, world.lease.fence
    servers = [_relative(one, now=now, fence=fence) for one in world.servers]
    holder = world.lease.holder
    if _order(servers[0], holder) > _order(servers[1], holder):
        servers.reverse()
        names = {one.row.id: f"s{n}" for n, one in enumerate(servers)}
        servers = [replace(one, row=ServerRow(names[one.row.id], one.row.expires_at, one.row.dead)) for one in servers]
        holder = names.get(holder, holder) if holder else None
    return World(tuple(servers), LeaseRow(holder, 0))


def _relative(one: Process, *, now: int, fence: int) -> Process:
    return Process(
        ServerRow(one.row.id, max(one.row.expires_at - now, 0), one.row.dead),
        one.is_up,
        one.is_paused,
        None if one.sent is None else max(one.sent - now, _OLDEST),
        max(one.renewed - now, _OLDEST),
        None if one.fence is None else max(one.fence - fence, -1),
        None if one.writing is None else max(one.writing - fence, -1),
        one.has_written,
        one.works,
        None if one.seen_since is None else max(one.seen_since - now, -2),
    )


def _order(one: Process, holder: str | None) -> tuple[object, ...]:
    def number(value: int | None) -> int:
        return 9 if value is None else value

    return (
        (one.row.id == holder, one.row.expires_at, one.row.dead, one.is_up, one.is_paused, number(one.sent)),
        (one.renewed, number(one.fence), number(one.writing), one.has_written, one.works, number(one.seen_since)),
    )


def _down(one: Process) -> Process:
    """The process is gone, with its tools and its connections."""
    return Process(one.row, is_up=False)


def _check(before: World, after: World, step: str) -> None:
    lease = after.lease
    working = [one for one in after.servers if one.works and not one.is_paused]
    if len(working) > 1:
        raise BrokenLeaseError(f"two servers work at the same time: {after}")
    if step in ("take", "take over") and any(one.works for one in before.servers if not one.is_paused):
        raise BrokenLeaseError(f"a lease was taken from a server that works: {before}")
    renamed = step == "start again"  # its old incarnation has another name from now on
    if lease.fence < before.lease.fence or (
        not renamed and lease.holder != before.lease.holder and lease.fence == before.lease.fence
    ):
        raise BrokenLeaseError(f"the fence did not grow with a change of the holder: {after}")
    for was, one in zip(before.servers, after.servers, strict=True):
        if step in ("take", "take over") and was.fence is None and one.fence is not None and one.row.dead:
            raise BrokenLeaseError(f"a dead server took a lease: {before}")
        if step == "commit" and was.writing is not None and one.writing is None and one.has_written:
            is_holder = before.lease == LeaseRow(was.row.id, was.writing)
            if not is_holder:
                raise BrokenLeaseError(f"a commit with a stale fence: {before}")
        if was.row.dead and not one.row.dead and not renamed:
            raise BrokenLeaseError(f"a dead server lives again: {after}")
        if step == "renewal" and was.row.dead and was.sent is not None and one.sent is None:
            raise BrokenLeaseError(f"a dead server renewed: {after}")
        if one.row.dead and not was.row.dead and was.row.expires_at > before.now:
            raise BrokenLeaseError(f"a server was declared dead before its time was over: {before}")
    holders = [one for one in after.servers if one.fence is not None and one.fence == lease.fence]
    if len(holders) > 1:
        raise BrokenLeaseError(f"two servers believe to hold the same fence: {after}")
