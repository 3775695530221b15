"""Renames that do not overwrite other files: exchange two names, or move to a free name. Blocking.

Linux does both atomically with `renameat2`. Other systems, and file systems without it, use several calls; a file that
appears between two of them can be overwritten.
"""

from __future__ import annotations

import errno
import functools
import os
import stat
from collections.abc import Callable

from holdfast.tools.files.held_directory import DirectoryEntry

_NOREPLACE = 1
_EXCHANGE = 2
_PIECE_BYTES = 256 * 1024
_UNSUPPORTED = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM})


def exchange_files(one: DirectoryEntry, other: DirectoryEntry) -> None:
    """Exchange the files of two existing names."""
    if _renameat2(one, other, _EXCHANGE):
        return
    aside = one.beside(f"{one.name}~")
    try:
        other.link(aside)
    except OSError:
        _copy(other, aside)
    one.rename(other)
    aside.rename(one)


def rename_to_free(source: DirectoryEntry, free: DirectoryEntry) -> None:
    """Move to a free name. Raises `FileExistsError` if the name is taken."""
    if _renameat2(source, free, _NOREPLACE):
        return
    try:
        source.link(free)
    except FileExistsError:
        raise
    except OSError:
        if free.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(free.path)) from None
        source.rename(free)
    else:
        source.unlink()


def _copy(source: DirectoryEntry, target: DirectoryEntry) -> None:
    """Copy content, mode and times, for file systems without hard links."""
    with (
        open(source.open(os.O_RDONLY | os.O_NONBLOCK), "rb") as reader,
        open(target.open(os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as writer,
    ):
        while piece := reader.read(_PIECE_BYTES):
            writer.write(piece)
        status = os.fstat(reader.fileno())
        os.fchmod(writer.fileno(), stat.S_IMODE(status.st_mode))
        writer.flush()
        os.utime(writer.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))


def _renameat2(source: DirectoryEntry, target: DirectoryEntry, flags: int) -> bool:
    """Return False if the kernel or the file system does not support the call."""
    call = _system_call()
    if call is None:
        return False
    code = call(source, target, flags)
    if code == 0:
        return True
    if code in _UNSUPPORTED:
        return False
    raise OSError(code, os.strerror(code), str(source.path), None, str(target.path))


@functools.cache
def _system_call() -> Callable[[DirectoryEntry, DirectoryEntry, int], int] | None:
    """Return `renameat2` of the C library, wrapped to return the error number, or None if it is missing."""
    import ctypes  # slow to import; only writers need it

    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is None:
        return None
    function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    function.restype = ctypes.c_int

    def call(source: DirectoryEntry, target: DirectoryEntry, flags: int) -> int:
        result = function(
            source.directory.descriptor,
            os.fsencode(source.name),
            target.directory.descriptor,
            os.fsencode(target.name),
            flags,
        )
        return 0 if result == 0 else ctypes.get_errno()

    return call
