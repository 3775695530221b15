"""A program that confines itself with Landlock and then executes a command.

It runs before each confined command, so it imports only the standard library. The command and its descendants can read
and execute all files, write below the given directories and to common devices, and signal only each other.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence

LOWEST_VERSION = 3
"""Linux 6.2. Older versions cannot prevent the truncation of files."""
NETWORK_VERSION = 4
SCOPE_VERSION = 6

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts")

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_VERSION_FLAG = 1
_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38
_EXECUTE, _WRITE, _READ, _READ_DIR, _TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
_ALL_RIGHTS = (1 << 15) - 1
_FILE_RIGHTS = _EXECUTE | _WRITE | _READ | _TRUNCATE
_TCP = 0b11
_SIGNALS = 1 << 1


class _Ruleset(ctypes.Structure):
    _fields_ = (
        ("handled_access_fs", ctypes.c_uint64),
        ("handled_access_net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def landlock_version() -> int:
    """Return the kernel's Landlock version; 0 if it has none."""
    if sys.platform != "linux":
        return 0
    version: int = _libc().syscall(_CREATE, None, 0, _VERSION_FLAG)
    return max(0, version)


def restrict(writable: Sequence[str], *, network: bool) -> None:
    """Confine this process permanently. Raises `OSError` if the kernel refuses."""
    version = landlock_version()
    ruleset = _Ruleset(_ALL_RIGHTS, 0, 0)
    size = 8
    if version >= NETWORK_VERSION:
        ruleset.handled_access_net, size = 0 if network else _TCP, 16
    if version >= SCOPE_VERSION:
        ruleset.scoped, size = _SIGNALS, 24
    libc = _libc()
    descriptor = _checked(libc.syscall(_CREATE, ctypes.byref(ruleset), size, 0))
    _allow(descriptor, "/", _EXECUTE | _READ | _READ_DIR)
    for path in writable:
        _allow(descriptor, path, _ALL_RIGHTS)
    for path in DEVICES:
        if os.path.exists(path):
            _allow(descriptor, path, _READ | _WRITE | _TRUNCATE | (0 if not os.path.isdir(path) else _READ_DIR))
    _checked(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _checked(libc.syscall(_RESTRICT, descriptor, 0))
    os.close(descriptor)


def main() -> None:
    """``[--no-network] DIRECTORY… -- PROGRAM ARGUMENT…``"""
    end = sys.argv.index("--", 1)
    options, argv = sys.argv[1:end], sys.argv[end + 1 :]
    network = "--no-network" not in options
    restrict([option for option in options if option != "--no-network"], network=network)
    os.execvp(argv[0], argv)


def _allow(ruleset: int, path: str, rights: int) -> None:
    parent = os.open(path, getattr(os, "O_PATH", 0) | os.O_CLOEXEC)
    try:
        rights &= _ALL_RIGHTS if os.path.isdir(path) else _FILE_RIGHTS
        rule = _PathBeneath(rights, parent)
        _checked(_libc().syscall(_ADD, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0))
    finally:
        os.close(parent)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"Landlock: {os.strerror(number)}")
    return result
