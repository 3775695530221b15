"""Put a backup in the place of the database. The old files are moved away, never removed. All functions block."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from holdfast.errors import BadRequest, StoreDamaged, StoreUnwritable
from holdfast.files import sync_directory
from holdfast.store.sqlite import database_file
from holdfast.store.sqlite.database_file import OwnerLock, connect

_CLOCK_SECONDS = 3600.0
"""How far ahead the clock of a file may be."""


class BackupFile(NamedTuple):
    path: Path
    size: int
    modified: float


class RestoredDatabase(NamedTuple):
    moved_to: Path | None
    """The directory with the old files; ``None`` if there were none."""
    sessions: int
    runs: int


def list_backups(directory: Path) -> list[BackupFile]:
    """The automatic backups, the newest first, and last those of a clock that was ahead."""
    now = time.time()
    found = []
    for path in directory.glob("holdfast-*.db"):
        status = path.stat()
        found.append(BackupFile(path, status.st_size, status.st_mtime))
    return sorted(found, key=lambda each: (each.modified <= now + _CLOCK_SECONDS, each.modified), reverse=True)


def restore_database(database: Path, backup: Path, *, stamp: str) -> RestoredDatabase:
    """Check the backup, move the old files to ``damaged-<stamp>``, and copy the backup to the database's place.

    Raises `StoreLocked` while a server uses the database. A failure changes nothing, or is undone.
    """
    database_file.prepare_directory(database)
    lock = OwnerLock(database)
    try:
        copy = database.with_name(f".{database.name}.restored")
        try:
            sessions, runs = _copy_checked(backup, copy)
            moved = _move_away(database, database.parent / f"damaged-{stamp}")
            copy.rename(database)
            sync_directory(database.parent)
        except OSError as error:
            raise StoreUnwritable(
                f"the backup could not be restored: {error}; nothing of the old database was removed",
                detail={"path": str(database)},
            ) from error
        finally:
            copy.unlink(missing_ok=True)
        lock.set_used(used=True)
        return RestoredDatabase(moved, sessions, runs)
    finally:
        lock.release()


def _copy_checked(backup: Path, copy: Path) -> tuple[int, int]:
    """Copy a sound backup, and give the copy's event log a new id: cursors of the old one do not fit any more."""
    if not backup.is_file():
        raise BadRequest(f"there is no file {str(backup)!r}; 'holdfast restore' lists the backups")
    database_file.inspect(backup, was_used=True)
    copy.unlink(missing_ok=True)
    shutil.copyfile(backup, copy)
    copy.chmod(0o600)
    try:
        with closing(connect(copy, read_only=False)) as connection:
            findings = connection.execute("PRAGMA integrity_check(3)").fetchall()
            if findings != [("ok",)]:
                raise StoreDamaged(f"the backup {str(backup)!r} is damaged too: {findings[0][0]}; choose another one")
            connection.execute("UPDATE log SET id = ?", (os.urandom(4).hex(),))
            (sessions,) = connection.execute("SELECT count(*) FROM sessions").fetchone()
            (runs,) = connection.execute("SELECT count(*) FROM runs").fetchone()
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.DatabaseError as error:
        raise StoreDamaged(f"the backup {str(backup)!r} cannot be read: {error}; choose another one") from error
    with copy.open("rb") as file:
        os.fsync(file.fileno())
    return sessions, runs


def _move_away(database: Path, directory: Path) -> Path | None:
    """Move the database and the files that belong to its content."""
    names = (database.name, *(database.name + ending for ending in ("-wal", "-shm", ".drafts")), "holdfast.intents")
    old = [path for name in names if (path := database.with_name(name)).exists()]
    if not old:
        return None
    directory.mkdir(mode=0o700)
    for path in reversed(old):  # the database last: until then a server would still open the old one
        path.rename(directory / path.name)
    return directory
