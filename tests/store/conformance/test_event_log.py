"""Reading and pruning the event log."""

import asyncio

import pytest

from holdfast.schema.events import (
    ConfigChanged,
)
from holdfast.store import Batch, Store
from tests.store.batches import (
    AT,
    a_run,
    accept,
    end,
    event_numbers,
    new_session,
    new_workspace,
    says,
)
from tests.store.conftest import Reopen


async def test_events_are_filtered_by_workspace_and_by_session_with_descendants(ledger: Store) -> None:
    await ledger.commit(new_workspace("wsp_2"))
    await ledger.commit(new_session("ses_2", workspace_id="wsp_2"))  # event 2
    await ledger.commit(new_session("ses_1_1", parent_id="ses_1"))  # event 3
    await ledger.commit(new_session("ses_1_1_1", parent_id="ses_1_1"))  # event 4
    await ledger.commit(Batch((), (ConfigChanged(at=AT),)))  # event 5, of no workspace
    await ledger.commit(Batch((), (ConfigChanged(at=AT, workspace_id="wsp_2"),)))  # event 6
    assert await event_numbers(ledger) == [1, 2, 3, 4, 5, 6]
    assert await event_numbers(ledger, workspace_id="wsp_1") == [1, 3, 4, 5]
    assert await event_numbers(ledger, workspace_id="wsp_2") == [2, 5, 6]
    assert await event_numbers(ledger, session_id="ses_1") == [1, 3, 4]
    assert await event_numbers(ledger, session_id="ses_1_1") == [3, 4]
    assert await event_numbers(ledger, session_id="ses_2") == [2]
    assert set(await ledger.descendants("ses_1")) == {"ses_1_1", "ses_1_1_1"}


async def test_a_log_page_says_how_far_it_was_read(ledger: Store) -> None:
    await ledger.commit(new_session("ses_2"))
    for n in range(5):
        await ledger.commit(says(f"msg_{n}", "x" * 100, session_id="ses_2"))
    page = await ledger.events_after(0, upto=7, session_id="ses_1", limit=10)
    assert ([event.number for event in page.events], page.passed) == ([1], 7)
    page = await ledger.events_after(1, upto=7, session_id="ses_2", limit=2)
    assert ([event.number for event in page.events], page.passed) == ([2, 3], 3)
    page = await ledger.events_after(2, upto=7, max_bytes=1)
    assert ([event.number for event in page.events], page.passed) == ([3], 3)
    page = await ledger.events_after(2, upto=4)
    assert ([event.number for event in page.events], page.passed) == ([3, 4], 4)
    page = await ledger.events_after(7, upto=7)
    assert (page.events, page.passed) == ((), 7)


@pytest.mark.promise("E8")
async def test_pruning_stops_at_the_oldest_unfinished_run(ledger: Store) -> None:
    run = a_run()
    old, young = "2026-01-01T00:00:00.000Z", "2026-01-09T00:00:00.000Z"
    await ledger.commit(Batch((), (ConfigChanged(at=old),)))  # 2
    await ledger.commit(accept(run, at=old))  # 3
    await ledger.commit(Batch((), (ConfigChanged(at=old),)))  # 4
    await ledger.commit(Batch((), (ConfigChanged(at=young),)))  # 5
    await ledger.commit(Batch((), (ConfigChanged(at=old),)))  # 6, an old event after a newer one is not pruned
    assert await ledger.prune_events(before="2026-01-05T00:00:00.000Z") == 2
    assert (await event_numbers(ledger), ledger.oldest_number) == ([3, 4, 5, 6], 3)
    await ledger.commit(end(run, at=young))  # 7
    assert await ledger.prune_events(before="2026-01-05T00:00:00.000Z") == 2
    assert (await event_numbers(ledger), ledger.oldest_number) == ([5, 6, 7], 5)
    assert (await ledger.events_after(0, upto=7)).pruned == 4
    assert await ledger.prune_events(before="2026-01-05T00:00:00.000Z") == 0


async def test_the_pruned_number_survives_reopening(reopen: Reopen) -> None:
    store = await reopen()
    for _ in range(3):
        await store.commit(Batch((), (ConfigChanged(at=AT),)))
    await store.prune_events(before="2027-01-01T00:00:00.000Z")
    store = await reopen()
    assert (store.oldest_number, store.last_number) == (4, 3)


@pytest.mark.promise("E7")
async def test_every_page_has_the_event_number_it_is_true_at(ledger: Store) -> None:
    """During commits, a page contains exactly the messages up to its event number."""

    async def write() -> None:
        for n in range(1, 60):
            await ledger.commit(says(f"msg_{n}", "x"))

    async def read() -> None:
        while not writing.done():
            page = await ledger.messages("ses_1", limit=1000)
            assert page.at == len(page.items) + 1

    writing = asyncio.create_task(write())
    await asyncio.gather(writing, *(read() for _ in range(4)))
