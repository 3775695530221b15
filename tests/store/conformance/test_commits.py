"""Commits: all of a batch or nothing, events numbered in commit order, listeners."""

import asyncio
import gc
import weakref

import pytest

from holdfast.errors import StoreConflict
from holdfast.schema.events import (
    ConfigChanged,
    MessageUpdated,
    SessionDeleted,
)
from holdfast.schema.messages import Message, Text
from holdfast.store import Batch, LoggedEvent, Store
from holdfast.store import writes as w
from tests.store.batches import (
    AT,
    a_message,
    a_run,
    accept,
    end,
    event_numbers,
    new_session,
    new_workspace,
    says,
)
from tests.store.conftest import Reopen


@pytest.mark.promise("R1")
async def test_commits_survive_reopening(reopen: Reopen) -> None:
    store = await reopen()
    await store.commit(new_workspace())
    await store.commit(new_session(title="Plans"))
    await store.commit(accept(a_run(prompt="hello")))
    log_id, last = store.log_id, store.last_number
    store = await reopen()
    assert (await store.run("run_1")).prompt == "hello"
    assert (await store.session("ses_1")).title == "Plans"
    assert (store.log_id, store.last_number) == (log_id, last)


@pytest.mark.promise("R14")
async def test_a_batch_that_conflicts_leaves_nothing_behind(ledger: Store) -> None:
    await ledger.commit(accept(a_run()))
    before = ledger.last_number
    message = a_message("msg_1", Text("hi"))
    late = Batch(
        (w.PutMessage(message), w.UpdateRun(run_id="run_1", expect=("active",), state="stopping")),
        (MessageUpdated(at=AT, session_id="ses_1", message=message),),
    )
    with pytest.raises(StoreConflict, match="run 'run_1' is queued, not active"):
        await ledger.commit(late)
    assert (await ledger.messages("ses_1", limit=10)).items == ()
    assert ledger.last_number == before
    assert (await event_numbers(ledger))[-1] == before


@pytest.mark.promise("E1")
async def test_event_numbers_follow_commit_order_and_conflicts_leave_no_gap(ledger: Store) -> None:
    batches = [says(f"msg_{n}", "x") for n in range(20)]
    batches.insert(7, end(a_run("run_unknown")))
    results = await asyncio.gather(*(ledger.commit(batch) for batch in batches), return_exceptions=True)
    assert [type(result) for result in results if isinstance(result, BaseException)] == [StoreConflict]
    given = [number for result in results if not isinstance(result, BaseException) for number in result.numbers]
    assert given == list(range(2, 22))
    assert await event_numbers(ledger) == list(range(1, 22))


@pytest.mark.promise("E1")
async def test_event_numbers_are_not_reused_after_pruning(reopen: Reopen) -> None:
    store = await reopen()
    await store.commit(new_workspace())
    await store.commit(new_session())
    await store.commit(says("msg_1", "x"))
    await store.prune_events(before="2027-01-01T00:00:00.000Z")
    assert await event_numbers(store) == []
    store = await reopen()
    assert store.last_number == 2
    assert (await store.commit(says("msg_2", "x"))).numbers == (3,)


async def test_a_conflict_does_not_affect_other_batches_of_the_same_commit(ledger: Store) -> None:
    good = [accept(a_run(f"run_{n}", seq=n)) for n in range(1, 30)]
    bad = [accept(a_run(f"run_x{n}", seq=n)) for n in range(1, 30)]
    mixed = [batch for pair in zip(good, bad, strict=True) for batch in pair]
    results = await asyncio.gather(*(ledger.commit(batch) for batch in mixed), return_exceptions=True)
    assert [isinstance(result, StoreConflict) for result in results] == [False, True] * 29
    assert len((await ledger.runs("ses_1", limit=100)).items) == 29


async def test_listeners_get_each_commit_once_in_order_before_its_caller_continues(ledger: Store) -> None:
    heard: list[int] = []

    def listen(events: tuple[LoggedEvent, ...]) -> None:
        heard.extend(event.number for event in events)

    stop = ledger.listen(listen)

    async def commit(batch: Batch) -> None:
        committed = await ledger.commit(batch)
        assert heard[-1] >= committed.numbers[-1]

    await asyncio.gather(*(commit(says(f"msg_{n}", "x")) for n in range(50)))
    assert heard == list(range(2, 52))
    stop()
    await ledger.commit(says("msg_last", "x"))
    assert heard[-1] == 51


async def test_cancelling_the_caller_does_not_withdraw_its_batch(ledger: Store) -> None:
    heard: list[str] = []
    ledger.listen(lambda events: heard.extend(event.kind for event in events))
    task = asyncio.create_task(ledger.commit(says("msg_1", "x")))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await ledger.commit(says("msg_2", "y"))
    assert [message.id for message in (await ledger.messages("ses_1", limit=9)).items] == ["msg_1", "msg_2"]
    assert heard == ["message.updated", "message.updated"]


async def test_an_event_of_an_unknown_session_is_a_conflict(store: Store) -> None:
    with pytest.raises(StoreConflict, match="session 'ses_x' does not exist"):
        await store.commit(Batch((), (ConfigChanged(at=AT), SessionDeleted(at=AT, session_id="ses_x"))))
    assert store.last_number == 0
    assert (await store.commit(Batch((), (ConfigChanged(at=AT),)))).numbers == (1,)


class WatchedBatch(Batch, frozen=True, weakref=True):
    """A batch whose end can be seen."""


class WatchedMessage(Message, frozen=True, weakref=True):
    """A message whose end can be seen."""


async def test_nothing_of_a_commit_is_kept_while_the_store_waits_for_the_next(ledger: Store) -> None:
    """An answer may have many megabytes, and the next commit may come hours later."""
    gone: list[str] = []

    async def commit(*, message_id: str, refused: bool = False) -> None:
        message = WatchedMessage(
            id=message_id, session_id="ses_1", run_id="run_1", role="user", seq=0, created_at=AT, parts=(Text("x"),)
        )
        writes: list[w.AnyWrite] = [w.PutMessage(message)]
        if refused:
            writes.append(w.UpdateRun(run_id="run_unknown", expect=("active",), state="stopping"))
        batch = WatchedBatch(tuple(writes), (MessageUpdated(at=AT, session_id="ses_1", message=message),))
        weakref.finalize(batch, gone.append, f"batch of {message_id}")
        weakref.finalize(message, gone.append, message_id)
        await ledger.commit(batch)

    await asyncio.gather(*(commit(message_id=f"msg_{n}") for n in range(3)))
    with pytest.raises(StoreConflict):
        await commit(message_id="msg_3", refused=True)
    expected = {name for n in range(4) for name in (f"msg_{n}", f"batch of msg_{n}")}
    while set(gone) != expected:
        await asyncio.sleep(0.001)  # the thread lets go after it has answered
        gc.collect()
