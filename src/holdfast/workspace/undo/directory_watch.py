"""Asks the kernel in which directories something changed (inotify), so that only these need be looked at. Linux only.

Nothing is read until somebody asks: the kernel collects, and says so if it could not. Where it cannot know all changes
(a file system that other machines change, too many directories), there is no watch, and everything is looked at.
"""

from __future__ import annotations

import contextlib
import functools
import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

_MODIFY, _ATTRIB, _CLOSE_WRITE = 0x2, 0x4, 0x8
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE, _DELETE_SELF, _MOVE_SELF = 0x40, 0x80, 0x100, 0x200, 0x400, 0x800
_ONLY_DIRECTORY, _NO_LINK = 0x0100_0000, 0x0200_0000
_OVERFLOW = 0x4000
_MASK = (
    _MODIFY
    | _ATTRIB
    | _CLOSE_WRITE
    | _MOVED_FROM
    | _MOVED_TO
    | _CREATE
    | _DELETE
    | _DELETE_SELF
    | _MOVE_SELF
    | _ONLY_DIRECTORY
    | _NO_LINK
)
_EVENT = struct.Struct("iIII")
_READ_BYTES = 1 << 18
_MAX_DIRECTORIES = 4_000
"""The kernel limits the watches of all programs of a user together."""
_SHARED_FILE_SYSTEMS = ("nfs", "cifs", "smb", "fuse", "9p", "virtiofs", "vboxsf", "afs", "ceph", "prl_fs")


class DirectoryWatch:
    """Watches directories below one root. Use `open_watch`; close it when the work is done."""

    def __init__(self, root: str, calls: _InotifyCalls, descriptor: int) -> None:
        self._root = root
        self._calls = calls
        self._descriptor = descriptor
        self._names: dict[int, str] = {}

    def add(self, relative: str) -> bool:
        """Watch a directory from now on. Returns False if it cannot be watched; the watch is then of no use."""
        if len(self._names) >= _MAX_DIRECTORIES:
            return False
        path = os.path.join(self._root, relative) if relative else self._root
        number = self._calls.add_watch(self._descriptor, os.fsencode(path), _MASK)
        if number < 0:
            return not os.path.isdir(path)  # a directory that is gone again need not be watched
        self._names[number] = relative
        return True

    def take_changed(self) -> set[str] | None:
        """Return the directories in which something changed since the last call. None: the kernel lost track."""
        changed: set[str] = set()
        while True:
            try:
                data = os.read(self._descriptor, _READ_BYTES)
            except BlockingIOError:
                return changed
            except OSError:
                return None
            position = 0
            while position < len(data):
                number, mask, _, length = _EVENT.unpack_from(data, position)
                position += _EVENT.size + length
                if mask & _OVERFLOW:
                    return None
                if (name := self._names.get(number)) is not None:
                    changed.add(name)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            self.close()


def open_watch(root: str) -> DirectoryWatch | None:
    """Return a watch without directories, or None if changes below ``root`` cannot be watched. Blocking."""
    calls = _inotify_calls()
    if calls is None or _is_shared(root):
        return None
    descriptor = calls.open(os.O_NONBLOCK | os.O_CLOEXEC)
    return None if descriptor < 0 else DirectoryWatch(root, calls, descriptor)


class _InotifyCalls(NamedTuple):
    open: Callable[[int], int]
    add_watch: Callable[[int, bytes, int], int]


@functools.cache
def _inotify_calls() -> _InotifyCalls | None:
    if sys.platform != "linux":
        return None
    import ctypes  # slow to import; only commands need it

    library = ctypes.CDLL(None, use_errno=True)
    try:
        return _InotifyCalls(library.inotify_init1, library.inotify_add_watch)
    except AttributeError:
        return None


def _is_shared(root: str) -> bool:
    """Whether other machines may change the file system: the kernel does not see such changes."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        return True
    kind, longest = "", -1
    for line in lines:
        fields, _, rest = line.partition(" - ")
        point = fields.split(" ")[4].replace("\\040", " ")
        inside = root == point or root.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= longest:
            kind, longest = rest.split(" ", 1)[0], len(point)
    return longest < 0 or kind.startswith(_SHARED_FILE_SYSTEMS)
