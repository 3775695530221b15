"""Cut connections and a database that goes away: nothing acknowledged is lost, nothing is written twice (`R14`)."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path

import psycopg
import pytest

from holdfast.errors import CommitRefused, OutcomeUnknown, StoreLocked, StoreUnreachable, StoreUnwritable
from holdfast.schema.messages import Text
from holdfast.store import Batch
from holdfast.store import writes as w
from holdfast.store.postgres import (
    PostgresStore,
    commit_thread,
    connection,
    open_postgres_store,
    outage,
    postgres_store,
    reader_pool,
)
from tests.store.batches import a_message, a_run, accept, event_numbers, new_session, new_workspace, says
from tests.support.cutting_proxy import CuttingProxy
from tests.support.postgres_cluster import PostgresCluster
from tests.support.stress import StressShare


@pytest.fixture
def proxy(postgres_database: str, home: Path) -> Iterator[CuttingProxy]:
    proxy = CuttingProxy(home, database=postgres_database)
    yield proxy
    proxy.close()


@pytest.fixture
async def ledger(proxy: CuttingProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[PostgresStore]:
    """A store behind the proxy, with a workspace and a session. Only commits and reads use the connections."""
    monkeypatch.setattr(commit_thread.CommitThread, "_maintain", lambda thread: None)
    monkeypatch.setattr(postgres_store, "RENEW_SECONDS", 3600.0)
    store = await open_postgres_store(proxy.address, home=tmp_path)
    await store.commit(new_workspace())
    await store.commit(new_session())
    yield store
    await store.close()


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - other threads and processes change it
        await asyncio.sleep(0.01)


async def _cut_commits(ledger: PostgresStore, proxy: CuttingProxy, *, places: Callable[[int], Iterable[int]]) -> int:
    """Commit with a cut at places of a commit's traffic, in bytes. Returns how many were cut."""
    proxy.passed = 0
    await ledger.commit(accept(a_run("run_1", seq=1)))
    traffic = proxy.passed
    heard: list[int] = []
    stop = ledger.listen(lambda events: heard.extend(event.number for event in events))
    seq = 1
    for count in places(traffic):
        seq += 1
        proxy.arm(count)
        committed = await ledger.commit(accept(a_run(f"run_{seq}", seq=seq)))
        proxy.cut_after = None
        assert committed.numbers == (seq + 1,)
    stop()
    assert [run.seq for run in (await ledger.runs("ses_1", limit=5000)).items] == list(range(seq, 0, -1))
    last = ledger.last_number
    found: list[int] = []
    while not found or found[-1] < last:
        page = await ledger.events_after(found[-1] if found else 0, upto=last)
        found += [event.number for event in page.events]
    assert found == list(range(1, seq + 2))
    assert heard == found[2:]
    return proxy.cuts


@pytest.mark.promise("R1", "R14", "E1")
async def test_a_commit_that_is_cut_anywhere_is_done_once(ledger: PostgresStore, proxy: CuttingProxy) -> None:
    assert await _cut_commits(ledger, proxy, places=lambda traffic: range(0, traffic + 61, 61)) > 30


@pytest.mark.stress(1)
@pytest.mark.promise("R1", "R14", "E1")
@pytest.mark.timeout(600)
async def test_a_commit_that_is_cut_at_every_byte_is_done_once(
    ledger: PostgresStore, proxy: CuttingProxy, share: StressShare
) -> None:
    def places(traffic: int) -> Iterable[int]:
        return share.sample(range(traffic), what="bytes at which a commit is cut")

    await _cut_commits(ledger, proxy, places=places)


@pytest.mark.promise("R14")
async def test_a_group_of_batches_is_cut_and_done_once(ledger: PostgresStore, proxy: CuttingProxy) -> None:
    for count in (40, 400, 4000, 14000):
        before = len(await event_numbers(ledger))
        proxy.arm(count)
        batches = [says(f"msg_{count}_{n}", "x" * 20) for n in range(20)]
        committed = await asyncio.gather(*(ledger.commit(batch) for batch in batches))
        proxy.cut_after = None
        numbers = [number for one in committed for number in one.numbers]
        assert numbers == list(range(before + 1, before + 21))
        assert len(await event_numbers(ledger)) == before + 20


@pytest.mark.promise("R14")
async def test_a_database_that_is_away_is_waited_for_then_refused_and_found_again(
    ledger: PostgresStore, proxy: CuttingProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_thread, "WAIT_SECONDS", 0.3)
    monkeypatch.setattr(outage, "WAIT_SECONDS", 0.3)
    monkeypatch.setattr(outage, "PROBE_SECONDS", 0.0)
    proxy.is_down = True
    proxy.cut_all()
    with pytest.raises(StoreUnreachable, match="nothing was changed"):
        await ledger.commit(says("msg_1", "x"))
    with pytest.raises(StoreUnreachable):
        await ledger.messages("ses_1", limit=9)
    proxy.is_down = False
    assert (await ledger.messages("ses_1", limit=9)).items == ()
    assert (await ledger.commit(says("msg_2", "y"))).numbers == (2,)


@pytest.mark.promise("R14")
async def test_many_reads_of_a_database_that_is_away_wait_once_and_are_then_refused_without_a_try(
    ledger: PostgresStore, proxy: CuttingProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outage, "WAIT_SECONDS", 0.3)
    monkeypatch.setattr(outage, "PROBE_SECONDS", 3600.0)
    proxy.is_down = True
    proxy.cut_all()
    tries = 0
    open_connection = connection.PostgresConnection.open

    def counted(address: str) -> connection.PostgresConnection:
        nonlocal tries
        tries += 1
        return open_connection(address)

    pool = reader_pool.ReaderPool(lambda: counted(proxy.address), size=2)
    reads = [pool.read(lambda sql: None) for _ in range(20)]
    found = await asyncio.gather(*reads, return_exceptions=True)
    assert [type(each) for each in found] == [StoreUnreachable] * 20
    tried = tries
    with pytest.raises(StoreUnreachable):
        await pool.read(lambda sql: None)
    assert tries == tried
    proxy.is_down = False
    monkeypatch.setattr(outage, "PROBE_SECONDS", 0.0)
    assert await pool.read(lambda sql: "back") == "back"
    await asyncio.to_thread(pool.close)


@pytest.mark.promise("R14")
async def test_a_transaction_whose_old_connection_was_cut_is_done_over_a_new_one(
    ledger: PostgresStore, proxy: CuttingProxy
) -> None:
    def work(sql: connection.PostgresConnection) -> int:
        return int(sql.execute("UPDATE log SET pruned = pruned RETURNING last").fetchone()[0])

    pool = reader_pool.ReaderPool(lambda: connection.PostgresConnection.open(proxy.address), size=1)
    before = await pool.transact(work)
    proxy.cut_all()
    assert await pool.transact(work) == before
    await asyncio.to_thread(pool.close)


@pytest.mark.promise("R14")
async def test_batches_behind_an_unknown_outcome_are_refused_and_it_is_found_out_later(
    ledger: PostgresStore, proxy: CuttingProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_thread, "WAIT_SECONDS", 0.2)
    proxy.passed = 0
    await ledger.commit(accept(a_run("run_1", seq=1)))
    traffic = proxy.passed

    proxy.is_down = True
    proxy.arm(traffic - 5)
    unknown = asyncio.create_task(ledger.commit(accept(a_run("run_2", seq=2))))
    await until(lambda: proxy.cuts == 1)
    while True:
        try:
            await ledger.commit(says("msg_1", "x"))
        except StoreUnreachable:
            break
    assert not unknown.done()
    proxy.is_down = False
    assert (await unknown).numbers == (3,)
    assert (await ledger.commit(says("msg_2", "y"))).numbers == (4,)
    assert [run.id for run in (await ledger.runs("ses_1", limit=9)).items] == ["run_2", "run_1"]


@pytest.mark.promise("R14")
async def test_a_caller_can_learn_that_the_outcome_of_its_commit_is_unknown(
    ledger: PostgresStore, proxy: CuttingProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_thread, "WAIT_SECONDS", 0.2)
    proxy.passed = 0
    await ledger.commit(accept(a_run("run_1", seq=1)))
    traffic = proxy.passed

    proxy.is_down = True
    proxy.arm(traffic - 5)
    with pytest.raises(OutcomeUnknown, match="whether it did is found out") as unknown:
        await ledger.commit(accept(a_run("run_2", seq=2)), until_known=False)
    look_up = unknown.value.look_up
    assert look_up is not None
    assert "does not answer" in look_up.refusal().message
    assert not look_up.outcome.done()
    proxy.is_down = False
    assert (await look_up.outcome).numbers == (3,)
    assert [run.id for run in (await ledger.runs("ses_1", limit=9)).items] == ["run_2", "run_1"]


async def test_drafts_are_written_when_the_database_is_back(
    ledger: PostgresStore, proxy: CuttingProxy, postgres_database: str
) -> None:
    await ledger.commit(accept(a_run(state="active")))
    await ledger.commit(Batch((w.PutMessage(a_message("msg_1")),)))
    proxy.is_down = True
    proxy.cut_all()
    ledger.append_draft("ses_1", "msg_1", 0, "kept ")
    ledger.append_draft("ses_1", "msg_1", 0, "text")
    await asyncio.sleep(0)
    proxy.is_down = False

    def stored() -> list[bytes]:
        with psycopg.connect(postgres_database) as reader:
            return [body for (body,) in reader.execute("SELECT body FROM drafts")]

    while not await asyncio.to_thread(stored):  # noqa: ASYNC110 - a thread of the store writes it
        await asyncio.sleep(0.02)
    assert (await ledger.message("msg_1")).parts == (Text("kept text"),)


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[PostgresCluster]:
    """A server that the tests may end and start."""
    cluster = PostgresCluster(settings={"fsync": "on", "full_page_writes": "on"})
    yield cluster
    cluster.stop()


@pytest.mark.promise("R1", "R14")
@pytest.mark.parametrize("ended_by", [pytest.param(signal.SIGINT, marks=pytest.mark.stress(0.2)), signal.SIGKILL])
async def test_nothing_acknowledged_is_lost_when_postgresql_is_restarted_or_killed(
    own_cluster: PostgresCluster, tmp_path: Path, ended_by: signal.Signals, share: StressShare
) -> None:
    address = await asyncio.to_thread(own_cluster.new_database)
    store = await open_postgres_store(address, home=tmp_path)
    await store.commit(new_workspace())
    await store.commit(new_session())
    acknowledged: list[str] = []
    stopped = asyncio.Event()

    async def write(writer: int) -> None:
        n = 0
        while not stopped.is_set():
            n += 1
            message_id = f"msg_{writer}_{n}"
            try:
                await store.commit(says(message_id, "x"))
            except CommitRefused:
                continue
            acknowledged.append(message_id)

    async with asyncio.TaskGroup() as tasks:
        for writer in range(4):
            tasks.create_task(write(writer))
        for _ in share.rounds():
            share.count("ends of PostgreSQL")
            known = len(acknowledged)
            await until(lambda known=known: len(acknowledged) >= known + 20)
            await asyncio.to_thread(own_cluster.kill, ended_by)
            await asyncio.to_thread(own_cluster.start)
        known = len(acknowledged)
        await until(lambda: len(acknowledged) >= known + 20)
        stopped.set()
    found: list[str] = []
    page = await store.messages("ses_1", limit=1000)
    while True:
        found += [message.id for message in page.items]
        if page.next is None:
            break
        page = await store.messages("ses_1", limit=1000, after=page.next)
    assert len(found) == len(set(found))
    assert set(acknowledged) <= set(found)
    numbers: list[int] = []
    while not numbers or numbers[-1] < store.last_number:
        after = numbers[-1] if numbers else 0
        numbers += [event.number for event in (await store.events_after(after, upto=store.last_number)).events]
    assert numbers == list(range(1, len(found) + 2))
    await store.close()


@pytest.mark.promise("R14")
async def test_a_read_only_and_a_locked_database_are_refused_and_recover(
    ledger: PostgresStore, postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = psycopg.conninfo.conninfo_to_dict(postgres_database)["dbname"]
    with psycopg.connect(postgres_database, autocommit=True) as admin:
        admin.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on".encode())
        admin.execute(f"SELECT pg_terminate_backend(pid) FROM ({_OTHER_BACKENDS}) AS others".encode())
        with pytest.raises(StoreUnwritable, match="read-only"):
            await ledger.commit(says("msg_1", "x"))
        admin.execute("SET default_transaction_read_only = off")
        admin.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only".encode())
        assert (await ledger.commit(says("msg_1", "x"))).numbers == (2,)
        monkeypatch.setattr(commit_thread, "COMMIT_SECONDS", 0.2)
        with admin.transaction():
            admin.execute("LOCK TABLE messages")
            with pytest.raises(StoreLocked, match="locked"):
                await ledger.commit(says("msg_2", "x"))
    assert (await ledger.commit(says("msg_2", "x"))).numbers == (3,)


@pytest.mark.promise("R14")
async def test_a_connection_to_a_database_that_was_demoted_is_made_again(postgres_database: str) -> None:
    """A lease is renewed over the pool: after a failover without a cut its connections would be read-only for ever."""
    name = psycopg.conninfo.conninfo_to_dict(postgres_database)["dbname"]
    with psycopg.connect(postgres_database, autocommit=True) as admin:
        admin.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on".encode())
        pool = reader_pool.ReaderPool(lambda: connection.PostgresConnection.open(postgres_database), size=1)
        with pytest.raises(StoreUnwritable, match="read-only"):
            await pool.transact(_write)
        admin.execute("SET default_transaction_read_only = off")
        admin.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only".encode())
        await pool.transact(_write)  # the setting counts for new connections only
    await asyncio.to_thread(pool.close)


def _write(sql: connection.PostgresConnection) -> None:
    sql.execute("UPDATE log SET pruned = pruned")


@pytest.mark.promise("R14")
async def test_a_database_without_our_tables_is_refused_and_recovers(
    ledger: PostgresStore, postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that was dropped and made anew, or into which a backup is being restored."""
    monkeypatch.setattr(commit_thread, "WAIT_SECONDS", 0.1)
    assert (await ledger.commit(says("msg_1", "x"))).numbers == (2,)
    with psycopg.connect(postgres_database, autocommit=True) as admin:
        admin.execute("ALTER SCHEMA public RENAME TO away")
        try:
            with pytest.raises(StoreUnreachable, match="does not have the tables of Holdfast") as refused:
                await ledger.commit(says("msg_2", "x"))
            assert refused.value.detail == {"cause": "tables_missing"}
            assert "bring the right database back" in refused.value.message
            with pytest.raises(StoreUnreachable, match="does not have the tables of Holdfast"):
                await ledger.messages("ses_1", limit=9)
            with pytest.raises(StoreUnreachable, match="does not have the tables of Holdfast"):
                await ledger.transact(_write)
            two = await asyncio.gather(
                *(ledger.commit(says(f"msg_{number}", "x")) for number in (2, 3)), return_exceptions=True
            )
            assert all(isinstance(each, StoreUnreachable) for each in two)
        finally:
            admin.execute("ALTER SCHEMA away RENAME TO public")
    assert (await ledger.commit(says("msg_2", "x"))).numbers == (3,)
    assert [message.id for message in (await ledger.messages("ses_1", limit=9)).items] == ["msg_1", "msg_2"]


@pytest.mark.promise("R14")
async def test_a_connection_that_is_silent_is_given_up(
    ledger: PostgresStore, postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A paused process of PostgreSQL keeps its socket open and answers nothing. New connections get another one."""
    monkeypatch.setattr(commit_thread, "COMMIT_SECONDS", 0.2)
    monkeypatch.setattr(connection, "_SLACK_SECONDS", 0.2)
    with psycopg.connect(postgres_database) as admin:
        paused = [pid for (pid,) in admin.execute(_OTHER_BACKENDS)]
    for pid in paused:
        os.kill(pid, signal.SIGSTOP)
    try:
        assert (await ledger.commit(says("msg_1", "x"))).numbers == (2,)
    finally:
        for pid in paused:
            os.kill(pid, signal.SIGCONT)
    assert (await ledger.commit(says("msg_2", "x"))).numbers == (3,)
    assert [message.id for message in (await ledger.messages("ses_1", limit=9)).items] == ["msg_1", "msg_2"]


_OTHER_BACKENDS = """SELECT pid FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"""
