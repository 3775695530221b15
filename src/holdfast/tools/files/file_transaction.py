"""Replacing files, all or nothing, without losing what somebody else wrote. Blocking: call it in a thread.

Every new content is first written beside its target and flushed. Then each is exchanged with its target in one step,
and what came out is looked at: if it is not the content that was expected, a person or another session wrote in
between, and everything is put back. So there is no moment between "look" and "write" in which a change could be lost.
The one thing that cannot be seen is a program that keeps the old file open and writes into it later.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from holdfast.errors import ToolError
from holdfast.tools.files.directory_locks import directories_locked
from holdfast.tools.files.file_content import ABSENT, content_hash, hash_file
from holdfast.tools.files.safe_rename import exchange_files, rename_to_free

TEMP_PREFIX = ".holdfast-"
"""How files in the making are called; a crash can leave one behind."""


class FileChange(msgspec.Struct, frozen=True):
    """One file's new content, and the content it must have until then."""

    path: Path
    """Resolved: no symlink on the way."""
    expected: str
    """The hash of the old content, or `ABSENT`."""
    new: bytes | None
    """None deletes the file."""
    mode: int | None = None
    """Permission bits of a file that is created; one that exists keeps its own."""


class FileConflict(ToolError):
    """Somebody else changed a file since it was looked at."""

    code = "file_changed"


def apply_changes(changes: Sequence[FileChange]) -> tuple[str, ...]:
    """All of them, durably, or none; answers what the caller should know besides.

    `ChangedMeanwhile` names the file that is not what was expected.
    """
    with contextlib.ExitStack() as held:
        return _apply(changes, held)


def _apply(changes: Sequence[FileChange], held: contextlib.ExitStack) -> tuple[str, ...]:
    steps: list[_Step] = []
    made: list[Path] = []
    try:
        for change in changes:
            _make_parents(change.path.parent, made)
            steps.append(_step(change))
        held.enter_context(directories_locked(change.path.parent for change in changes))
        for change in changes:
            _check(change)
        for step in steps:
            step.put()
        _flush_directories({change.path.parent for change in changes} | {path.parent for path in made})
    except BaseException as error:
        kept = _undo(steps, made)
        if isinstance(error, OSError):
            raise _failed(error, kept) from error
        if kept and isinstance(error, ToolError):
            raise ToolError(f"{error.message} {kept}", code=error.error_code, detail=error.detail) from error
        raise
    for step in steps:
        step.discard()
    return tuple(step.note for step in steps if step.note)


def _undo(steps: list[_Step], made: list[Path]) -> str:
    """Put everything back; answers what could not be, because somebody else was at it."""
    kept = [told for step in reversed(steps) if (told := _take_back(step))]
    for directory in reversed(made):
        with contextlib.suppress(OSError):
            directory.rmdir()
    return " ".join(kept)


def _take_back(step: _Step) -> str:
    try:
        told = step.take_back()
    except (OSError, ToolError) as error:
        return f"{str(step.path)!r} could not be put back ({error}); a content of it is kept in {str(step.temp)!r}."
    step.discard()
    return told


class _Step(ABC):
    """One change on its way. The file beside the target holds the new content before `put`, the old one after it."""

    note = ""

    def __init__(self, path: Path, temp: Path) -> None:
        self.path = path
        self.temp = temp
        self._done = False
        self._precious = False
        """The file beside the target holds bytes that are neither ours nor expected: it must not be removed."""

    @abstractmethod
    def put(self) -> None:
        """Make the change, or raise and leave the file as it was."""

    @abstractmethod
    def take_back(self) -> str:
        """Undo `put`, if it happened; answers what others changed meanwhile and therefore stays."""

    def discard(self) -> None:
        """Remove what lies beside the target."""
        if not self._precious:
            with contextlib.suppress(OSError):  # what stays is a stray file, not a failed write
                self.temp.unlink(missing_ok=True)

    def _move_aside(self, expected: str) -> bool:
        """Take the file away from its name if it has the expected content; else it stays where it is."""
        try:
            os.rename(self.path, self.temp)
        except FileNotFoundError:
            return False
        if _has_content(self.temp, expected):
            return True
        self._precious = True
        rename_to_free(self.temp, self.path)
        self._precious = False
        return False

    def _theirs(self) -> str:
        return f"{str(self.path)!r} was changed by somebody else in between and stays as they left it."


class _Write(_Step):
    """An existing file gets another content."""

    def __init__(self, change: FileChange) -> None:
        info = _regular(change.path)
        super().__init__(change.path, _write_beside(change, like=info))
        self._expected = change.expected
        self._new = content_hash(change.new)
        if links := info.st_nlink - 1:
            self.note = f"{str(change.path)!r} had {links} more hard link(s), which keep the old content"

    def put(self) -> None:
        try:
            exchange_files(self.temp, self.path)
        except FileNotFoundError:
            raise _changed(self.path) from None
        if _has_content(self.temp, self._expected):
            self._done = True
            return
        self._precious = True
        try:
            exchange_files(self.temp, self.path)
        except FileNotFoundError:
            rename_to_free(self.temp, self.path)
        self._precious = os.path.lexists(self.temp) and not _has_content(self.temp, self._new)
        raise _changed(self.path, f" It changed twice; one content is kept in {self.temp.name!r}." * self._precious)

    def take_back(self) -> str:
        if not self._done:
            return ""
        exchange_files(self.temp, self.path)
        if _has_content(self.temp, self._new):
            return ""
        exchange_files(self.temp, self.path)
        return self._theirs()


class _Create(_Step):
    """A file appears where none was."""

    def __init__(self, change: FileChange) -> None:
        super().__init__(change.path, _write_beside(change, like=None))
        self._new = content_hash(change.new)

    def put(self) -> None:
        try:
            rename_to_free(self.temp, self.path)
        except FileExistsError:
            raise _appeared(self.path) from None
        self._done = True

    def take_back(self) -> str:
        return "" if not self._done or self._move_aside(self._new) else self._theirs()


class _Delete(_Step):
    """An existing file goes."""

    def __init__(self, change: FileChange) -> None:
        _regular(change.path)
        super().__init__(change.path, _temp_beside(change.path))
        self._expected = change.expected

    def put(self) -> None:
        if not self._move_aside(self._expected):
            raise _changed(self.path)
        self._done = True

    def take_back(self) -> str:
        if not self._done:
            return ""
        try:
            rename_to_free(self.temp, self.path)
        except FileExistsError:
            return self._theirs()
        return ""


def _step(change: FileChange) -> _Step:
    if change.expected == ABSENT:
        return _Create(change)
    return _Delete(change) if change.new is None else _Write(change)


def _has_content(path: Path, expected: str) -> bool:
    """What cannot be read (a directory or a pipe took the place) is not what was expected."""
    try:
        return hash_file(path) == expected
    except ToolError:
        return False


def _check(change: FileChange) -> None:
    """A last look, so that in the usual case nothing has to be put back."""
    if hash_file(change.path) != change.expected:
        raise _appeared(change.path) if change.expected == ABSENT else _changed(change.path)


def _write_beside(change: FileChange, *, like: os.stat_result | None) -> Path:
    """The new content in a file beside the target, flushed, with the rights it shall have."""
    temp = _temp_beside(change.path)
    first_mode = 0o666 if like is None else 0o600
    descriptor = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, first_mode)
    try:
        with open(descriptor, "wb", buffering=0) as file:
            _write_all(file.fileno(), change.new or b"")
            if like is not None:
                _make_alike(file.fileno(), change.path, like)
            elif change.mode is not None:
                os.fchmod(file.fileno(), change.mode)
            os.fsync(file.fileno())
    except BaseException:
        temp.unlink(missing_ok=True)
        raise
    return temp


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _make_alike(descriptor: int, path: Path, info: os.stat_result) -> None:
    """Owner where possible, access list, then mode: a change of owner clears bits of the mode."""
    mine = os.fstat(descriptor)
    if (mine.st_uid, mine.st_gid) != (info.st_uid, info.st_gid):
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, info.st_uid, info.st_gid)
    for name in _attributes(path):
        with contextlib.suppress(OSError):
            os.setxattr(descriptor, name, os.getxattr(path, name))
    os.fchmod(descriptor, stat.S_IMODE(info.st_mode))


def _attributes(path: Path) -> Iterable[str]:
    if not hasattr(os, "listxattr"):
        return ()
    try:
        names = os.listxattr(path)
    except OSError:
        return ()
    return [name for name in names if name.startswith("user.") or name == "system.posix_acl_access"]


def _temp_beside(path: Path) -> Path:
    return path.with_name(f"{TEMP_PREFIX}{secrets.token_hex(8)}.tmp")


def _regular(path: Path) -> os.stat_result:
    """A file that may be replaced: still there, no link, not read-only."""
    try:
        info = os.lstat(path)
    except FileNotFoundError:
        raise _changed(path) from None
    if not stat.S_ISREG(info.st_mode):
        raise _changed(path)
    if not os.access(path, os.W_OK):
        raise ToolError(f"{str(path)!r} is read-only; nothing was written", code="file_read_only")
    return info


def _make_parents(directory: Path, made: list[Path]) -> None:
    absent = []
    while not directory.is_dir():
        absent.append(directory)
        directory = directory.parent
    for path in reversed(absent):
        try:
            path.mkdir()
        except FileExistsError:
            if not path.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path)) from None
        else:
            made.append(path)


def _flush_directories(directories: Iterable[Path]) -> None:
    for directory in directories:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno != errno.EINVAL:  # some file systems cannot flush a directory
                raise
        finally:
            os.close(descriptor)


def _changed(path: Path, more: str = "") -> FileConflict:
    return FileConflict(
        f"{str(path)!r} was changed by somebody else just now; nothing was written. "
        f"View it again before you change it.{more}",
        detail={"path": str(path)},
    )


def _appeared(path: Path) -> FileConflict:
    return FileConflict(
        f"{str(path)!r} was created by somebody else meanwhile; nothing was written. View it first.",
        detail={"path": str(path)},
    )


def _failed(error: OSError, kept: str) -> ToolError:
    where = repr(str(error.filename)) if error.filename else "a file"
    return ToolError(f"{where} could not be written: {error.strerror}; nothing was changed. {kept}".strip())
