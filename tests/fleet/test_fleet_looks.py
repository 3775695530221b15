"""Looks at the fleet are shared, and the latest one counts."""

import asyncio

from holdfast.errors import StoreUnreachable
from holdfast.fleet.fleet_looks import FleetLooks
from holdfast.fleet.known_fleet import KnownFleet
from holdfast.store.postgres.lease_table import KnownLease, KnownServer


async def test_one_look_serves_all_that_asked_before_it_began() -> None:
    begun, may_end, seen = asyncio.Queue[int](), asyncio.Semaphore(0), asyncio.Queue[int]()
    count = 0

    async def look() -> None:
        nonlocal count
        count += 1
        begun.put_nowait(count)
        await may_end.acquire()
        if count == 1:
            raise StoreUnreachable("the database does not answer")

    looks = FleetLooks(look)
    assert not looks.has_listeners
    unlisten = looks.listen(lambda: seen.put_nowait(count))
    looks.ask()
    looks.ask()
    assert await begun.get() == 1
    for _ in range(3):
        looks.ask()  # too late for the first one
    may_end.release()
    assert await begun.get() == 2
    may_end.release()
    assert [await seen.get(), await seen.get()] == [1, 2]
    unlisten()
    assert not looks.has_listeners
    await looks.aclose()
    assert begun.empty()


def test_an_earlier_look_does_not_replace_what_a_later_one_found() -> None:
    known = KnownFleet()
    first, second = known.begin_look(), known.begin_look()
    new = KnownServer("new", "host", "http://new", "", 3.0, dead=False, info={})
    known.note_servers([new], look=second)
    known.note_leases([KnownLease("wsp_1", "new", 2, "owner"), KnownLease("wsp_2", None, 2, "owner")], look=second)
    known.note_servers([], look=first)
    known.note_leases([KnownLease("wsp_1", "old", 1, "owner")], look=first)
    assert (known.servers, known.leases) == ({"new": new}, {"wsp_1": "new"})
