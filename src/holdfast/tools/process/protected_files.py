"""Restores files that a confined command may not change but could.

Landlock cannot except a file below a writable directory, and bubblewrap cannot protect a file that does not exist yet.
So the protected files are compared after each confined command, also if it leaves processes running, and before the
next one. What changed is put back and reported; the changed version is kept. Nothing is put back if an unconfined
command ran meanwhile, because it may have made the change.
"""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path
from typing import NamedTuple

from holdfast.files import write_atomic
from holdfast.tools.process.sandbox_limits import protected_paths

_MAX_FILES = 500
_MAX_BYTES = 1 << 20


class _FileState(NamedTuple):
    stamp: tuple[int, ...]
    mode: int
    content: bytes | None
    """``None`` for a directory, a link or a large file, which are only reported."""


class ProtectedFiles:
    """The protected files of one workspace."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._known: dict[str, _FileState] = {}
        self._active: list[ProtectedState] = []
        self._lock = threading.Lock()
        self._unconfined = 0
        self._generation = 0

    def unconfined_started(self) -> None:
        self._unconfined += 1
        self._generation += 1

    def unconfined_ended(self) -> None:
        self._unconfined -= 1
        self._generation += 1

    def begin(self, *, rejected: Path) -> ProtectedState:
        """Read the files before a confined command, after they were put back as the others found them.

        Blocking: call it in a thread.
        """
        with self._lock:
            restored = self._restore(self._active[0], rejected) if self._active else ()
            roots = protected_paths(self._workspace)
            self._known = {path: self._state(path) for path in _walk(roots)}
            before = ProtectedState(roots, dict(self._known), self._generation, restored)
            self._active.append(before)
            return before

    def restore(self, before: ProtectedState, *, rejected: Path) -> tuple[str, ...]:
        """Put back what changed since the command began; return the changed paths. Blocking: call it in a thread."""
        with self._lock:
            return self._restore(before, rejected)

    def end(self, before: ProtectedState) -> None:
        """The command and all its processes have ended."""
        self._active = [state for state in self._active if state is not before]

    def _restore(self, before: ProtectedState, rejected: Path) -> tuple[str, ...]:
        now = {path: self._state(path) for path in _walk(before.roots)}
        changed = [path for path in before.files if not _same(now.get(path), before.files[path])]
        created = [path for path in now if path not in before.files]
        if self._generation == before.generation and not self._unconfined:
            for path in created:
                _move_away(path, rejected)
            for path in changed:
                _put_back(path, before.files[path], rejected)
        return tuple(os.path.relpath(path, self._workspace) for path in [*changed, *created])

    def _state(self, path: str) -> _FileState:
        found = os.lstat(path)
        stamp = (found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        known = self._known.get(path)
        if known and known.stamp == stamp:
            return known
        content = None
        if stat.S_ISREG(found.st_mode) and found.st_size <= _MAX_BYTES:
            with open(path, "rb") as file:
                content = file.read()
        return _FileState(stamp, stat.S_IMODE(found.st_mode), content)


class ProtectedState(NamedTuple):
    """The protected files before a command."""

    roots: tuple[str, ...]
    files: dict[str, _FileState]
    generation: int
    restored: tuple[str, ...] = ()
    """What other commands had changed, and was put back first."""


def _same(now: _FileState | None, before: _FileState) -> bool:
    if now is None:
        return False
    if stat.S_ISDIR(before.stamp[0]):
        return stat.S_ISDIR(now.stamp[0])
    return now.stamp == before.stamp or (now.content is not None and now[1:] == before[1:])


def _walk(roots: tuple[str, ...]) -> list[str]:
    """Return the files and directories at and below these paths that exist. Links are not followed."""
    found: list[str] = []
    for root in roots:
        if len(found) > _MAX_FILES:
            break
        if not os.path.lexists(root):
            continue
        found.append(root)
        if os.path.isdir(root) and not os.path.islink(root):
            for directory, names, files in os.walk(root):
                found += [os.path.join(directory, name) for name in (*names, *files)]
    return found[:_MAX_FILES]


def _move_away(path: str, rejected: Path) -> None:
    if not os.path.lexists(path):
        return  # it was in a directory that was moved
    rejected.mkdir(parents=True, exist_ok=True, mode=0o700)
    target = rejected / f"{len(os.listdir(rejected))}-{os.path.basename(path)}"
    try:
        os.replace(path, target)
    except OSError:  # another file system
        import shutil  # not above: it takes half a megabyte, and this is rare

        shutil.move(path, target)


def _put_back(path: str, state: _FileState, rejected: Path) -> None:
    if stat.S_ISDIR(state.stamp[0]):
        if not os.path.isdir(path) or os.path.islink(path):
            _move_away(path, rejected)
            os.makedirs(path, mode=state.mode, exist_ok=True)
    elif state.content is not None:
        _move_away(path, rejected)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write_atomic(Path(path), state.content, mode=state.mode)
