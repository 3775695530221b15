"""Contents and states of the files of workspaces, in one SQLite file outside of every workspace. Blocking; thread-safe.

It has the content of every covered file (compressed, each content once), what is known of each file, which commands run
now, and what changed while they run. It is written before a command starts, so that a crash at any moment leaves what
is needed to find out what the command changed.

If the file is damaged, it is put aside and a new one is begun: what commands changed before can then not be undone.
"""

from __future__ import annotations

import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from holdfast.errors import StoreDamaged, StoreUnwritable
from holdfast.schema.base import Value
from holdfast.tools.files.file_access import content_hash
from holdfast.workspace.undo.file_state import FileState
from holdfast.workspace.undo.tree_scan import TreeChange, TreeFile

if TYPE_CHECKING:
    from collections.abc import Iterator

_TABLES = """
CREATE TABLE IF NOT EXISTS contents (hash TEXT PRIMARY KEY, data BLOB NOT NULL, stored REAL NOT NULL);
CREATE TABLE IF NOT EXISTS files (
    workspace_id TEXT, path TEXT, changed_ns INTEGER, inode INTEGER, settled INTEGER, content TEXT, mode INTEGER,
    size INTEGER, PRIMARY KEY (workspace_id, path)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS files_by_content ON files (content);
CREATE TABLE IF NOT EXISTS commands (call_id TEXT PRIMARY KEY, workspace_id TEXT NOT NULL, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS changes (
    number INTEGER PRIMARY KEY AUTOINCREMENT, workspace_id TEXT NOT NULL, path TEXT NOT NULL,
    before TEXT, before_mode INTEGER, after TEXT, after_mode INTEGER);
CREATE TABLE IF NOT EXISTS gaps (
    session_id TEXT NOT NULL, run_id TEXT NOT NULL, note TEXT NOT NULL, at REAL NOT NULL,
    PRIMARY KEY (run_id, note)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS workspaces (id TEXT PRIMARY KEY, used REAL NOT NULL);
"""
_VERSION = 1
_COMPRESSION = 1
_SWEEP_PAGE = 500
_UNUSED_SECONDS = 14 * 86_400.0
"""How long the files of a workspace without commands are kept, and the notes about what was not covered."""


class CommandMark(Value, frozen=True, kw_only=True):
    """A command whose changes are not recorded yet."""

    call_id: str
    session_id: str
    run_id: str
    started_at: str
    version: int = 0
    """The number of the last change before it."""
    known: dict[str, tuple[str | None, int | None]] = {}
    """Content and mode of the files that are not in the tree but that the session has read, by path."""
    note: str = ""
    """What is not covered."""


_mark = msgspec.json.Decoder(CommandMark)


class ShadowStore:
    """One file for all workspaces of a server. It is made when it is first needed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._sql: sqlite3.Connection | None = None

    def put_contents(self, contents: Mapping[str, bytes]) -> None:
        """Store contents durably, by their hash."""
        now = time.time()
        rows = [(name, zlib.compress(data, _COMPRESSION), now) for name, data in contents.items()]
        with self._transaction(durable=True) as sql:
            sql.executemany(
                "INSERT INTO contents VALUES (?, ?, ?) ON CONFLICT (hash) DO UPDATE SET stored = excluded.stored", rows
            )

    def touch(self, name: str) -> bool:
        """Renew the time of a content. Returns whether it is stored."""
        if self._sql is None and not self._path.exists():
            return False
        with self._transaction(durable=False) as sql:
            return sql.execute("UPDATE contents SET stored = ? WHERE hash = ?", (time.time(), name)).rowcount > 0

    def get(self, name: str) -> bytes | None:
        """Return a content, or None if it is not stored. Raises `StoreDamaged` if its bytes do not match its hash."""
        if self._sql is None and not self._path.exists():
            return None
        with self._reading() as sql:
            row = sql.execute("SELECT data FROM contents WHERE hash = ?", (name,)).fetchone()
        if row is None:
            return None
        with suppress(zlib.error):
            data = zlib.decompress(row[0])
            if content_hash(data) == name:
                return data
        raise StoreDamaged(f"the content {name!r} in {str(self._path)!r} is damaged: it does not match its hash")

    def read_tree(self, workspace_id: str) -> tuple[dict[str, TreeFile], int]:
        """Return the files of a workspace, and the number of the last change."""
        with self._reading() as sql:
            rows = sql.execute(
                "SELECT path, changed_ns, inode, settled, content, mode, size FROM files WHERE workspace_id = ?",
                (workspace_id,),
            )
            files = {
                path: TreeFile(changed_ns, inode, bool(settled), content, mode, size)
                for path, changed_ns, inode, settled, content, mode, size in rows
            }
            (last,) = sql.execute("SELECT coalesce(max(number), 0) FROM changes").fetchone()
        return files, int(last)

    def read_marks(self, workspace_id: str) -> tuple[CommandMark, ...]:
        """Return the commands of a workspace whose changes are not recorded."""
        if self._sql is None and not self._path.exists():
            return ()
        with self._reading() as sql:
            rows = sql.execute("SELECT body FROM commands WHERE workspace_id = ?", (workspace_id,)).fetchall()
        return tuple(_mark.decode(body) for (body,) in rows)

    def read_changes(self, workspace_id: str, *, after: int) -> list[TreeChange]:
        """Return what changed in a workspace since a change, in order."""
        with self._reading() as sql:
            rows = sql.execute(
                "SELECT path, before, before_mode, after, after_mode FROM changes "
                "WHERE workspace_id = ? AND number > ? ORDER BY number",
                (workspace_id, after),
            ).fetchall()
        return [
            TreeChange(path, FileState(before, before_mode), FileState(content, mode))
            for path, before, before_mode, content, mode in rows
        ]

    def save(
        self,
        workspace_id: str,
        files: Mapping[str, TreeFile | None],
        *,
        changes: Iterable[TreeChange] = (),
        mark: CommandMark | None = None,
    ) -> int:
        """Store what one look at a tree found. ``changes`` are kept for the commands that run now; ``mark`` is a
        command that starts now. Returns the number of the last change.
        """
        with self._transaction(durable=False) as sql:
            gone = [(workspace_id, path) for path, file in files.items() if file is None]
            rows = [(workspace_id, path, *file) for path, file in files.items() if file is not None]
            sql.executemany("DELETE FROM files WHERE workspace_id = ? AND path = ?", gone)
            sql.executemany("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
            sql.executemany(
                "INSERT INTO changes (workspace_id, path, before, before_mode, after, after_mode) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                [(workspace_id, change.path, *change.before, *change.after) for change in changes],
            )
            (last,) = sql.execute("SELECT coalesce(max(number), 0) FROM changes").fetchone()
            if mark is not None:
                body = msgspec.json.encode(msgspec.structs.replace(mark, version=int(last)))
                sql.execute("INSERT OR REPLACE INTO commands VALUES (?, ?, ?)", (mark.call_id, workspace_id, body))
                sql.execute("INSERT OR REPLACE INTO workspaces VALUES (?, ?)", (workspace_id, time.time()))
        return int(last)

    def remove_mark(self, workspace_id: str, mark: CommandMark) -> None:
        """The changes of a command are recorded. Once no command runs, changes are no longer kept."""
        with self._transaction(durable=False) as sql:
            sql.execute("DELETE FROM commands WHERE call_id = ?", (mark.call_id,))
            sql.execute(
                "DELETE FROM changes WHERE workspace_id = ?1 "
                "AND NOT EXISTS (SELECT 1 FROM commands WHERE workspace_id = ?1)",
                (workspace_id,),
            )
            if mark.note:
                sql.execute(
                    "INSERT OR IGNORE INTO gaps VALUES (?, ?, ?, ?)",
                    (mark.session_id, mark.run_id, mark.note, time.time()),
                )

    def forget_tree(self, workspace_id: str) -> None:
        with self._transaction(durable=False) as sql:
            sql.execute("DELETE FROM files WHERE workspace_id = ?", (workspace_id,))

    def gaps(self, session_id: str) -> dict[str, tuple[str, ...]]:
        """Return what was not covered in the runs of a session."""
        if self._sql is None and not self._path.exists():
            return {}
        with self._reading() as sql:
            rows = sql.execute("SELECT run_id, note FROM gaps WHERE session_id = ? ORDER BY at", (session_id,))
            found: dict[str, tuple[str, ...]] = {}
            for run_id, note in rows:
                found[run_id] = (*found.get(run_id, ()), note)
        return found

    def sweep(self, referenced: Callable[[Collection[str]], Collection[str]], *, before: float) -> int:
        """Remove contents last stored ``before`` a time that no file and no record has. Returns how many."""
        if self._sql is None and not self._path.exists():
            return 0
        unused = (before - _UNUSED_SECONDS,)
        with self._transaction(durable=False) as sql:
            sql.execute(
                "DELETE FROM files WHERE workspace_id IN (SELECT id FROM workspaces WHERE used < ? "
                "AND id NOT IN (SELECT workspace_id FROM commands))",
                unused,
            )
            sql.execute("DELETE FROM workspaces WHERE used < ?", unused)
            sql.execute("DELETE FROM gaps WHERE at < ?", unused)
        removed, last = 0, ""
        while names := self._unused_contents(before, after=last):
            last = names[-1]
            dead = [(name,) for name in set(names) - set(referenced(names))]
            with self._transaction(durable=False) as sql:
                sql.executemany("DELETE FROM contents WHERE hash = ?", dead)
            removed += len(dead)
        if removed:
            with self._reading() as sql:
                sql.execute("PRAGMA incremental_vacuum").fetchall()
        return removed

    def close(self) -> None:
        with self._lock:
            if self._sql is not None:
                self._sql.close()
                self._sql = None

    def _unused_contents(self, before: float, *, after: str) -> list[str]:
        with self._reading() as sql:
            rows = sql.execute(
                "SELECT hash FROM contents WHERE hash > ? AND stored < ? "
                "AND NOT EXISTS (SELECT 1 FROM files WHERE content = hash) "
                "AND NOT EXISTS (SELECT 1 FROM changes WHERE before = hash OR after = hash) ORDER BY hash LIMIT ?",
                (after, before, _SWEEP_PAGE),
            ).fetchall()
        return [name for (name,) in rows]

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                yield self._open()
            except (sqlite3.DatabaseError, OSError) as error:
                raise self._failure(error) from error

    @contextmanager
    def _transaction(self, *, durable: bool) -> Iterator[sqlite3.Connection]:
        """``durable``: also after a power failure, not only after a crash of the server."""
        with self._lock:
            try:
                sql = self._open()
                sql.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
                sql.execute("BEGIN IMMEDIATE")
                try:
                    yield sql
                    sql.execute("COMMIT")
                except BaseException:
                    with suppress(sqlite3.Error):
                        sql.execute("ROLLBACK")
                    raise
            except (sqlite3.DatabaseError, OSError) as error:
                raise self._failure(error) from error

    def _failure(self, error: sqlite3.DatabaseError | OSError) -> StoreUnwritable | StoreDamaged:
        if isinstance(error, sqlite3.OperationalError | OSError):
            return StoreUnwritable(f"cannot use {str(self._path)!r}: {error}")
        self._put_aside()
        return StoreDamaged(f"{str(self._path)!r} is damaged ({error}); it was put aside, and a new one is begun")

    def _open(self) -> sqlite3.Connection:
        if self._sql is None:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path.touch(mode=0o600, exist_ok=True)
            sql = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
            try:
                if sql.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
                    sql.execute("PRAGMA auto_vacuum = INCREMENTAL")
                    sql.executescript(f"{_TABLES} PRAGMA user_version = {_VERSION};")
                sql.execute("PRAGMA journal_mode = WAL").fetchall()
            except BaseException:
                sql.close()
                raise
            self._sql = sql
        return self._sql

    def _put_aside(self) -> None:
        if self._sql is not None:
            with suppress(sqlite3.Error):
                self._sql.close()
            self._sql = None
        with suppress(OSError):
            self._path.rename(self._path.with_suffix(".damaged"))
        for suffix in ("-wal", "-shm"):
            Path(f"{self._path}{suffix}").unlink(missing_ok=True)
