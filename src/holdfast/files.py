"""File primitives: limited read, atomic write, exclusive lock, file identity, repository root.

Every function blocks; code on the event loop calls it in a thread. Failures are `OSError`; callers turn them into
errors of `holdfast.errors`, since they know what the file is for.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

_CHUNK = 1 << 20
_POLL_SECONDS = 0.005


@cache
def initial_descriptor_limit() -> int:
    """How many open files this process was allowed when this was first called: before it raised its limit."""
    import resource

    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


class NotRegularFile(OSError):
    """The path is a device, pipe or socket."""


class FileTooLarge(OSError):
    """The file has more bytes than the caller accepts."""

    def __init__(self, path: Path, *, size: int, limit: int) -> None:
        super().__init__(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
        self.size = size
        """Bytes of the file, or as many as were read when the limit was passed."""
        self.limit = limit


def read_limited(
    path: Path,
    *,
    limit: int,
    opener: Callable[[Path, int], int] = os.open,
    check: Callable[[os.stat_result], None] | None = None,
) -> bytes:
    """Return the content of a regular file of at most `limit` bytes.

    `opener` gets the path and the flags, and returns a descriptor. `check` gets the status of the opened file before it
    is read, and may raise. Raises `IsADirectoryError`, `NotRegularFile`, `FileTooLarge`, or the `OSError` of the system
    call.
    """
    # O_NONBLOCK: opening a pipe without a writer must not hang.
    descriptor = opener(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(status.st_mode):
            raise NotRegularFile(errno.EINVAL, "Not a regular file", str(path))
        if check is not None:
            check(status)
        if status.st_size > limit:
            raise FileTooLarge(path, size=status.st_size, limit=limit)
        return _read_all(path, descriptor, limit=limit)
    finally:
        os.close(descriptor)


def write_atomic(path: Path, data: bytes, *, mode: int | None = None, follow_links: bool = False) -> None:
    """Replace a file's content in one step and flush it to disk. Readers see the old content or the new one.

    `mode` sets the permission bits; without it an existing file keeps its own and a new file gets 0600. A symbolic link
    is replaced; with `follow_links` its target is. The directory must exist.
    """
    if follow_links:
        path = Path(os.path.realpath(path))
    if mode is None:
        mode = _mode_of(path)
    temporary = path.with_name(f".{os.urandom(8).hex()}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Flush a directory's entries to disk, so that a new name survives a power failure."""
    descriptor = open_directory(directory)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_directory(directory: Path) -> int:
    """Open a directory to lock or flush it; the caller closes the descriptor."""
    return os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def lock(descriptor: int, *, seconds: float | None = None) -> bool:
    """Take an exclusive lock (`flock`) on an open file or directory. Closing the descriptor releases it.

    `seconds` limits the wait: 0 tries once, None waits without limit. Returns False if the lock was not obtained.
    The kernel releases the lock of a process that dies. Raises `OSError` if the file system has no such locks.
    """
    import fcntl  # here: clients import this module at start and rarely lock

    if seconds is None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return True
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_SECONDS)
        else:
            return True


def unlock(descriptor: int) -> None:
    """Release the lock of an open file or directory."""
    import fcntl

    fcntl.flock(descriptor, fcntl.LOCK_UN)


def file_identity(path: Path, *, follow_links: bool = True) -> tuple[int, int] | None:
    """Return device and inode, which identify a file under any name, or None if there is no such file."""
    try:
        status = os.stat(path, follow_symlinks=follow_links)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def is_out_of_descriptors(error: BaseException | None) -> bool:
    """Whether an error comes from the limit of open files, which is never the fault of the caller or the tool."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            return True
        error = error.__cause__ or error.__context__
    return False


def repository_root(directory: Path) -> Path:
    """Return the nearest directory, from this one upwards, that contains ``.git``; else the directory itself.

    The path is not resolved: pass a resolved path to search above the target of a link.
    """
    folder = os.fspath(directory)
    while not os.path.lexists(os.path.join(folder, ".git")):
        above = os.path.dirname(folder)
        if above == folder:
            return directory
        folder = above
    return Path(folder)


class Repository(NamedTuple):
    """Where a directory belongs, for those who look for several things there."""

    root: Path
    """As `repository_root` returns it."""
    real_root: Path
    """Without links."""

    @classmethod
    def of(cls, directory: Path) -> Repository:
        root = repository_root(directory)
        return cls(root, Path(os.path.realpath(root)))


class FolderSearch:
    """Finds which of some folders exist. Many have the same parent, which does not exist: it is looked for once."""

    def __init__(self, folders: Iterable[Path] = ()) -> None:
        self._by_parent: dict[str, list[tuple[str, Path]]] = {}
        for folder in folders:
            path = os.fspath(folder)
            self._by_parent.setdefault(os.path.dirname(path), []).append((path, folder))

    def existing(self) -> set[Path]:
        found: set[Path] = set()
        for parent, folders in self._by_parent.items():
            if os.path.isdir(parent):
                found.update(folder for path, folder in folders if os.path.isdir(path))
        return found


def _read_all(path: Path, descriptor: int, *, limit: int) -> bytes:
    """The file may grow while it is read, so the limit is checked again."""
    chunks = []
    size = 0
    while chunk := os.read(descriptor, _CHUNK):
        size += len(chunk)
        if size > limit:
            raise FileTooLarge(path, size=size, limit=limit)
        chunks.append(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _mode_of(path: Path) -> int:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return 0o600


def find_program(name: str, search_path: str, *, outside: Path) -> str | None:
    """Return the file that a program's name stands for, if it is not below a directory that the agent can write.

    The search path of a person often has a directory of the workspace, such as ``.venv/bin``. What Holdfast starts
    itself must not come from there. Relative entries are skipped for the same reason. Blocking.
    """
    root = os.path.realpath(outside)
    for path in programs_named(name, search_path):
        places = (os.path.join(os.path.realpath(os.path.dirname(path)), name), os.path.realpath(path))
        if not any(place.startswith(root.rstrip("/") + "/") for place in places):
            return path
    return None


def programs_named(name: str, search_path: str) -> Iterator[str]:
    """The programs of a name in the absolute directories of a search path, in their order. Blocking.

    The first one is what `shutil.which` returns, whose module takes half a megabyte of every server.
    """
    for entry in search_path.split(os.pathsep):
        path = f"{entry}{name}" if entry.endswith("/") else f"{entry}/{name}"
        if entry.startswith("/") and os.access(path, os.X_OK) and os.path.isfile(path):
            yield path
