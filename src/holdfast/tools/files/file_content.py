"""Reading files with bounds, and what a content is called. Blocking: call it in a thread."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from pathlib import Path

from holdfast.errors import ToolError

MAX_FILE_BYTES = 16 * 1024 * 1024
"""Larger files are not read, written or kept by the file tools."""

ABSENT = "absent"
"""The name of the content of a file that does not exist."""

_CHUNK = 1024 * 1024
_READ_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
"""A pipe must not hang us; a path is resolved before, so a symlink here appeared in between."""


def content_hash(data: bytes | None) -> str:
    """The name of a content; None means that there is no file."""
    return ABSENT if data is None else hashlib.sha256(data).hexdigest()


def read_file(path: Path, *, limit: int = MAX_FILE_BYTES) -> bytes | None:
    """The whole content, or None where nothing is. `ToolError` for what is no readable file, or too large."""
    try:
        descriptor = os.open(path, _READ_FLAGS)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _unreadable(path, error) from error
    try:
        _check_kind(path, os.fstat(descriptor), limit=limit)
        return _read_all(path, descriptor, limit=limit)
    except OSError as error:
        raise _unreadable(path, error) from error
    finally:
        os.close(descriptor)


def hash_file(path: Path) -> str:
    """The hash of what is there now, or `ABSENT`. `ToolError` as `read_file`."""
    return content_hash(read_file(path))


def mode_of(path: Path) -> int | None:
    """Permission bits, or None where nothing is."""
    try:
        return stat.S_IMODE(os.lstat(path).st_mode)
    except OSError:
        return None


def _read_all(path: Path, descriptor: int, *, limit: int) -> bytes:
    chunks = []
    size = 0
    while chunk := os.read(descriptor, _CHUNK):
        size += len(chunk)
        if size > limit:
            raise _too_large(path, size, limit)
        chunks.append(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _check_kind(path: Path, info: os.stat_result, *, limit: int) -> None:
    if stat.S_ISDIR(info.st_mode):
        raise ToolError(f"{str(path)!r} is a directory; use ls to see what is in it", code="is_directory")
    if not stat.S_ISREG(info.st_mode):
        raise ToolError(f"{str(path)!r} is no regular file (a device, pipe or socket)")
    if info.st_size > limit:
        raise _too_large(path, info.st_size, limit)


def _too_large(path: Path, size: int, limit: int) -> ToolError:
    return ToolError(
        f"{str(path)!r} is too large ({size:,} bytes or more; at most {limit:,}); "
        "use grep to find the place, or bash to read a part",
        code="file_too_large",
    )


def _unreadable(path: Path, error: OSError) -> ToolError:
    if error.errno == errno.ELOOP:
        return ToolError(f"{str(path)!r} became a symlink meanwhile; try again")
    return ToolError(f"{str(path)!r} cannot be read: {error.strerror}")
