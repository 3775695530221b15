"""Several stores on one database: one order of events, leases that every commit needs."""

import asyncio

import psycopg
import pytest

from holdfast.errors import StoreLocked
from holdfast.store import Batch, CommittedEvent
from holdfast.store import writes as w
from holdfast.store.postgres import PostgresStore
from tests.store.batches import a_message, a_run, accept, event_numbers, new_session, new_workspace, says
from tests.store.postgres.held_leases import OpenServer


class Reader:
    """Collects what listeners of a store get."""

    def __init__(self, store: PostgresStore) -> None:
        self.numbers: list[int] = []
        store.listen(self._hear)

    def _hear(self, events: tuple[CommittedEvent, ...]) -> None:
        self.numbers += [event.number for event in events]


@pytest.mark.promise("E1", "E2")
async def test_readers_at_all_servers_see_one_order_without_gaps(open_server: OpenServer) -> None:
    """Servers commit at the same time. A reader never gets a number below one that it has."""
    names = ("one", "two", "three")
    stores = [await open_server(name, {f"wsp_{name}": 1}) for name in names]
    readers = [Reader(store) for store in stores]
    for name, store in zip(names, stores, strict=True):
        await store.commit(new_workspace(f"wsp_{name}"))
        await store.commit(new_session(f"ses_{name}", workspace_id=f"wsp_{name}"))
    seen: list[int] = []

    async def write(name: str, store: PostgresStore, writer: int) -> None:
        for n in range(15):
            committed = await store.commit(says(f"msg_{name}_{writer}_{n}", "x", session_id=f"ses_{name}"))
            assert readers[names.index(name)].numbers[-1] >= committed.numbers[-1]

    async def read_the_table(store: PostgresStore) -> None:
        while not writing.done():
            after = seen[-1] if seen else 0
            page = await store.events_after(after, upto=1 << 60, limit=1000)
            seen.extend(event.number for event in page.events)

    async def write_all() -> None:
        async with asyncio.TaskGroup() as tasks:
            for name, store in zip(names, stores, strict=True):
                for writer in range(3):
                    tasks.create_task(write(name, store, writer))

    writing = asyncio.create_task(write_all())
    await asyncio.gather(writing, read_the_table(stores[0]))
    total = 3 + 3 * 3 * 15
    for store, reader in zip(stores, readers, strict=True):
        await store.catch_up()
        assert reader.numbers == list(range(1, total + 1))
        assert store.last_number == total
    assert seen == list(range(1, len(seen) + 1))


async def test_a_notice_wakes_the_other_servers(open_server: OpenServer) -> None:
    one, two = await open_server("one", {"wsp_1": 1}), await open_server("two", {})
    heard = asyncio.Event()
    two.listen(lambda _: heard.set())
    await one.commit(new_workspace())
    await one.commit(new_session())
    await heard.wait()
    assert two.last_number == 1


@pytest.mark.promise("W10")
async def test_a_commit_with_a_stale_fence_writes_nothing(open_server: OpenServer, postgres_database: str) -> None:
    old = await open_server("old", {"wsp_1": 4, "wsp_2": 1})
    await old.commit(new_workspace())
    await old.commit(new_workspace("wsp_2"))
    await old.commit(new_session())
    await old.commit(new_session("ses_2", workspace_id="wsp_2"))
    with psycopg.connect(postgres_database) as admin:
        admin.execute("UPDATE leases SET server_id = 'new', fence = 5 WHERE workspace_id = 'wsp_1'")
    batches = [accept(a_run()), accept(a_run("run_2", session_id="ses_2")), says("msg_1", "x")]
    results = await asyncio.gather(*(old.commit(batch) for batch in batches), return_exceptions=True)
    assert [isinstance(result, StoreLocked) for result in results] == [True, False, True]
    assert await event_numbers(old) == [1, 2, 3]
    assert (await old.messages("ses_1", limit=9)).items == ()
    with psycopg.connect(postgres_database) as admin:
        admin.execute("UPDATE servers SET dead = true WHERE id = 'old'")
    for batch in (says("msg_2", "x", session_id="ses_2"), Batch((w.AddToolUse(day="2026-01-01", tool="bash"),))):
        with pytest.raises(StoreLocked, match="lease"):
            await old.commit(batch)


async def test_a_workspace_without_a_lease_is_refused_before_anything_is_sent(open_server: OpenServer) -> None:
    store = await open_server("one", {"wsp_1": 1})
    await store.commit(new_workspace())
    await store.commit(new_workspace("wsp_2"))
    with pytest.raises(StoreLocked, match="lease"):
        await store.commit(new_session("ses_2", workspace_id="wsp_2"))


@pytest.mark.promise("E3")
async def test_the_text_of_an_open_message_is_read_at_another_server(open_server: OpenServer) -> None:
    one, two = await open_server("one", {"wsp_1": 1}), await open_server("two", {})
    await one.commit(new_workspace())
    await one.commit(new_session())
    await one.commit(accept(a_run(state="active")))
    await one.commit(Batch((w.PutMessage(a_message("msg_1")),)))
    one.append_draft("ses_1", "msg_1", 0, "half a ")
    one.append_draft("ses_1", "msg_1", 0, "thought")
    expected = (await one.message("msg_1")).parts
    assert expected
    while (await two.message("msg_1")).parts != expected:  # noqa: ASYNC110 - a thread of the other store writes it
        await asyncio.sleep(0.01)
    assert (await two.messages("ses_1", limit=9)).items[0].parts == expected
