"""Writing several files, all or nothing, without losing changes of other programs. Blocking: call it in a thread.

Each new content is written to a temporary file beside its target and flushed. Then the two are exchanged in one step,
and the content that came out is checked. If it is not the expected one, another program or session wrote in between,
and everything is undone. So no change can be lost between the check and the write. One case is not detected: a program
that keeps the old file open and writes to it later.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from holdfast.errors import ToolError
from holdfast.files import lock, open_directory, sync_directory
from holdfast.tools.files.file_access import ABSENT, content_hash, hash_file
from holdfast.tools.files.safe_rename import exchange_files, rename_to_free

TEMP_PREFIX = ".holdfast-"
"""Name prefix of temporary files. A crash can leave one behind."""

_LOCK_SECONDS = 2.0
"""How long to wait for the locks of all directories."""


class FileWrite(msgspec.Struct, frozen=True):
    """One file's new content, and the content it must have before."""

    path: Path
    """Resolved, without symlinks."""
    expected: str
    """The hash of the old content, or `ABSENT`."""
    new: bytes | None
    """The new content; None deletes the file."""
    mode: int | None = None
    """Permission bits of a new file. An existing file keeps its own."""


class FileConflict(ToolError):
    """A file has another content than expected."""

    code = "file_changed"


def write_files(changes: Sequence[FileWrite]) -> tuple[str, ...]:
    """Write all files durably, or none. Returns notes for the model.

    Raises `FileConflict` for a file that does not have the expected content.
    """
    with contextlib.ExitStack() as locks:
        return _write_files(changes, locks)


def _write_files(changes: Sequence[FileWrite], locks: contextlib.ExitStack) -> tuple[str, ...]:
    steps: list[_Step] = []
    made: list[Path] = []
    try:
        for change in changes:
            _make_parents(change.path.parent, made)
            steps.append(_make_step(change))
        locks.enter_context(lock_directories(change.path.parent for change in changes))
        for change in changes:
            _check(change)
        for step in steps:
            step.apply()
        _flush_directories({change.path.parent for change in changes} | {path.parent for path in made})
    except BaseException as error:
        problems = _undo_all(steps, made)
        if isinstance(error, OSError):
            raise _write_error(error, problems) from error
        if problems and isinstance(error, ToolError):
            raise ToolError(f"{error.message} {problems}", code=error.error_code, detail=error.detail) from error
        raise
    for step in steps:
        step.discard_temp()
    return tuple(step.note for step in steps if step.note)


def _undo_all(steps: list[_Step], made: list[Path]) -> str:
    """Undo all steps. Returns a description of what could not be undone."""
    problems = [problem for step in reversed(steps) if (problem := _undo(step))]
    for directory in reversed(made):
        with contextlib.suppress(OSError):
            directory.rmdir()
    return " ".join(problems)


def _undo(step: _Step) -> str:
    try:
        problem = step.undo()
    except (OSError, ToolError) as error:
        return f"{str(step.path)!r} could not be restored ({error}); one of its contents is in {str(step.temp)!r}."
    step.discard_temp()
    return problem


class _Step(ABC):
    """One change. The temporary file holds the new content before `apply`, and the old content after it."""

    note = ""

    def __init__(self, path: Path, temp: Path) -> None:
        self.path = path
        self.temp = temp
        self._done = False
        self._keep_temp = False
        """The temporary file holds a content that another program wrote, so it must not be removed."""

    @abstractmethod
    def apply(self) -> None:
        """Make the change, or raise and leave the file unchanged."""

    @abstractmethod
    def undo(self) -> str:
        """Undo `apply`, if it happened. Returns a problem if another program changed the file since."""

    def discard_temp(self) -> None:
        """Remove the temporary file, unless it must be kept."""
        if not self._keep_temp:
            with contextlib.suppress(OSError):  # a leftover temporary file is not a failed write
                self.temp.unlink(missing_ok=True)

    def _move_aside(self, expected: str) -> bool:
        """Move the file to the temporary name if it has the expected content; otherwise leave it."""
        try:
            os.rename(self.path, self.temp)
        except FileNotFoundError:
            return False
        if _has_content(self.temp, expected):
            return True
        self._keep_temp = True
        rename_to_free(self.temp, self.path)
        self._keep_temp = False
        return False

    def _changed_since(self) -> str:
        return f"{str(self.path)!r} was changed by another program in the meantime and keeps that content."


class _Replace(_Step):
    """Replaces the content of an existing file."""

    def __init__(self, change: FileWrite) -> None:
        info = _check_writable(change.path)
        super().__init__(change.path, _write_temp(change, like=info))
        self._expected = change.expected
        self._new = content_hash(change.new)
        if links := info.st_nlink - 1:
            self.note = f"{str(change.path)!r} has {links} more hard link(s), which keep the old content"

    def apply(self) -> None:
        try:
            exchange_files(self.temp, self.path)
        except FileNotFoundError:
            raise _changed(self.path) from None
        if _has_content(self.temp, self._expected):
            self._done = True
            return
        self._keep_temp = True
        try:
            exchange_files(self.temp, self.path)
        except FileNotFoundError:
            rename_to_free(self.temp, self.path)
        self._keep_temp = os.path.lexists(self.temp) and not _has_content(self.temp, self._new)
        raise _changed(self.path, f" It changed twice; one of its contents is in {self.temp.name!r}." * self._keep_temp)

    def undo(self) -> str:
        if not self._done:
            return ""
        exchange_files(self.temp, self.path)
        if _has_content(self.temp, self._new):
            return ""
        exchange_files(self.temp, self.path)
        return self._changed_since()


class _Create(_Step):
    """Creates a file."""

    def __init__(self, change: FileWrite) -> None:
        super().__init__(change.path, _write_temp(change, like=None))
        self._new = content_hash(change.new)

    def apply(self) -> None:
        try:
            rename_to_free(self.temp, self.path)
        except FileExistsError:
            raise _appeared(self.path) from None
        self._done = True

    def undo(self) -> str:
        return "" if not self._done or self._move_aside(self._new) else self._changed_since()


class _Delete(_Step):
    """Deletes a file."""

    def __init__(self, change: FileWrite) -> None:
        _check_writable(change.path)
        super().__init__(change.path, _temp_path(change.path))
        self._expected = change.expected

    def apply(self) -> None:
        if not self._move_aside(self._expected):
            raise _changed(self.path)
        self._done = True

    def undo(self) -> str:
        if not self._done:
            return ""
        try:
            rename_to_free(self.temp, self.path)
        except FileExistsError:
            return self._changed_since()
        return ""


def _make_step(change: FileWrite) -> _Step:
    if change.expected == ABSENT:
        return _Create(change)
    return _Delete(change) if change.new is None else _Replace(change)


def _has_content(path: Path, expected: str) -> bool:
    """Something that cannot be read, such as a directory or a pipe, does not have the expected content."""
    try:
        return hash_file(path) == expected
    except ToolError:
        return False


def _check(change: FileWrite) -> None:
    """Check before the first change, so that usually nothing has to be undone."""
    if hash_file(change.path) != change.expected:
        raise _appeared(change.path) if change.expected == ABSENT else _changed(change.path)


def _write_temp(change: FileWrite, *, like: os.stat_result | None) -> Path:
    """Write the new content to a temporary file, with the final permissions, and flush it."""
    temp = _temp_path(change.path)
    first_mode = 0o666 if like is None else 0o600
    descriptor = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, first_mode)
    try:
        with open(descriptor, "wb", buffering=0) as file:
            _write_all(file.fileno(), change.new or b"")
            if like is not None:
                _copy_metadata(file.fileno(), change.path, like)
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


def _copy_metadata(descriptor: int, path: Path, info: os.stat_result) -> None:
    """Copy the owner if permitted, the access list, then the mode, because a change of owner clears mode bits."""
    mine = os.fstat(descriptor)
    if (mine.st_uid, mine.st_gid) != (info.st_uid, info.st_gid):
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, info.st_uid, info.st_gid)
    for name in _attribute_names(path):
        with contextlib.suppress(OSError):
            os.setxattr(descriptor, name, os.getxattr(path, name))
    os.fchmod(descriptor, stat.S_IMODE(info.st_mode))


def _attribute_names(path: Path) -> Iterable[str]:
    if not hasattr(os, "listxattr"):
        return ()
    try:
        names = os.listxattr(path)
    except OSError:
        return ()
    return [name for name in names if name.startswith("user.") or name == "system.posix_acl_access"]


def _temp_path(path: Path) -> Path:
    return path.with_name(f"{TEMP_PREFIX}{secrets.token_hex(8)}.tmp")


def _check_writable(path: Path) -> os.stat_result:
    """Check that the file is still a regular file and writable."""
    try:
        info = os.lstat(path)
    except FileNotFoundError:
        raise _changed(path) from None
    if not stat.S_ISREG(info.st_mode):
        raise _changed(path)
    if not os.access(path, os.W_OK):
        raise ToolError(
            f"{str(path)!r} is read-only; nothing was written",
            code="file_read_only",
        )
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
        try:
            sync_directory(directory)
        except OSError as error:
            if error.errno != errno.EINVAL:  # some file systems cannot flush a directory
                raise


@contextlib.contextmanager
def lock_directories(directories: Iterable[Path], *, seconds: float = _LOCK_SECONDS) -> Iterator[None]:
    """Hold the directories' locks, so that agents do not see each other's unfinished changes, also across servers.

    The locks are advisory. After `seconds`, or on a file system without locks, the work goes on without them. They are
    taken in sorted order, so that two writers cannot wait for each other.
    """
    deadline = time.monotonic() + seconds
    with contextlib.ExitStack() as descriptors:
        for directory in sorted(set(directories)):
            descriptor = open_directory(directory)
            descriptors.callback(os.close, descriptor)
            with contextlib.suppress(OSError):  # the file system has no locks
                lock(descriptor, seconds=max(0.0, deadline - time.monotonic()))
        yield


def _changed(path: Path, detail: str = "") -> FileConflict:
    return FileConflict(
        f"{str(path)!r} was changed by another program; nothing was written. "
        f"View it again before you change it.{detail}",
        detail={"path": str(path)},
    )


def _appeared(path: Path) -> FileConflict:
    return FileConflict(
        f"{str(path)!r} was created by another program; nothing was written. View it first.",
        detail={"path": str(path)},
    )


def _write_error(error: OSError, problems: str) -> ToolError:
    where = repr(str(error.filename)) if error.filename else "a file"
    return ToolError(f"{where} could not be written: {error.strerror}; nothing was changed. {problems}".strip())
