"""Records which files a session read and wrote, with the content before each write: the `FileLedger` of its tools.

The old content is stored first, then the record of the change is committed, then the file is written. So the old
content is never lost. A crash before the write leaves a record of a change that did not happen; undo detects this by
the content of the file. Git is not used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Literal, Protocol

from msgspec import UNSET, UnsetType

from holdfast.ids import Prefix
from holdfast.schema.events import FileChanged
from holdfast.store.records import FileSnapshot
from holdfast.store.writes import Batch, Committed, PutSnapshot, RecordRead
from holdfast.tools.files.file_access import ABSENT, content_hash, mode_of
from holdfast.workspace.undo.blob_store import BlobStore


class SnapshotStore(Protocol):
    """The part of `Store` that snapshots and undo use."""

    async def commit(self, batch: Batch) -> Committed: ...

    async def read_hash(self, session_id: str, path: str) -> str | None: ...

    async def snapshots(self, session_id: str, *, path: str | None = None) -> tuple[FileSnapshot, ...]: ...


class SessionFiles:
    """The `FileLedger` of one tool call."""

    def __init__(
        self,
        store: SnapshotStore,
        blobs: BlobStore,
        *,
        session_id: str,
        run_id: str,
        call_id: str,
        new_id: Callable[[Prefix], str],
        now: Callable[[], str],
        on_write: Callable[[Path, str | None], None] = lambda path, content: None,
        on_read: Callable[[Path], None] = lambda path: None,
    ) -> None:
        """``on_write`` is called with the hash of what is written, and None for a file that is deleted."""
        self._on_read = on_read
        self._on_write = on_write
        self._store = store
        self._blobs = blobs
        self._session_id = session_id
        self._run_id = run_id
        self._call_id = call_id
        self._new_id = new_id
        self._now = now
        self._announced: dict[Path, FileSnapshot] = {}
        self._written: dict[Path, tuple[str | None, str | None]] = {}
        """The content before the call and the present one, by path."""

    async def last_read(self, path: Path) -> str | None:
        return await self._store.read_hash(self._session_id, str(path))

    async def record_read(self, path: Path, content_hash: str) -> None:
        self._on_read(path)
        if await self.last_read(path) != content_hash:  # a query is cheaper than a commit
            await self._store.commit(Batch((self._read_record(path, content_hash),)))

    async def before_write(self, path: Path, old: bytes | None, *, new: bytes | UnsetType | None = UNSET) -> None:
        before, mode, parents = await asyncio.to_thread(self._store_old, path, old)
        if isinstance(new, UnsetType):
            self._announced[path] = self._record(path, before, before, mode=mode, parents=parents)
            return
        after = await asyncio.to_thread(_hash_or_none, new)
        record = self._record(path, before, after, mode=mode, parents=parents)
        self._on_write(path, after)
        await self._store.commit(Batch((PutSnapshot(record),)))
        self._announced[path] = record

    async def after_write(self, path: Path, new: bytes | None, *, diff: str) -> None:
        record = self._announced.pop(path)
        after = await asyncio.to_thread(_hash_or_none, new)
        self._on_write(path, after)
        self._written[path] = self._written.get(path, (record.before, None))[0], after
        writes = [self._read_record(path, after or ABSENT)]
        missing = []
        if record.after != after:
            parents = record.parents_made
            missing = [PutSnapshot(self._record(path, record.after, after, mode=record.mode, parents=parents))]
        event = FileChanged(
            at=self._now(),
            session_id=self._session_id,
            run_id=self._run_id,
            path=str(path),
            change=_change_kind(record.before, after),
            diff=diff,
        )
        await self._store.commit(Batch((*writes, *missing), (event,)))

    @property
    def written(self) -> tuple[Path, ...]:
        return tuple(path for path, (_, after) in self._written.items() if after is not None)

    async def content_before(self, path: Path) -> bytes | None:
        before = self._written[path][0]
        return None if before is None else await asyncio.to_thread(self._blobs.get, before)

    async def drop_write(self, path: Path) -> None:
        """Record that an announced write did not happen: a second record that reverses the first."""
        record = self._announced.pop(path, None)
        if record is not None and record.after != record.before:
            back = self._record(path, record.after, record.before, mode=record.mode)
            await self._store.commit(Batch((PutSnapshot(back),)))

    def _store_old(self, path: Path, old: bytes | None) -> tuple[str | None, int | None, int]:
        """Return hash and permission bits of the old content, and how many directories above the file are missing."""
        if old is None:
            return None, None, sum(not parent.exists() for parent in path.parents)
        return self._blobs.put(old), mode_of(path), 0

    def _record(
        self, path: Path, before: str | None, after: str | None, *, mode: int | None, parents: int = 0
    ) -> FileSnapshot:
        return FileSnapshot(
            id=self._new_id("snp"),
            session_id=self._session_id,
            run_id=self._run_id,
            path=str(path),
            before=before,
            after=after,
            call_id=self._call_id,
            mode=mode,
            created_at=self._now(),
            parents_made=parents,
        )

    def _read_record(self, path: Path, content_hash: str) -> RecordRead:
        return RecordRead(session_id=self._session_id, path=str(path), content_hash=content_hash)


def _hash_or_none(content: bytes | None) -> str | None:
    return None if content is None else content_hash(content)


def _change_kind(before: str | None, after: str | None) -> Literal["created", "modified", "deleted"]:
    if before is None:
        return "created"
    return "deleted" if after is None else "modified"
