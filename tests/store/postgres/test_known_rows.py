"""A commit relies on what its server knows, and still writes only what is true."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psycopg
import pytest
from msgspec.structs import replace

from holdfast.errors import StoreConflict
from holdfast.schema.messages import Finish, Text
from holdfast.schema.usage import Usage
from holdfast.store import Batch, LaneRow, Store
from holdfast.store import writes as w
from holdfast.store.postgres import PostgresStore, open_postgres_store
from holdfast.store.postgres.connection import PostgresConnection
from tests.store.batches import a_message, a_run, accept, end, new_session, new_workspace, says
from tests.store.postgres.held_leases import OpenServer

SESSIONS = 12


@pytest.fixture
def count_messages(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many messages the thread that commits has sent to the database since the last call."""
    sent = [0]
    flush = PostgresConnection.flush

    def counting(self: PostgresConnection) -> None:
        if self._waiting and threading.current_thread().name == "store-writer":
            sent[0] += 1
        flush(self)

    def count() -> int:
        found, sent[0] = sent[0], 0
        return found

    monkeypatch.setattr(PostgresConnection, "flush", counting)
    return count


def prompt(n: int, *, session_id: str) -> Batch:
    """The commit of an accepted prompt, as the engine makes it."""
    run = a_run(f"run_{session_id}_{n}", session_id=session_id, seq=n)
    message = a_message(f"msg_{session_id}_{n}", Text("hello"), session_id=session_id, run_id=run.id, role="user")
    accepted = accept(run)
    return Batch(
        (*accepted.writes, w.PutMessage(message), w.SetLane(LaneRow(session_id, next_seq=n + 1))), accepted.events
    )


async def commit_together(store: PostgresStore, batches: list[Batch]) -> list[object]:
    """Commit the batches in one group: they wait until the thread is free."""
    begun, go = threading.Event(), threading.Event()

    def block(_: PostgresConnection) -> None:
        begun.set()
        go.wait(30)

    blocking = asyncio.create_task(store._call(block))
    await asyncio.to_thread(begun.wait, 30)
    tasks = [asyncio.create_task(store.commit(batch)) for batch in batches]
    await asyncio.sleep(0)  # each task submits its batch when it first runs
    assert store._thread._queue.count_waiting() == len(batches)
    go.set()
    await blocking
    return await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
async def owner(open_server: OpenServer) -> PostgresStore:
    """One of several stores, with sessions that have two messages each."""
    store = await open_server("one", {"wsp_1": 1})
    await make_sessions(store)
    return store


@pytest.fixture
async def alone(postgres_database: str, tmp_path: Path) -> AsyncIterator[PostgresStore]:
    """The same without other stores, which would wake it."""
    store = await open_postgres_store(postgres_database, home=tmp_path)
    await make_sessions(store)
    yield store
    await store.close()


async def make_sessions(store: PostgresStore) -> None:
    await store.commit(new_workspace())
    for n in range(SESSIONS):
        await store.commit(new_session(f"ses_{n}"))
        await store.commit(prompt(1, session_id=f"ses_{n}"))
        await store.commit(prompt(2, session_id=f"ses_{n}"))


async def seqs(store: Store, session_id: str) -> list[tuple[str, int]]:
    return [(message.id, message.seq) for message in (await store.messages(session_id, limit=99)).items]


async def test_an_accepted_prompt_is_one_message_to_the_database(
    alone: PostgresStore, count_messages: Callable[[], int]
) -> None:
    await alone.commit(prompt(3, session_id="ses_0"))
    assert count_messages() == 1


async def test_a_new_session_with_its_first_prompt_is_one_message_to_the_database(
    alone: PostgresStore, count_messages: Callable[[], int]
) -> None:
    made, accepted = new_session("ses_new"), prompt(1, session_id="ses_new")
    await alone.commit(Batch((*made.writes, *accepted.writes), (*made.events, *accepted.events)))
    assert count_messages() == 1
    await alone.commit(prompt(2, session_id="ses_new"))
    assert count_messages() == 1
    assert await seqs(alone, "ses_new") == [("msg_ses_new_1", 1), ("msg_ses_new_2", 2)]


async def test_the_end_of_a_run_reads_only_the_message_that_it_replaces(
    alone: PostgresStore, count_messages: Callable[[], int]
) -> None:
    run, answer = a_run("run_ses_0_1", session_id="ses_0"), a_message("msg_answer", session_id="ses_0")
    await alone.commit(Batch((w.PutMessage(answer),)))
    used = w.AddUsage(session_id="ses_0", day="2026-01-01", model="m", usage=Usage(input=1), runs=1, steps=1)
    finished = replace(answer, parts=(Text("done"), Finish("end_turn")))
    ended = end(run)
    count_messages()
    await alone.commit(Batch((used, w.PutMessage(finished), *ended.writes), ended.events))
    assert count_messages() == 1 + 1, "the read, and all else with the commit"
    await alone.commit(Batch((used,)))
    assert count_messages() == 1
    assert (await alone.session("ses_0")).usage.input == 2


async def test_the_prompts_of_a_group_are_one_message_to_the_database(
    alone: PostgresStore, count_messages: Callable[[], int]
) -> None:
    batches = [prompt(n, session_id=f"ses_{session}") for session in range(SESSIONS) for n in (3, 4)]
    results = await commit_together(alone, batches)
    assert count_messages() == 1 + 1, "the call that all wait for, and the group"
    assert not [result for result in results if isinstance(result, BaseException)]
    for session in range(SESSIONS):
        expected = [(f"msg_ses_{session}_{n}", n) for n in (1, 2, 3, 4)]
        assert await seqs(alone, f"ses_{session}") == expected


async def test_a_refused_batch_of_a_group_refuses_no_other(owner: PostgresStore) -> None:
    batches = [
        prompt(3, session_id="ses_0"),
        end(a_run("run_unknown", session_id="ses_1")),
        prompt(3, session_id="ses_2"),
        prompt(2, session_id="ses_3"),
        prompt(4, session_id="ses_0"),
    ]
    results = await commit_together(owner, batches)
    assert [isinstance(result, StoreConflict) for result in results] == [False, True, False, True, False]
    assert await seqs(owner, "ses_0") == [(f"msg_ses_0_{n}", n) for n in (1, 2, 3, 4)]
    assert await seqs(owner, "ses_3") == [(f"msg_ses_3_{n}", n) for n in (1, 2)]


async def test_the_order_of_batches_of_one_session_is_kept_in_a_group(owner: PostgresStore) -> None:
    """The second batch of each run depends on what the first one of the same group wrote."""
    runs = [a_run(f"run_{n}", session_id="ses_0", seq=10 + n) for n in range(5)]
    batches = [batch for run in runs for batch in (accept(run), end(run), end(run))]
    results = await commit_together(owner, batches)
    assert [isinstance(result, StoreConflict) for result in results] == [False, False, True] * 5
    assert {(await owner.run(run.id)).state for run in runs} == {"completed"}


@pytest.mark.promise("W10", "W16")
async def test_what_was_known_under_an_older_fence_is_read_again(
    open_server: OpenServer, postgres_database: str, owner: PostgresStore
) -> None:
    """Another server owned the workspace meanwhile, wrote a message, ended a run and deleted a session."""

    def give(server_id: str, fence: int) -> None:
        with psycopg.connect(postgres_database) as admin:
            admin.execute("UPDATE leases SET server_id = %s, fence = %s", (server_id, fence))

    other = await open_server("two", {})
    other._thread._fences.held["wsp_1"] = 2  # type: ignore[attr-defined]
    held: dict[str, int] = owner._thread._fences.held  # type: ignore[attr-defined]
    await asyncio.to_thread(give, "two", 2)
    await other.commit(prompt(3, session_id="ses_0"))
    run = await other.run("run_ses_0_2")
    await other.commit(end(run))
    for n in (1, 2):
        await other.commit(end(await other.run(f"run_ses_1_{n}")))
    await other.commit(Batch((w.DeleteSession("ses_1", at="2026-01-01T00:00:00Z"),)))

    await asyncio.to_thread(give, "one", 3)
    held["wsp_1"] = 3
    await owner.commit(prompt(4, session_id="ses_0"))
    assert await seqs(owner, "ses_0") == [(f"msg_ses_0_{n}", n) for n in (1, 2, 3, 4)]
    with pytest.raises(StoreConflict, match="is completed"):
        await owner.commit(end(run))
    with pytest.raises(StoreConflict, match="is deleted"):
        await owner.commit(prompt(3, session_id="ses_1"))


async def test_a_message_of_an_earlier_server_is_replaced(postgres_database: str, tmp_path: Path) -> None:
    store = await open_postgres_store(postgres_database, home=tmp_path)
    await store.commit(new_workspace())
    await store.commit(new_session())
    await store.commit(says("msg_1", "old"))
    await store.commit(says("msg_2", "second"))
    await store.close()
    store = await open_postgres_store(postgres_database, home=tmp_path)
    try:
        await store.commit(says("msg_1", "new"))
        await store.commit(says("msg_1", "newer"))
        found = (await store.messages("ses_1", limit=9)).items
        assert [(one.id, one.seq, one.parts) for one in found] == [
            ("msg_1", 1, (Text("newer"),)),
            ("msg_2", 2, (Text("second"),)),
        ]
    finally:
        await store.close()
