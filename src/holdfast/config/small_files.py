"""Small files, read with suspicion and written whole.

A configuration path may turn out to be anything: a directory, a pipe that never answers, a loop of links, a file of a
gigabyte. Each gets a clear error. What we write appears at once or not at all, whoever reads at that moment.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.errors import ConfigError

LARGEST = 1 << 20
"""Bytes of the largest file that is read; a configuration of this size is a mistake."""

READABLE_BY_OTHERS = 0o077
WRITABLE_BY_OTHERS = 0o022


def read_bytes(path: Path, *, forbidden_mode: int = 0) -> bytes | None:
    """A regular file's content, or `None` if it does not exist. `forbidden_mode`: permission bits it must not have."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        if path.is_symlink():
            raise problem_with(path, "is a link to nothing") from None
        return None
    except OSError as error:
        raise unreadable(path, error) from None
    try:
        _check(path, os.fstat(descriptor), forbidden_mode=forbidden_mode)
        data = _read_up_to(descriptor, LARGEST + 1)
    except OSError as error:
        raise unreadable(path, error) from None
    finally:
        os.close(descriptor)
    if len(data) > LARGEST:
        raise problem_with(path, f"is larger than {LARGEST >> 20} MiB; a file of this kind never needs to be")
    return data


def read_text(path: Path) -> str | None:
    """The same as text; a byte order mark is dropped."""
    data = read_bytes(path)
    if data is None:
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise problem_with(path, "is not UTF-8; save it as UTF-8 text", line=line) from None


def write_atomic(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Replace a file's content in one step, durably. An existing file's permissions stay, a link stays a link."""
    import tempfile

    path = Path(os.path.realpath(path))
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        mode = _mode_of(path, otherwise=mode)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise unwritable(path, error) from None
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        os.replace(temporary, path)
        _sync_directory(path.parent)
    except OSError as error:
        Path(temporary).unlink(missing_ok=True)
        raise unwritable(path, error) from None


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold a lock while reading, changing and writing `path`; another process waits its turn.

    Its directory is locked, so that no lock file is left in anybody's repository.
    """
    directory = Path(os.path.realpath(path)).parent
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise unwritable(path, error) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def problem_with(path: Path, what: str, *, line: int | None = None) -> ConfigError:
    where = str(path) if line is None else f"{path}:{line}"
    return ConfigError(f"{where}: {what}", detail={"file": str(path), "line": line})


def unreadable(path: Path, error: OSError) -> ConfigError:
    return problem_with(path, f"cannot be read: {error.strerror or error}")


def unwritable(path: Path, error: OSError) -> ConfigError:
    return problem_with(path, f"cannot be written: {error.strerror or error}")


def _check(path: Path, status: os.stat_result, *, forbidden_mode: int) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise problem_with(path, "is a directory; a file is expected here")
    if not stat.S_ISREG(status.st_mode):
        raise problem_with(path, "is not a regular file")
    if not forbidden_mode:
        return
    if status.st_mode & forbidden_mode:
        verb = "read" if forbidden_mode & 0o044 else "change"
        raise problem_with(path, f"other users can {verb} it, so it is not used; run 'chmod 600 {path}'")
    if status.st_uid != os.geteuid() and os.geteuid() != 0:
        raise problem_with(path, "belongs to another user, so it is not used")


def _read_up_to(descriptor: int, size: int) -> bytes:
    chunks = []
    while size > 0 and (chunk := os.read(descriptor, min(size, 1 << 16))):
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)


def _mode_of(path: Path, *, otherwise: int) -> int:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return otherwise


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
