"""Paths as the model writes them, and reads of whole files with a size limit. Blocking: call it in a thread."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from holdfast.digests import sha256_hex
from holdfast.errors import ToolError
from holdfast.files import FileTooLarge, NotRegularFile, read_limited
from holdfast.tools.files.held_directory import open_without_links

MAX_FILE_BYTES = 16 * 1024 * 1024
"""The file tools do not read, write or snapshot larger files."""

ABSENT = "absent"
"""The hash of a file that does not exist."""

LINK_PREFIX = "link:"
"""Begins what stands for the hash of a symlink; its target follows."""

_MAX_SIBLINGS = 5_000


def resolve_path(text: str, workspace: Path) -> Path:
    """Return the real absolute path: ``~`` is expanded and symlinks are followed. The path need not exist."""
    if not text.strip():
        raise ToolError("the path is empty; pass a path relative to the workspace, or an absolute path")
    if "\0" in text:
        raise ToolError(f"the path {text!r} contains a NUL character; remove it")
    try:
        found = os.path.realpath(workspace / os.path.expanduser(text))
        found.encode()
    except OSError as error:
        raise ToolError(f"the path {text!r} cannot be resolved: {error.strerror}") from error
    except UnicodeEncodeError as error:
        raise ToolError(f"the path {text!r} leads to a name that is not UTF-8; use bash for this file") from error
    return Path(found)


def display_path(path: Path, workspace: Path) -> str:
    """Return the path relative to the workspace, or absolute if it is outside."""
    return str(path.relative_to(workspace)) if path.is_relative_to(workspace) else str(path)


def missing_file_error(path: Path, workspace: Path) -> ToolError:
    """Return the error for a missing file, with similar paths that exist."""
    similar = [display_path(found, workspace) for found in similar_paths(path)]
    hint = f"; similar: {', '.join(map(repr, similar))}" if similar else "; use glob or ls to find it"
    return ToolError(f"{display_path(path, workspace)!r} does not exist{hint}", code="file_missing")


def similar_paths(path: Path) -> tuple[Path, ...]:
    """Return siblings with similar names. If the directory is missing too, return similar directories."""
    while not path.parent.is_dir():
        if path.parent == path:
            return ()
        path = path.parent
    try:
        with os.scandir(path.parent) as entries:
            names = [entry.name for entry in islice(entries, _MAX_SIBLINGS)]
    except OSError:
        return ()
    by_key = {name.lower(): name for name in names}
    same_stem = [name for name in names if Path(name).stem.lower() == path.stem.lower()]
    import difflib

    close = difflib.get_close_matches(path.name.lower(), by_key, n=3, cutoff=0.6)
    found = dict.fromkeys([*same_stem, *(by_key[key] for key in close)])
    return tuple(path.parent / name for name in list(found)[:3])


def content_hash(data: bytes | None) -> str:
    """Return the hash of a content; None means that the file does not exist."""
    return ABSENT if data is None else sha256_hex(data)


def link_hash(target: str) -> str:
    """Return what stands for the hash of a symlink."""
    return f"{LINK_PREFIX}{target}"


def read_file(
    path: Path, *, limit: int = MAX_FILE_BYTES, opener: Callable[[Path, int], int] = open_without_links
) -> bytes | None:
    """Return the content, or None if the file does not exist. Raises `ToolError` if it cannot be read whole.

    No part of the path may be a symlink: paths are resolved before, so a symlink appeared in between.
    """
    try:
        return read_limited(path, limit=limit, opener=opener)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except IsADirectoryError:
        raise ToolError(f"{str(path)!r} is a directory; use ls to list it", code="is_directory") from None
    except NotRegularFile:
        raise ToolError(f"{str(path)!r} is not a regular file (it is a device, pipe or socket)") from None
    except FileTooLarge as error:
        raise ToolError(
            f"{str(path)!r} is too large ({error.size:,} bytes or more; the limit is {limit:,}); "
            "use grep to search it, or bash to read a part",
            code="file_too_large",
        ) from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ToolError(f"{str(path)!r} became a symlink; try again") from error
        raise ToolError(f"{str(path)!r} cannot be read: {error.strerror}") from error


def hash_file(path: Path) -> str:
    """Return the hash of the current content, or `ABSENT`. Raises `ToolError` like `read_file`."""
    return content_hash(read_file(path))


def mode_of(path: Path) -> int | None:
    """Return the permission bits, or None if the file does not exist."""
    try:
        return stat.S_IMODE(os.lstat(path).st_mode)
    except OSError:
        return None
