"""Renames that do not overwrite other files: exchange two names, or move to a free name. Blocking.

Linux does both atomically with `renameat2`. Other systems, and file systems without it, use several calls; a file that
appears between two of them can be overwritten.
"""

from __future__ import annotations

import errno
import functools
import os
import shutil
from collections.abc import Callable
from pathlib import Path

_AT_FDCWD = -100
_NOREPLACE = 1
_EXCHANGE = 2
_UNSUPPORTED = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM})


def exchange_files(one: Path, other: Path) -> None:
    """Exchange the files of two existing names."""
    if _renameat2(one, other, _EXCHANGE):
        return
    aside = one.with_name(f"{one.name}~")
    try:
        os.link(other, aside)
    except OSError:
        shutil.copy2(other, aside)
    os.replace(one, other)
    os.rename(aside, one)


def rename_to_free(source: Path, free: Path) -> None:
    """Move to a free name. Raises `FileExistsError` if the name is taken."""
    if _renameat2(source, free, _NOREPLACE):
        return
    try:
        os.link(source, free)
    except FileExistsError:
        raise
    except OSError:
        if os.path.lexists(free):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(free)) from None
        os.rename(source, free)
    else:
        os.unlink(source)


def _renameat2(source: Path, target: Path, flags: int) -> bool:
    """Return False if the kernel or the file system does not support the call."""
    call = _system_call()
    if call is None:
        return False
    code = call(os.fsencode(source), os.fsencode(target), flags)
    if code == 0:
        return True
    if code in _UNSUPPORTED:
        return False
    raise OSError(code, os.strerror(code), str(source), None, str(target))


@functools.cache
def _system_call() -> Callable[[bytes, bytes, int], int] | None:
    """Return `renameat2` of the C library, wrapped to return the error number, or None if it is missing."""
    import ctypes  # slow to import; only writers need it

    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is None:
        return None
    function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    function.restype = ctypes.c_int

    def call(source: bytes, target: bytes, flags: int) -> int:
        return 0 if function(_AT_FDCWD, source, _AT_FDCWD, target, flags) == 0 else ctypes.get_errno()

    return call
