"""Grants are read once, and again after every commit that may change them."""

import asyncio

from holdfast.schema.approvals import Grant
from holdfast.store import Batch
from holdfast.store import writes as w
from holdfast.store.sqlite.known_grants import KnownGrants

GRANT = Grant("grt_1", "wsp_1", "bash: make")


class Reads:
    """A database with grants whose reads are counted, and can be held."""

    def __init__(self) -> None:
        self.grants: tuple[Grant, ...] = ()
        self.count = 0
        self.may_end = asyncio.Event()
        self.may_end.set()

    async def __call__(self) -> tuple[Grant, ...]:
        self.count += 1
        found = self.grants
        await self.may_end.wait()
        return found


async def test_grants_are_read_once_until_a_commit_may_change_them() -> None:
    known, reads = KnownGrants(), Reads()
    changes: tuple[w.AnyWrite, ...] = (
        w.AddGrant(GRANT),
        w.RemoveGrants(workspace_id="wsp_1"),
        w.DeleteSession("ses_1", at="2026-01-01T00:00:00.000Z"),
    )
    for number, change in enumerate(changes, start=1):
        for _ in range(3):
            assert await known.get("wsp_1", "ses_1", read=reads) == reads.grants
        assert reads.count == number
        known.forget_changed(Batch(()))
        assert await known.get("wsp_1", "ses_1", read=reads) == reads.grants
        assert reads.count == number
        reads.grants = (GRANT,) if isinstance(change, w.AddGrant) else ()
        known.forget_changed(Batch((change,)))
    assert await known.get("wsp_1", "ses_1", read=reads) == ()
    assert await known.get("wsp_1", None, read=reads) == ()
    assert await known.get("wsp_2", None, read=reads) == ()
    assert reads.count == len(changes) + 2


async def test_a_read_that_a_commit_overtakes_is_not_kept() -> None:
    known, reads = KnownGrants(), Reads()
    reads.may_end.clear()
    overtaken = asyncio.create_task(known.get("wsp_1", "ses_1", read=reads))
    await asyncio.sleep(0)
    reads.grants = (GRANT,)
    known.forget_changed(Batch((w.AddGrant(GRANT),)))
    reads.may_end.set()
    assert await overtaken == ()
    assert await known.get("wsp_1", "ses_1", read=reads) == (GRANT,)
    assert reads.count == 2


async def test_a_session_has_its_own_grants_and_those_of_the_workspace() -> None:
    known, reads = KnownGrants(), Reads()
    first, second = (Grant(f"grt_{name}", "wsp_1", "bash: ls", f"ses_{name}") for name in ("a", "b"))
    reads.grants = (first, GRANT, second)
    assert await known.get("wsp_1", "ses_a", read=reads) == (first, GRANT)
    assert await known.get("wsp_1", "ses_b", read=reads) == (GRANT, second)
    assert await known.get("wsp_1", "ses_c", read=reads) == (GRANT,)
    assert await known.get("wsp_1", None, read=reads) == (GRANT,)
    assert reads.count == 1
