"""Automatic backups of the database: one a day, verified, the newest ones kept (`W10`)."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.ids import Clock, rfc3339
from holdfast.store.protocol import Store
from holdfast.store.sqlite.database_file import connect

_logger = logging.getLogger(__name__)

_DAY = 86_400.0
_FIRST_SECONDS = 60.0
_INTERVAL_SECONDS = 3600.0
_KEPT = 3


async def back_up_daily(
    store: Store,
    database: Path,
    directory: Path,
    *,
    clock: Clock = time.time,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Look every hour whether a backup is due, until cancelled. A failure is logged, and tried again."""
    await sleep(_FIRST_SECONDS)
    while True:
        try:
            await _back_up_if_due(store, database, directory, clock=clock)
        except (HoldfastError, OSError, sqlite3.Error) as error:
            _logger.warning("the automatic backup failed: %s", error)
        await sleep(_INTERVAL_SECONDS)


async def _back_up_if_due(store: Store, database: Path, directory: Path, *, clock: Clock) -> None:
    path = directory / f"holdfast-{rfc3339(clock())[:10]}.db"
    if await asyncio.to_thread(_is_due, database, directory, path, now=clock()):
        unverified = path.with_suffix(".unverified")
        await asyncio.to_thread(unverified.unlink, missing_ok=True)
        await store.backup(unverified)
        await asyncio.to_thread(_keep_if_sound, unverified, path)


def _is_due(database: Path, directory: Path, path: Path, *, now: float) -> bool:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    is_recent = any(abs(now - one.stat().st_mtime) < _DAY / 2 for one in directory.glob("holdfast-*.db"))
    if path.exists() or is_recent:  # one of a clock that was ahead says nothing
        return False
    needed = 2 * database.stat().st_size
    disk = os.statvfs(directory)
    if disk.f_bavail * disk.f_frsize < needed:
        _logger.warning("no automatic backup: %s needs %d bytes of free space", directory, needed)
        return False
    return True


def _keep_if_sound(unverified: Path, path: Path) -> None:
    """A backup that is not sound is removed, and the older ones stay."""
    try:
        with closing(connect(unverified, read_only=True, immutable=True)) as connection:
            findings = connection.execute("PRAGMA integrity_check(3)").fetchall()
            (log,) = connection.execute("SELECT id FROM log").fetchone()
        if findings != [("ok",)]:
            raise sqlite3.DatabaseError(f"the copy is not sound: {findings}")
    except sqlite3.Error:
        unverified.unlink(missing_ok=True)
        raise
    unverified.rename(path)
    _remove_old(path, log=log)
    _logger.info("the database was copied to %s", path)


def _remove_old(newest: Path, *, log: str) -> None:
    """Keep three, and the newest one of another database, which may have been lost.

    Those of a later day are of a clock that was ahead. They count as the oldest.
    """
    found = sorted(newest.parent.glob("holdfast-*.db"), key=lambda path: (path.name <= newest.name, path.name))
    of_other = [path for path in found if _log_of(path) != log]
    for old in found[:-_KEPT]:
        if old not in of_other[-1:]:
            old.unlink()


def _log_of(backup: Path) -> str | None:
    """The id of the log, which no other database has. None: it cannot be read."""
    try:
        with closing(connect(backup, read_only=True, immutable=True)) as connection:
            (log,) = connection.execute("SELECT id FROM log").fetchone()
            return str(log)
    except sqlite3.Error:
        return None
