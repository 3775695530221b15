"""Writing several files, all or nothing, without losing changes of other programs. Blocking: call it in a thread.

Each new content is written to a temporary file beside its target and flushed. Then the two are exchanged in one step,
and the content that came out is checked. If it is not the expected one, another program or session wrote in between,
and everything is undone. So no change can be lost between the check and the write. One case is not detected: a program
that keeps the old file open and writes to it later.

The directory of each file is opened once, without following links, and held until the end (`held_directory`). A program
that replaces a directory by a symlink meanwhile cannot redirect a write.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from holdfast.errors import ToolError
from holdfast.files import lock, unlock
from holdfast.tools.files.file_access import ABSENT, content_hash, link_hash, read_file
from holdfast.tools.files.held_directory import DirectoryEntry, HeldDirectory
from holdfast.tools.files.safe_rename import exchange_files, rename_to_free

TEMP_PREFIX = ".holdfast-"
"""Name prefix of temporary files. A crash can leave one behind."""

NOTHING_CHANGED = "Nothing was changed."
"""The last line of each error of a tool that changes files, if that is so."""

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
    """Permission bits of a new file. An existing file keeps its own, unless `set_mode`."""
    set_mode: bool = False
    """Whether an existing file gets `mode` too. It then need not be writable."""
    link: str | None = None
    """The target of a symlink to make instead of a file with a content."""

    @property
    def new_hash(self) -> str:
        return content_hash(self.new) if self.link is None else link_hash(self.link)


class FileConflict(ToolError):
    """A file has another content than expected."""

    code = "file_changed"


def write_files(changes: Sequence[FileWrite]) -> tuple[str, ...]:
    """Write all files durably, or none. Returns notes for the model.

    Raises `FileConflict` for a file that does not have the expected content, and `LinkInPath` if a directory of a path
    is a symlink.
    """
    with contextlib.ExitStack() as held:
        return _write_files(changes, held)


class _MadeDirectory(NamedTuple):
    parent: HeldDirectory
    name: str


def _write_files(changes: Sequence[FileWrite], held: contextlib.ExitStack) -> tuple[str, ...]:
    steps: list[_Step] = []
    made: list[_MadeDirectory] = []
    directories: dict[Path, HeldDirectory] = {}
    try:
        for change in changes:
            parent = change.path.parent
            if parent not in directories:
                directories[parent] = _hold_directory(parent, made, held)
            steps.append(_make_step(change, directories[parent].entry(change.path.name)))
        held.enter_context(lock_directories(directories.values()))
        for step in steps:
            step.check()
        for step in steps:
            step.apply()
        _flush_directories([*directories.values(), *(one.parent for one in made)])
    except BaseException as error:
        problems = _undo_all(steps, made)
        if isinstance(error, OSError):
            raise _write_error(error, problems) from error
        if isinstance(error, ToolError):
            error.message = f"{error.message}\n{problems or NOTHING_CHANGED}"
            error.args = (error.message,)
        raise
    for step in steps:
        step.discard_temp()
    return tuple(step.note for step in steps if step.note)


def _undo_all(steps: list[_Step], made: list[_MadeDirectory]) -> str:
    """Undo all steps. Returns a description of what could not be undone."""
    problems = [problem for step in reversed(steps) if (problem := _undo(step))]
    for directory in reversed(made):
        with contextlib.suppress(OSError):
            os.rmdir(directory.name, dir_fd=directory.parent.descriptor)
    return " ".join(problems)


def _undo(step: _Step) -> str:
    try:
        problem = step.undo()
    except (OSError, ToolError) as error:
        return f"{str(step.path)!r} could not be restored ({error}); one of its contents is in {str(step.temp.path)!r}."
    step.discard_temp()
    return problem


class _Step(ABC):
    """One change. The temporary file holds the new content before `apply`, and the old content after it."""

    note = ""

    def __init__(self, change: FileWrite, file: DirectoryEntry, temp: DirectoryEntry) -> None:
        self.path = change.path
        self.file = file
        self.temp = temp
        self._expected = change.expected
        self._done = False
        self._keep_temp = False
        """The temporary file holds a content that another program wrote, so it must not be removed."""

    def check(self) -> None:
        """Check before the first change, so that usually nothing has to be undone."""
        if _hash(self.file) != self._expected:
            raise _appeared(self.path) if self._expected == ABSENT else _changed(self.path)

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
            self.file.rename(self.temp)
        except FileNotFoundError:
            return False
        if _has_content(self.temp, expected):
            return True
        self._keep_temp = True
        rename_to_free(self.temp, self.file)
        self._keep_temp = False
        return False

    def _changed_since(self) -> str:
        return f"{str(self.path)!r} was changed by another program in the meantime and keeps that content."


class _Replace(_Step):
    """Replaces the content of an existing file."""

    def __init__(self, change: FileWrite, file: DirectoryEntry) -> None:
        info = _check_writable(file, change)
        super().__init__(change, file, _write_temp(change, file, like=info))
        self._new = change.new_hash
        if links := info.st_nlink - 1:
            self.note = f"{str(change.path)!r} has {links} more hard link(s), which keep the old content"

    def apply(self) -> None:
        try:
            exchange_files(self.temp, self.file)
        except FileNotFoundError:
            raise _changed(self.path) from None
        if _has_content(self.temp, self._expected):
            self._done = True
            return
        self._keep_temp = True
        try:
            exchange_files(self.temp, self.file)
        except FileNotFoundError:
            rename_to_free(self.temp, self.file)
        self._keep_temp = self.temp.exists() and not _has_content(self.temp, self._new)
        raise _changed(self.path, f" It changed twice; one of its contents is in {self.temp.name!r}." * self._keep_temp)

    def undo(self) -> str:
        if not self._done:
            return ""
        exchange_files(self.temp, self.file)
        if _has_content(self.temp, self._new):
            return ""
        exchange_files(self.temp, self.file)
        return self._changed_since()


class _Create(_Step):
    """Creates a file."""

    def __init__(self, change: FileWrite, file: DirectoryEntry) -> None:
        super().__init__(change, file, _write_temp(change, file, like=None))
        self._new = change.new_hash

    def apply(self) -> None:
        try:
            rename_to_free(self.temp, self.file)
        except FileExistsError:
            raise _appeared(self.path) from None
        self._done = True

    def undo(self) -> str:
        return "" if not self._done or self._move_aside(self._new) else self._changed_since()


class _Delete(_Step):
    """Deletes a file."""

    def __init__(self, change: FileWrite, file: DirectoryEntry) -> None:
        _check_writable(file, change)
        super().__init__(change, file, _temp_entry(file))

    def apply(self) -> None:
        if not self._move_aside(self._expected):
            raise _changed(self.path)
        self._done = True

    def undo(self) -> str:
        if not self._done:
            return ""
        try:
            rename_to_free(self.temp, self.file)
        except FileExistsError:
            return self._changed_since()
        return ""


def _make_step(change: FileWrite, file: DirectoryEntry) -> _Step:
    if change.expected == ABSENT:
        return _Create(change, file)
    return _Delete(change, file) if change.new_hash == ABSENT else _Replace(change, file)


def _has_content(file: DirectoryEntry, expected: str) -> bool:
    """Something that cannot be read, such as a directory or a pipe, does not have the expected content."""
    try:
        return _hash(file) == expected
    except ToolError:
        return False


def _hash(file: DirectoryEntry) -> str:
    try:
        return content_hash(read_file(file.path, opener=lambda _, flags: file.open(flags)))
    except ToolError:
        target = file.read_link()
        if target is None:
            raise
        return link_hash(target)


def _write_temp(change: FileWrite, file: DirectoryEntry, *, like: os.stat_result | None) -> DirectoryEntry:
    """Write the new content to a temporary file, with the final permissions, and flush it."""
    temp = _temp_entry(file)
    if change.link is not None:
        temp.make_link(change.link)
        return temp
    if like is not None and stat.S_ISLNK(like.st_mode):
        like = None
    descriptor = temp.open(os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if like is None else 0o600)
    try:
        with open(descriptor, "wb", buffering=0) as opened:
            _write_all(opened.fileno(), change.new or b"")
            if like is not None:
                _copy_metadata(opened.fileno(), file, like)
            if change.mode is not None and (like is None or change.set_mode):
                os.fchmod(opened.fileno(), change.mode)
            os.fsync(opened.fileno())
    except BaseException:
        temp.unlink(missing_ok=True)
        raise
    return temp


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _copy_metadata(descriptor: int, file: DirectoryEntry, info: os.stat_result) -> None:
    """Copy the owner if permitted, the access list, then the mode, because a change of owner clears mode bits."""
    mine = os.fstat(descriptor)
    if (mine.st_uid, mine.st_gid) != (info.st_uid, info.st_gid):
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, info.st_uid, info.st_gid)
    with contextlib.suppress(OSError):
        _copy_attributes(descriptor, file)
    os.fchmod(descriptor, stat.S_IMODE(info.st_mode))


def _copy_attributes(descriptor: int, file: DirectoryEntry) -> None:
    if not hasattr(os, "listxattr"):
        return
    with open(file.open(os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0) as opened:
        for name in os.listxattr(opened.fileno()):
            if name.startswith("user.") or name == "system.posix_acl_access":
                with contextlib.suppress(OSError):
                    os.setxattr(descriptor, name, os.getxattr(opened.fileno(), name))


def _temp_entry(file: DirectoryEntry) -> DirectoryEntry:
    return file.beside(f"{TEMP_PREFIX}{os.urandom(8).hex()}.tmp")


def _check_writable(file: DirectoryEntry, change: FileWrite) -> os.stat_result:
    """Check that the file is still a regular file and writable, or the expected symlink."""
    try:
        info = file.stat()
    except FileNotFoundError:
        raise _changed(file.path) from None
    if stat.S_ISLNK(info.st_mode) and _has_content(file, change.expected):
        return info
    if not stat.S_ISREG(info.st_mode):
        raise _changed(file.path)
    if not change.set_mode and not file.is_writable():
        raise ToolError(
            f"{str(file.path)!r} is read-only",
            code="file_read_only",
        )
    return info


def _hold_directory(path: Path, made: list[_MadeDirectory], held: contextlib.ExitStack) -> HeldDirectory:
    """Open a directory and hold it. Missing directories are made one below the other."""
    absent: list[str] = []
    while (directory := _open_if_present(path)) is None:
        absent.append(path.name)
        path = path.parent
    held.callback(directory.close)
    for name in reversed(absent):
        parent = directory
        directory, is_new = parent.make(name)
        held.callback(directory.close)
        if is_new:
            made.append(_MadeDirectory(parent, name))
    return directory


def _open_if_present(path: Path) -> HeldDirectory | None:
    try:
        return HeldDirectory.open(path)
    except FileNotFoundError:
        return None


def _flush_directories(directories: Iterable[HeldDirectory]) -> None:
    for directory in directories:
        try:
            os.fsync(directory.descriptor)
        except OSError as error:
            if error.errno != errno.EINVAL:  # some file systems cannot flush a directory
                raise


@contextlib.contextmanager
def lock_directories(directories: Iterable[HeldDirectory], *, seconds: float = _LOCK_SECONDS) -> Iterator[None]:
    """Hold the directories' locks, so that agents do not see each other's unfinished changes, also across servers.

    The locks are advisory. After `seconds`, or on a file system without locks, the work goes on without them. They are
    taken in sorted order, so that two writers cannot wait for each other. Closing the directory releases its lock.
    """
    deadline = time.monotonic() + seconds
    with contextlib.ExitStack() as locks:
        for directory in sorted(directories, key=lambda one: one.path):
            with contextlib.suppress(OSError):  # the file system has no locks
                if lock(directory.descriptor, seconds=max(0.0, deadline - time.monotonic())):
                    locks.callback(unlock, directory.descriptor)
        yield


def _changed(path: Path, detail: str = "") -> FileConflict:
    return FileConflict(
        f"{str(path)!r} was changed by another program; view it again before you change it.{detail}",
        detail={"path": str(path)},
    )


def _appeared(path: Path) -> FileConflict:
    return FileConflict(
        f"{str(path)!r} was created by another program; view it first",
        detail={"path": str(path)},
    )


def _write_error(error: OSError, problems: str) -> ToolError:
    where = repr(str(error.filename)) if error.filename else "a file"
    return ToolError(f"{where} could not be written: {error.strerror}\n{problems or NOTHING_CHANGED}")
