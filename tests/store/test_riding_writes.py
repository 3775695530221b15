"""Writes that nobody waits for are kept while the store cannot be written, within limits."""

import asyncio

from holdfast.errors import StoreConflict, StoreUnwritable
from holdfast.store import Batch, Committed
from holdfast.store.riding_writes import MAX_WAITING, RidingWrites
from holdfast.store.writes import DeleteSession, EndAudit


async def test_refused_writes_ride_again_before_newer_ones_and_the_oldest_are_dropped() -> None:
    loop = asyncio.get_running_loop()
    sent: list[tuple[Batch, asyncio.Future[Committed]]] = []

    def submit(batch: Batch) -> asyncio.Future[Committed]:
        future: asyncio.Future[Committed] = loop.create_future()
        sent.append((batch, future))
        return future

    def numbers(batch: Batch) -> list[int]:
        return [write.status for write in batch.writes if isinstance(write, EndAudit)]

    riding = RidingWrites(submit, loop=loop)
    riding.send_alone()
    assert not sent
    own = DeleteSession("ses_1", "at")
    for number in (1, 2):
        riding.add(EndAudit(id="aud_1", status=number))
    conflicting = riding.submit(Batch((own,), uses_reserve=True))
    assert (sent[0][0].writes[-1], sent[0][0].uses_reserve) == (own, True)
    riding.add(EndAudit(id="aud_1", status=3))
    conflicting.set_exception(StoreConflict("no"))
    await asyncio.wait({conflicting})
    assert isinstance(conflicting.exception(), StoreConflict)
    assert [numbers(batch) for batch, _ in sent] == [[1, 2], [1, 2]]
    assert own not in sent[1][0].writes
    sent[1][1].set_exception(StoreUnwritable("the disk is full"))
    await asyncio.wait({sent[1][1]})
    riding.send_alone()
    assert numbers(sent[2][0]) == [1, 2, 3]
    for number in range(MAX_WAITING):
        riding.add(EndAudit(id="aud_1", status=number))
    sent[2][1].set_exception(StoreUnwritable("the disk is full"))
    await asyncio.wait({sent[2][1]})
    riding.close()
    assert numbers(sent[3][0]) == list(range(MAX_WAITING))
    sent[3][1].set_exception(StoreConflict("one of them is wrong: they are lost, and later commits work"))
    await asyncio.wait({sent[3][1]})
    riding.close()
    assert len(sent) == 4
