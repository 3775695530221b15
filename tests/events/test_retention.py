import asyncio

import pytest

from holdfast.events import Hub, prune_periodically
from holdfast.ids import rfc3339
from holdfast.schema.events import ConfigChanged
from holdfast.store import Batch, SqliteStore, StoredResponse
from holdfast.store.writes import PutResponse
from tests.events.stream_readers import pending, seen
from tests.store.batches import a_run, accept, end
from tests.store.faulty_database import failing

DAY = 86400.0


class Calendar:
    """A clock that the test sets, and sleeps that end when it is set."""

    def __init__(self, now: float) -> None:
        self.now = now
        self.slept: list[float] = []
        self.asleep = asyncio.Event()
        self._wake = asyncio.Event()

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.asleep.set()
        await self._wake.wait()
        self._wake.clear()

    async def pass_days(self, days: float) -> None:
        """Advance the clock and wait until the task sleeps again."""
        await self.asleep.wait()
        self.asleep.clear()
        self.now += days * DAY
        self._wake.set()
        await self.asleep.wait()


@pytest.mark.promise("E8")
async def test_events_are_kept_for_the_configured_time_and_readers_stay_attached(store: SqliteStore, hub: Hub) -> None:
    calendar = Calendar(1767225600.0)  # the time of the fixture's event
    stream = hub.subscribe()
    keeping = asyncio.create_task(
        prune_periodically(
            store, keep_seconds=7 * DAY, keep_audit_seconds=90 * DAY, clock=calendar, sleep=calendar.sleep
        )
    )
    await calendar.pass_days(6)
    run = a_run()
    await store.commit(accept(run, at=rfc3339(calendar.now)))  # 2
    await store.commit(Batch((), (ConfigChanged(at=rfc3339(calendar.now)),)))  # 3
    assert store.oldest_number == 1
    await calendar.pass_days(2)
    assert store.oldest_number == 2
    await calendar.pass_days(30)
    assert store.oldest_number == 2  # the run is unfinished
    await store.commit(end(run, at=rfc3339(calendar.now)))  # 4
    await calendar.pass_days(1)
    assert store.oldest_number == 4
    assert seen(await pending(stream)) == ["hello", "run.accepted 2", "config.changed 3", "run.finished 4"]
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    assert set(calendar.slept) == {3600.0}


async def test_stored_responses_are_kept_for_a_day(store: SqliteStore) -> None:
    calendar = Calendar(1767225600.0)
    await store.commit(Batch((PutResponse(StoredResponse("key", "hash", 200, b"", rfc3339(calendar.now))),)))
    keeping = asyncio.create_task(
        prune_periodically(
            store, keep_seconds=7 * DAY, keep_audit_seconds=90 * DAY, clock=calendar, sleep=calendar.sleep
        )
    )
    await calendar.pass_days(0.9)
    assert await store.stored_response("key") is not None
    await calendar.pass_days(0.2)
    assert await store.stored_response("key") is None
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)


@pytest.mark.promise("R14")
async def test_an_unwritable_store_is_pruned_later(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calendar = Calendar(1767225600.0 + 30 * DAY)
    writer = store._writer
    on = failing("DELETE FROM events")

    class Failing:
        def __init__(self, sql: object) -> None:
            self._sql = sql

        def __getattr__(self, name: str) -> object:
            return getattr(self._sql, name)

        def execute(self, statement: str, *args: object) -> object:
            if error := on(statement):
                raise error
            return self._sql.execute(statement, *args)  # type: ignore[attr-defined]

    monkeypatch.setattr(writer, "_sql", Failing(writer._sql))
    keeping = asyncio.create_task(
        prune_periodically(
            store, keep_seconds=7 * DAY, keep_audit_seconds=90 * DAY, clock=calendar, sleep=calendar.sleep
        )
    )
    await calendar.asleep.wait()
    assert store.oldest_number == 1
    assert "could not be removed" in caplog.text
    await calendar.pass_days(0)
    assert store.oldest_number == 2
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
