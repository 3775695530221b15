"""How the threads of the stores take their work from the queue."""

import threading
import weakref
from itertools import product

import pytest

from holdfast.store.pending_work import MAX_GROUP, PendingBatch, WorkQueue


def _batch() -> PendingBatch:
    return PendingBatch.__new__(PendingBatch)


@pytest.mark.parametrize("kinds", list(product("bf", repeat=5)))
def test_waiting_batches_are_one_group_and_everything_keeps_its_order(kinds: tuple[str, ...]) -> None:
    items = [_batch() if kind == "b" else kind for kind in kinds]
    work: WorkQueue[str] = WorkQueue()
    for item in items:
        work.put(item)
    work.end()
    found = list(work.groups())
    flat = [one for item in found for one in (item if isinstance(item, list) else [item])]
    assert flat == items
    expected = "".join(kinds).replace("f", " f ").split()
    assert ["b" * len(item) if isinstance(item, list) else item for item in found] == expected


def test_a_group_that_has_been_taken_does_not_grow() -> None:
    work: WorkQueue[str] = WorkQueue()
    first, second = _batch(), _batch()
    work.put(first)
    taking = work.groups()
    assert next(taking) == [first]
    work.put(second)
    work.end()
    assert list(taking) == [[second]]


def test_a_group_has_a_maximum() -> None:
    work: WorkQueue[str] = WorkQueue()
    for _ in range(MAX_GROUP + 1):
        work.put(_batch())
    work.end()
    assert [len(item) for item in work.groups()] == [MAX_GROUP, 1]


def test_batches_can_be_taken_out_and_the_rest_keeps_its_order() -> None:
    work: WorkQueue[str] = WorkQueue()
    batches = [_batch(), _batch()]
    for item in ("one", batches[0], "two", batches[1]):
        work.put(item)
    work.end()
    assert work.take_batches() == batches
    assert list(work.groups()) == ["one", "two"]
    assert work.count_waiting() == 0


class WatchedBatch(PendingBatch):
    __slots__ = ("__weakref__",)


@pytest.mark.parametrize("together", [1, 3, MAX_GROUP])
def test_a_thread_that_waits_for_more_has_no_reference_to_the_last_batches(together: int) -> None:
    work: WorkQueue[str] = WorkQueue()
    gone = threading.Semaphore(0)
    for _ in range(together):
        batch = WatchedBatch.__new__(WatchedBatch)
        weakref.finalize(batch, gone.release)
        work.put(batch)
    del batch

    def take() -> None:
        for group in work.groups():
            assert len(group) == together
            del group

    thread = threading.Thread(target=take)
    thread.start()
    assert [gone.acquire(timeout=30) for _ in range(together)] == [True] * together
    work.end()
    thread.join()
