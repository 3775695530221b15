"""Automatic backups: one a day, verified, three kept."""

import asyncio
import os
from pathlib import Path

import pytest

from holdfast.ids import rfc3339
from holdfast.store import open_store
from holdfast.store.sqlite import daily_backups
from holdfast.store.sqlite.daily_backups import back_up_daily
from tests.store.batches import new_session, new_workspace

DAY = 86_400


class _StopLookingError(Exception):
    pass


@pytest.mark.promise("W10")
async def test_backups_are_made_daily_and_three_are_kept(tmp_path: Path) -> None:
    store = await open_store(tmp_path / "holdfast.db")
    await store.commit(new_workspace())
    await store.commit(new_session())
    now, looks = [2_000_000_000.0], [0]

    async def sleep(_: float) -> None:
        looks[0] += 1
        if looks[0] > 1:
            now[0] += DAY / 2
        if looks[0] > 10:
            raise _StopLookingError

    with pytest.raises(_StopLookingError):
        await back_up_daily(store, tmp_path / "holdfast.db", tmp_path / "backups", clock=lambda: now[0], sleep=sleep)
    await store.close()
    found = sorted((tmp_path / "backups").iterdir())
    assert [path.name for path in found] == [f"holdfast-2033-05-{day}.db" for day in (20, 21, 22)]
    for path in found:
        copy = await open_store(path)
        assert (await copy.session("ses_1")).id == "ses_1"
        await copy.close()


@pytest.mark.promise("W10")
async def test_a_copy_that_is_not_sound_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken, kept = tmp_path / "holdfast-2.unverified", tmp_path / "holdfast-2.db"
    await asyncio.to_thread(broken.write_bytes, b"not a database" * 1000)
    with pytest.raises(Exception, match="not a database"):
        await asyncio.to_thread(daily_backups._keep_if_sound, broken, kept)
    assert not broken.exists()
    assert not kept.exists()


async def back_up_once(database: Path, backups: Path, *, now: float) -> None:
    looks = [0]

    async def sleep(_: float) -> None:
        looks[0] += 1
        if looks[0] > 1:
            raise _StopLookingError

    store = await open_store(database)
    try:
        with pytest.raises(_StopLookingError):
            await back_up_daily(store, database, backups, clock=lambda: now, sleep=sleep)
    finally:
        await store.close()
    for path in backups.iterdir():
        if path.name == f"holdfast-{rfc3339(now)[:10]}.db":
            os.utime(path, (now, now))


def names(backups: Path) -> list[str]:
    return sorted(path.name[9:-3] for path in backups.iterdir())


@pytest.mark.promise("W10")
async def test_a_clock_that_was_years_ahead_does_not_end_the_backups(tmp_path: Path) -> None:
    database, backups = tmp_path / "holdfast.db", tmp_path / "backups"
    now = 2_000_000_000.0
    await back_up_once(database, backups, now=now + 3650 * DAY)
    for day in range(4):
        await back_up_once(database, backups, now=now + day * DAY)
    assert names(backups) == ["2033-05-19", "2033-05-20", "2033-05-21"]


@pytest.mark.promise("W10")
async def test_backups_of_a_new_database_leave_the_last_one_of_a_lost_database(tmp_path: Path) -> None:
    database, backups = tmp_path / "holdfast.db", tmp_path / "backups"
    now = 2_000_000_000.0
    for day in range(2):
        await back_up_once(database, backups, now=now + day * DAY)
    database.unlink()
    for day in range(2, 7):
        await back_up_once(database, backups, now=now + day * DAY)
    assert names(backups) == ["2033-05-19", "2033-05-22", "2033-05-23", "2033-05-24"]
