"""Reads the present state of single files. Blocking: call it in a thread."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from holdfast.errors import ToolError
from holdfast.tools.files.file_access import MAX_FILE_BYTES, content_hash, link_hash, read_file
from holdfast.workspace.undo.file_state import NO_FILE, SETTLE_NS, UNREADABLE, FileState, unstored_content


def read_state(path: Path) -> tuple[FileState, bytes | None]:
    """Return the state of a file, and its content if it is a regular file of at most `MAX_FILE_BYTES`.

    The directory is resolved, the file itself is not: a symlink is a state of its own.
    """
    path = Path(os.path.realpath(path.parent)) / path.name
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return NO_FILE, None
    except OSError:
        return FileState(UNREADABLE), None
    if stat.S_ISLNK(status.st_mode):
        return FileState(link_hash(os.readlink(path))), None
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISREG(status.st_mode) and status.st_size > MAX_FILE_BYTES:
        return FileState(unstored_content(size=status.st_size, modified_ns=status.st_mtime_ns), mode), None
    try:
        data = read_file(path)
    except ToolError:
        return FileState(UNREADABLE), None
    return (NO_FILE, None) if data is None else (FileState(content_hash(data), mode), data)


class KnownFiles:
    """The states of single files. A file that did not change is not read again."""

    def __init__(self, store: Callable[[Mapping[str, bytes]], None]) -> None:
        self._store = store
        self._states: dict[str, tuple[tuple[int, int], FileState]] = {}

    def read(self, paths: Iterable[str]) -> dict[str, FileState]:
        """Return the states of files, and store their contents."""
        states: dict[str, FileState] = {}
        contents: dict[str, bytes] = {}
        settled_before = time.time_ns() - SETTLE_NS
        for path in paths:
            stamp = _stamp(path)
            known = self._states.get(path)
            if stamp is not None and known is not None and known[0] == stamp:
                states[path] = known[1]
                continue
            states[path], data = read_state(Path(path))
            if data is not None:
                contents[str(states[path].content)] = data
            if stamp is not None and stamp[0] < settled_before:
                self._states[path] = stamp, states[path]
        if contents:
            self._store(contents)
        return states


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_ctime_ns, status.st_ino
