"""Contents of files by their hash, in a directory of their own outside every repository. Blocking: call in a thread."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from holdfast.errors import StoreDamaged, StoreUnwritable
from holdfast.tools.files.file_access import content_hash


class Blobs:
    """Each content once, never changed, flushed before it is known."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def put(self, data: bytes) -> str:
        """Keep a content durably; answers its hash. `StoreUnwritable` if that cannot be done."""
        name = content_hash(data)
        path = self._path(name)
        try:
            if self._fresh(path, size=len(data)):
                return name
            self._make_directory(path.parent)
            temp = path.with_name(f".{name}.{secrets.token_hex(4)}")
            _write(temp, data)
            os.replace(temp, path)
            _flush(path.parent)
        except OSError as error:
            raise StoreUnwritable(f"the old content could not be kept in {str(path)!r}: {error.strerror}") from error
        return name

    def get(self, name: str) -> bytes | None:
        """The content, or None if it is not kept. `StoreDamaged` if the disk gives back something else."""
        path = self._path(name)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreDamaged(f"the kept content {str(path)!r} cannot be read: {error.strerror}") from error
        if content_hash(data) != name:
            raise StoreDamaged(f"the kept content {str(path)!r} is not what was put there")
        return data

    def sweep(self, needed: Callable[[Collection[str]], Collection[str]], *, before: float) -> int:
        """Remove what is older than the time and that nobody needs; how many.

        The age spares contents that were put a moment ago and whose record is being written.
        """
        removed = 0
        for names in self._by_directory(before):
            kept = set(needed(names))
            for name in names:
                if name not in kept:
                    self._path(name).unlink(missing_ok=True)
                    removed += 1
        return removed

    def _by_directory(self, before: float) -> Iterator[list[str]]:
        if not self._directory.is_dir():
            return
        for directory in sorted(self._directory.iterdir()):
            if directory.is_dir():
                files = [path for path in directory.iterdir() if path.stat().st_mtime < before]
                yield [path.name for path in files if len(path.name) == 64]

    def _path(self, name: str) -> Path:
        return self._directory / name[:2] / name

    def _fresh(self, path: Path, *, size: int) -> bool:
        """Whether it is there already, whole; if so it is young again, so that no sweep takes it."""
        try:
            whole = path.stat().st_size == size
        except FileNotFoundError:
            return False
        if whole:
            os.utime(path)
        return whole

    def _make_directory(self, directory: Path) -> None:
        if directory.is_dir():
            return
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory.mkdir(mode=0o700, exist_ok=True)
        _flush(self._directory)


def _write(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
    except BaseException:
        with contextlib.suppress(OSError):
            path.unlink()
        raise


def _flush(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
