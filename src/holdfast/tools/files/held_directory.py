"""Directories held open by descriptor, and names in them, so that no symlink can redirect a read or a write. Blocking.

A path is checked once, for the approval. Later another program can replace one of its directories by a symlink. So a
resolved path is opened without following any link, and everything after that happens relative to the open directory.
Linux opens a path in one step (`openat2` with ``RESOLVE_NO_SYMLINKS``), macOS with ``O_NOFOLLOW_ANY``. Other systems,
and kernels without `openat2`, open one component after the other with ``O_NOFOLLOW``.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path

from holdfast.errors import ToolError

_OPENAT2 = 437
"""The number of the system call, the same on every architecture."""
_RESOLVE_NO_SYMLINKS = 0x04
_AT_FDCWD = -100
_MISSING_CALL = frozenset({errno.ENOSYS, errno.EPERM, errno.E2BIG, errno.EINVAL})
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class LinkInPath(ToolError):
    """A part of a resolved path is a symlink now."""

    code = "file_changed"


def open_without_links(path: Path, flags: int) -> int:
    """Open an absolute path. Raises `OSError` with ``ELOOP`` or ``ENOTDIR`` if a part of it is a symlink."""
    if openat2 := _openat2():
        code, descriptor = openat2(os.fsencode(path), flags)
        if code == 0:
            return descriptor
        if code not in _MISSING_CALL:
            raise OSError(code, os.strerror(code), str(path))
    elif no_links := getattr(os, "O_NOFOLLOW_ANY", 0):
        return os.open(path, flags | no_links)
    return _open_by_component(path, flags)


def _open_by_component(path: Path, flags: int) -> int:
    search = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    first, *names = path.parts
    *folders, last = names or ["."]
    directory = os.open(first, search)
    try:
        for name in folders:
            below = os.open(name, search, dir_fd=directory)
            os.close(directory)
            directory = below
        return os.open(last, flags | os.O_NOFOLLOW, dir_fd=directory)
    finally:
        os.close(directory)


@functools.cache
def _openat2() -> Callable[[bytes, int], tuple[int, int]] | None:
    """Return `openat2`, wrapped to return the error number and the descriptor, or None where it does not exist."""
    if sys.platform != "linux":
        return None
    import ctypes  # slow to import; only the file tools need it

    class OpenHow(ctypes.Structure):
        _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))

    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long

    def call(path: bytes, flags: int) -> tuple[int, int]:
        how = OpenHow(flags, 0, _RESOLVE_NO_SYMLINKS)
        found = syscall(
            ctypes.c_long(_OPENAT2),
            ctypes.c_long(_AT_FDCWD),
            ctypes.c_char_p(path),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
        return (0, found) if found >= 0 else (ctypes.get_errno(), -1)

    return call


class HeldDirectory:
    """An open directory. Close it when the work is done."""

    __slots__ = ("descriptor", "path")

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor

    @classmethod
    def open(cls, path: Path) -> HeldDirectory:
        """Raises `LinkInPath` if a part of the path is a symlink."""
        try:
            return cls(path, open_without_links(path, _DIRECTORY))
        except OSError as error:
            if error.errno == errno.ELOOP or (error.errno == errno.ENOTDIR and _has_link(path)):
                raise link_in_path(path) from error
            raise

    def make(self, name: str) -> tuple[HeldDirectory, bool]:
        """Open a directory below this one, and make it if it is missing. Also returns whether it was made."""
        made = True
        try:
            os.mkdir(name, dir_fd=self.descriptor)
        except FileExistsError:
            made = False
        below = self.path / name
        try:
            return HeldDirectory(below, os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=self.descriptor)), made
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR) and below.is_symlink():
                raise link_in_path(below) from error
            raise OSError(error.errno, error.strerror, str(below)) from error

    def close(self) -> None:
        os.close(self.descriptor)

    def entry(self, name: str) -> DirectoryEntry:
        return DirectoryEntry(self, name)


class DirectoryEntry:
    """A name in a held directory. The file need not exist."""

    __slots__ = ("directory", "name")

    def __init__(self, directory: HeldDirectory, name: str) -> None:
        self.directory = directory
        self.name = name

    @property
    def path(self) -> Path:
        """For messages."""
        return self.directory.path / self.name

    def open(self, flags: int, mode: int = 0o600) -> int:
        """Open the file; a symlink is not followed."""
        try:
            return os.open(self.name, flags | os.O_CLOEXEC | os.O_NOFOLLOW, mode, dir_fd=self.directory.descriptor)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from error

    def stat(self) -> os.stat_result:
        return os.stat(self.name, dir_fd=self.directory.descriptor, follow_symlinks=False)

    def exists(self) -> bool:
        try:
            self.stat()
        except FileNotFoundError:
            return False
        return True

    def is_writable(self) -> bool:
        return os.access(self.name, os.W_OK, dir_fd=self.directory.descriptor)

    def read_link(self) -> str | None:
        """Return the target of a symlink, or None if this is not one."""
        try:
            return os.readlink(self.name, dir_fd=self.directory.descriptor)
        except OSError:
            return None

    def make_link(self, target: str) -> None:
        os.symlink(target, self.name, dir_fd=self.directory.descriptor)

    def beside(self, name: str) -> DirectoryEntry:
        return DirectoryEntry(self.directory, name)

    def rename(self, other: DirectoryEntry) -> None:
        """Replaces the other file, if there is one."""
        mine, theirs = self.directory.descriptor, other.directory.descriptor
        os.rename(self.name, other.name, src_dir_fd=mine, dst_dir_fd=theirs)

    def link(self, other: DirectoryEntry) -> None:
        mine, theirs = self.directory.descriptor, other.directory.descriptor
        os.link(self.name, other.name, src_dir_fd=mine, dst_dir_fd=theirs, follow_symlinks=False)

    def unlink(self, *, missing_ok: bool = False) -> None:
        with contextlib.suppress(*((FileNotFoundError,) if missing_ok else ())):
            os.unlink(self.name, dir_fd=self.directory.descriptor)


def link_in_path(path: Path) -> LinkInPath:
    return LinkInPath(
        f"a directory of {str(path)!r} was replaced by a symlink; try again",
        detail={"path": str(path)},
    )


def _has_link(path: Path) -> bool:
    return any(part.is_symlink() for part in (path, *path.parents))
