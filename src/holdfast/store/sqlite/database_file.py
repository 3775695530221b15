"""Opening the database file: lock, inspection and migration (`W10`).

All functions block; run them in a thread.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from holdfast.errors import StoreDamaged, StoreLocked, StoreNewer, StoreUnwritable
from holdfast.files import lock
from holdfast.store.rows.migrations import APPLICATION_ID, MIGRATIONS, SEARCH_INDEX
from holdfast.store.sqlite.space_reserve import SpaceReserve, is_disk_full

_MAGIC = b"SQLite format 3\x00"
_BUSY_SECONDS = 5.0
_FREE_SHARE = 4
"""The database is written anew if one page in this many is free."""
_CLEAN_CHECK_SECONDS = 0.05
_UNCLEAN_CHECK_SECONDS = 2.0
"""How long the start may check a database that its last owner closed, or did not close."""


BUSY_MESSAGE = (
    "another process has locked the database, and nothing was changed; end that process (a shell of sqlite3, a backup "
    "program), or try again later"
)


class Connect(Protocol):
    """Opens every connection. Tests pass one that fails on demand."""

    def __call__(self, path: Path, *, read_only: bool) -> sqlite3.Connection: ...


def connect(
    path: Path, *, read_only: bool, immutable: bool = False, factory: type[sqlite3.Connection] = sqlite3.Connection
) -> sqlite3.Connection:
    """Open a connection that begins no transaction by itself. Only one thread may use it at a time."""
    mode = "ro&immutable=1" if immutable else "ro" if read_only else "rw"
    return sqlite3.connect(
        f"file:{quote(str(path))}?mode={mode}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=_BUSY_SECONDS,
        cached_statements=256,
        factory=factory,
    )


_PID_BYTES = 20
_USED = b"used"


class OwnerLock:
    """A lock on ``<database>.lock``. The kernel releases it when the process ends, also after a crash."""

    def __init__(self, database: Path) -> None:
        self.path = database.with_name(database.name + ".lock")
        try:
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise _unwritable(database, error.strerror) from error
        if not lock(self._fd, seconds=0):
            owner = os.pread(self._fd, _PID_BYTES, 0).decode("ascii", "replace").strip()
            os.close(self._fd)
            raise StoreLocked(
                f"the database {str(database)!r} is in use by another Holdfast server (process {owner or 'unknown'}); "
                "use that server, stop it (holdfast stop), or set HOLDFAST_HOME to another directory",
                detail={"pid": int(owner) if owner.isdigit() else None, "path": str(database)},
            )
        with suppress(OSError):  # on a full disk the lock still holds; only the message lacks the process id
            os.pwrite(self._fd, str(os.getpid()).encode().ljust(_PID_BYTES), 0)

    @property
    def was_used(self) -> bool:
        """Whether there was a database with tables here, so that an empty file is damage."""
        return os.pread(self._fd, len(_USED), _PID_BYTES) == _USED

    def set_used(self, *, used: bool) -> None:
        if used != self.was_used:
            with suppress(OSError):
                os.pwrite(self._fd, _USED if used else b" " * len(_USED), _PID_BYTES)

    def release(self) -> None:
        os.close(self._fd)


def prepare_directory(path: Path) -> None:
    """Create the private directory if it does not exist."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(path, error.strerror) from error


def prepare_file(path: Path) -> None:
    """Create an empty private file if it does not exist."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise _unwritable(path, error.strerror) from error


def inspect(path: Path, *, connect: Connect = connect, known: int = len(MIGRATIONS), was_used: bool = False) -> None:
    """Raise if the file must not be opened. Changes nothing. `was_used`: it had tables, so it must not be empty."""
    size = path.stat().st_size
    if size == 0:
        if was_used:
            raise damaged(path, "it is empty, but it was a database before")
        return
    unclean = _has_wal(path)
    _inspect_header(path, size=size, unclean=unclean)
    try:
        with closing(connect(path, read_only=True) if unclean else _connect_immutable(path)) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            findings = _check(connection, seconds=_UNCLEAN_CHECK_SECONDS if unclean else _CLEAN_CHECK_SECONDS)
            is_log_damaged = unclean and _is_log_damaged(path)
    except sqlite3.OperationalError as error:
        raise _unwritable(path, error) from error
    except sqlite3.DatabaseError as error:
        raise damaged(path, str(error)) from error
    if tables and application != APPLICATION_ID:
        raise StoreDamaged(
            f"{str(path)!r} is a SQLite database of another program; it was not changed: move it, or set "
            "HOLDFAST_HOME to another directory"
        )
    if version > known:
        raise StoreNewer(
            f"the database {str(path)!r} was written by a newer Holdfast (schema version {version}, but this one "
            f"supports only up to {known}); it was not changed: install the newer version, or set HOLDFAST_HOME to "
            "another directory",
            detail={"found": version, "known": known},
        )
    if findings != [("ok",)]:
        raise damaged(path, "; ".join(line for (found,) in findings for line in str(found).splitlines()))
    if is_log_damaged:
        raise damaged(path, "its write-ahead log (-wal) has wrong bytes, and what was stored after them would be lost")


def _is_log_damaged(path: Path) -> bool:
    from holdfast.store.sqlite.write_ahead_log import loses_transactions  # not above: needed only after a crash

    return loses_transactions(path)


def _check(connection: sqlite3.Connection, *, seconds: float) -> list[tuple[str]]:
    """Check the pages for a limited time. A large database is not checked whole."""
    deadline = time.monotonic() + seconds
    connection.set_progress_handler(lambda: time.monotonic() > deadline, 2000)
    try:
        return connection.execute("PRAGMA quick_check(3)").fetchall()
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorname", None) == "SQLITE_INTERRUPT":
            return [("ok",)]
        raise
    finally:
        connection.set_progress_handler(None, 0)


def open_writer(path: Path, *, connect: Connect = connect) -> sqlite3.Connection:
    """Open the only connection that writes, and migrate the tables. On a full disk it uses the reserved space."""
    try:
        return _open_writer(path, connect=connect)
    except StoreUnwritable as error:
        if not is_disk_full(error.__cause__) or not SpaceReserve(path).release_earlier():
            raise
    return _open_writer(path, connect=connect)


def _open_writer(path: Path, *, connect: Connect) -> sqlite3.Connection:
    connection = connect(path, read_only=False)
    try:
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise _unwritable(path, f"its file system does not support a write-ahead log (journal mode {mode!r})")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA wal_autocheckpoint = 4000")
        connection.execute("PRAGMA journal_size_limit = 67108864")
        migrate(connection)
        ensure_search(connection)
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        connection.close()
        raise _unwritable(path, error) from error
    except BaseException:
        connection.close()
        raise
    return connection


def migrate(connection: sqlite3.Connection, migrations: tuple[tuple[str, ...], ...] = MIGRATIONS) -> None:
    """Run the missing migrations, each in one transaction together with its version number."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    for number in range(version, len(migrations)):
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in migrations[number]:
                connection.execute(statement)
            if number == 0:
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute("INSERT INTO log VALUES (1, ?, 0, 0)", (os.urandom(4).hex(),))
            connection.execute(f"PRAGMA user_version = {number + 1}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def ensure_search(connection: sqlite3.Connection) -> None:
    """Create the search index if it is missing. The writer fills it when idle."""
    known = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'search'").fetchone()
    if known is None and has_fts5(connection):
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(SEARCH_INDEX)
        connection.execute("UPDATE message_text SET indexed = 0 WHERE indexed = 1")
        connection.execute("COMMIT")
    elif known is not None and not has_fts5(connection):
        raise StoreUnwritable(
            "the database needs SQLite with FTS5, which this Python lacks; use a Python whose SQLite has FTS5"
        )


def size_on_disk(path: Path) -> int:
    """Bytes of the database and its write-ahead log."""
    files = (path, path.with_name(path.name + "-wal"))
    return sum(file.stat().st_size for file in files if file.exists())


def give_back_space(connection: sqlite3.Connection) -> None:
    """Write the file anew if a quarter of its pages is free, and empty the write-ahead log."""
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    if free * _FREE_SHARE >= pages:
        connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()


def has_fts5(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("SELECT count(*) FROM pragma_module_list WHERE name = 'fts5'").fetchone()[0])


def _connect_immutable(path: Path) -> sqlite3.Connection:
    """Open a file that no process writes. Creates no files beside it."""
    return connect(path, read_only=True, immutable=True)


def _has_wal(path: Path) -> bool:
    """Whether there is a non-empty write-ahead log: the last owner did not close the database."""
    wal = path.with_name(path.name + "-wal")
    return wal.exists() and wal.stat().st_size > 0


def _inspect_header(path: Path, *, size: int, unclean: bool) -> None:
    with path.open("rb") as file:
        header = file.read(100)
    if len(header) < 100 or not header.startswith(_MAGIC):
        raise damaged(path, "its header is not that of a SQLite database")
    page = int.from_bytes(header[16:18])
    page = 65536 if page == 1 else page
    pages = int.from_bytes(header[28:32])
    if not unclean and size < page * pages:
        raise damaged(path, f"it is truncated: {size} bytes instead of {page * pages}")


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another process has a lock that the statement needs."""
    return (getattr(error, "sqlite_errorname", None) or "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


def why_not_opened(error: sqlite3.Error, path: Path) -> OSError | None:
    """Why a file could not be opened, such as a limit of open files. SQLite does not say it; another attempt does."""
    if not (getattr(error, "sqlite_errorname", None) or "").startswith("SQLITE_CANTOPEN"):
        return None
    try:
        os.close(os.open(path, os.O_RDONLY))
    except OSError as reason:
        return reason
    return None


def _unwritable(path: Path, reason: object) -> StoreUnwritable:
    if isinstance(reason, sqlite3.Error) and is_busy(reason):  # not `StoreLocked`: no server is running
        return StoreUnwritable(
            f"the database {str(path)!r} cannot be opened: {BUSY_MESSAGE}",
            code="store_locked",
            detail={"path": str(path)},
        )
    return StoreUnwritable(
        f"the database {str(path)!r} cannot be written: {reason}; check its permissions and the space on its disk, "
        "or set HOLDFAST_HOME to another directory",
        detail={"path": str(path)},
    )


def damaged(path: Path, reason: str) -> StoreDamaged:
    return StoreDamaged(
        f"the database {str(path)!r} is damaged: {reason}; it was not changed: `holdfast "
        "restore` lists the backups, and `holdfast restore latest` puts the newest one in its place; or move the file "
        "to start with an empty database",
        detail={"path": str(path)},
    )
