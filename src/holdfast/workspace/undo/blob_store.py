"""File contents by their hash, in a data directory outside of every workspace. Blocking: call it in a thread.

Contents that the file tools replace are files of their own. Contents that were stored before and after commands, many
at a time, are in the shadow store. Both are read here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from holdfast.errors import StoreDamaged, StoreUnwritable
from holdfast.files import sync_directory, write_atomic
from holdfast.tools.files.file_access import content_hash
from holdfast.workspace.undo.shadow_store import ShadowStore


class BlobStore:
    """Stores each content once and never changes it. A content is on disk before its hash is returned."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.shadow = ShadowStore(directory / "shadow.db")

    def put(self, data: bytes) -> str:
        """Store a content and return its hash. Raises `StoreUnwritable`."""
        name = content_hash(data)
        path = self._path(name)
        try:
            if self._touch(path, size=len(data)) or self.shadow.touch(name):
                return name
            self._make_directory(path.parent)
            write_atomic(path, data, mode=0o600)
        except OSError as error:
            raise StoreUnwritable(f"cannot store the old content in {str(path)!r}: {error.strerror}") from error
        return name

    def get(self, name: str) -> bytes | None:
        """Return a content, or None if it is not stored. Raises `StoreDamaged` if its bytes do not match its hash."""
        path = self._path(name)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return self.shadow.get(name)
        except OSError as error:
            raise StoreDamaged(f"cannot read the stored content {str(path)!r}: {error.strerror}") from error
        if content_hash(data) != name:
            raise StoreDamaged(f"the stored content {str(path)!r} is damaged: it does not match its hash")
        return data

    def sweep(self, referenced: Callable[[Collection[str]], Collection[str]], *, before: float) -> int:
        """Remove contents last stored ``before`` a time that are not referenced. Returns how many.

        Newer contents stay, because their record may not be written yet.
        """
        removed = 0
        for names in self._by_directory(before):
            kept = set(referenced(names))
            for name in names:
                if name not in kept:
                    self._path(name).unlink(missing_ok=True)
                    removed += 1
        return removed + self.shadow.sweep(referenced, before=before)

    def close(self) -> None:
        self.shadow.close()

    def _by_directory(self, before: float) -> Iterator[list[str]]:
        if not self._directory.is_dir():
            return
        for directory in sorted(self._directory.iterdir()):
            if directory.is_dir():
                files = [path for path in directory.iterdir() if path.stat().st_mtime < before]
                yield [path.name for path in files if len(path.name) == 64]

    def _path(self, name: str) -> Path:
        return self._directory / name[:2] / name

    def _touch(self, path: Path, *, size: int) -> bool:
        """Renew the time of a content that is stored completely. Returns whether it is."""
        try:
            complete = path.stat().st_size == size
        except FileNotFoundError:
            return False
        if complete:
            os.utime(path)
        return complete

    def _make_directory(self, directory: Path) -> None:
        if directory.is_dir():
            return
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory.mkdir(mode=0o700, exist_ok=True)
        sync_directory(self._directory)
