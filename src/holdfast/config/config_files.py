"""Read and write the configuration, secrets and trust files.

A configuration path may be anything: a directory, a pipe, a loop of links, a file of a gigabyte. Each gets a clear
`ConfigError`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast import files
from holdfast.errors import ConfigError

MAX_BYTES = 1 << 20
"""Larger files are refused: a configuration of this size is a mistake."""

READABLE_BY_OTHERS = 0o077
WRITABLE_BY_OTHERS = 0o022


def read_bytes(path: Path, *, forbidden_mode: int = 0) -> bytes | None:
    """Return a regular file's content, or `None` if it does not exist.

    `forbidden_mode` names permission bits that the file must not have.
    """

    def check(status: os.stat_result) -> None:
        _check_access(path, status, forbidden_mode=forbidden_mode)

    try:
        return files.read_limited(path, limit=MAX_BYTES, check=check)
    except (FileNotFoundError, NotADirectoryError):
        if path.is_symlink():
            raise problem_with(path, "is a link to a file that does not exist") from None
        return None
    except IsADirectoryError:
        raise problem_with(path, "is a directory; a file is expected here") from None
    except files.NotRegularFile:
        raise problem_with(path, "is not a regular file") from None
    except files.FileTooLarge:
        raise problem_with(path, f"is larger than {MAX_BYTES >> 20} MiB, the limit for this kind of file") from None
    except OSError as error:
        raise problem_with(path, f"cannot be read: {error.strerror or error}") from None


def read_text(path: Path) -> str | None:
    """Like `read_bytes`, decoded from UTF-8 without its byte order mark."""
    data = read_bytes(path)
    if data is None:
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise problem_with(path, "is not UTF-8; save it as UTF-8 text", line=line) from None


def write_bytes(path: Path, data: bytes) -> None:
    """Replace a file's content in one step, durably. An existing file's permissions stay, a link stays a link."""
    try:
        files.write_atomic(path, data, follow_links=True)
    except OSError as error:
        raise _unwritable(path, error) from None


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold a lock while reading, changing and writing `path`; other processes wait. Creates its directory.

    The directory itself is locked, so that no lock file is left in a repository.
    """
    directory = Path(os.path.realpath(path)).parent
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = files.open_directory(directory)
    except OSError as error:
        raise _unwritable(path, error) from None
    try:
        files.lock(descriptor)
        yield
    finally:
        os.close(descriptor)


def problem_with(path: Path, what: str, *, line: int | None = None) -> ConfigError:
    where = str(path) if line is None else f"{path}:{line}"
    return ConfigError(f"{where}: {what}", detail={"file": str(path), "line": line})


def _unwritable(path: Path, error: OSError) -> ConfigError:
    return problem_with(path, f"cannot be written: {error.strerror or error}")


def _check_access(path: Path, status: os.stat_result, *, forbidden_mode: int) -> None:
    if not forbidden_mode:
        return
    if status.st_mode & forbidden_mode:
        verb = "read" if forbidden_mode & 0o044 else "change"
        raise problem_with(path, f"other users can {verb} it, so it is not used; run 'chmod 600 {path}'")
    if status.st_uid != os.geteuid() and os.geteuid() != 0:
        raise problem_with(path, "belongs to another user, so it is not used")
