"""Confinement with Landlock, in the Linux kernel.

The server makes a ruleset, which is a descriptor, and the supervisor applies it to the thread that starts the command.
A confined process can read and execute what the ruleset lists, write below some directories and to common devices, and
signal only confined processes of the same command. Landlock cannot except a directory below an allowed one, so the
rules list the neighbours of a hidden directory instead; names in it can be listed, but no file can be read. It does not
restrict connecting to Unix sockets, nor the change of modes, owners and times. Only the standard library is imported:
the supervisor uses this module.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Iterator, Sequence

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
_ABSTRACT_SOCKETS_AND_SIGNALS = 0b11


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


def not_covered() -> tuple[str, ...]:
    """What the kernel's version does not restrict, in a user's words."""
    version = landlock_version()
    found = ["chmod, chown and changes of times outside", "connections to Unix sockets"]
    found.append("any network but TCP" if version >= NETWORK_VERSION else "the network")
    if version < SCOPE_VERSION:
        found.append("signals to other processes")
    return (*found, "changes of git's configuration and hooks, which are undone after the command")


def make_ruleset(
    *,
    writable: Sequence[str],
    hidden: Sequence[str],
    visible: Sequence[str],
    private_writable: Sequence[str],
    network: bool,
) -> int:
    """Return the descriptor of a ruleset. Raises `OSError` if the kernel refuses. Blocking."""
    version = landlock_version()
    attributes = _Ruleset(_ALL_RIGHTS, 0, 0)
    size = 8
    if version >= NETWORK_VERSION:
        attributes.handled_access_net, size = 0 if network else _TCP, 16
    if version >= SCOPE_VERSION:
        attributes.scoped, size = _ABSTRACT_SOCKETS_AND_SIGNALS, 24
    ruleset = _checked(_libc().syscall(_CREATE, ctypes.byref(attributes), size, 0))
    try:
        _allow(ruleset, "/", _READ_DIR)
        for path in around("/", hidden):
            _allow(ruleset, path, _EXECUTE | _READ | _READ_DIR)
        for path in (path for directory in writable for path in around(directory, hidden)):
            _allow(ruleset, path, _ALL_RIGHTS)
        for path in visible:
            _allow(ruleset, path, _EXECUTE | _READ | _READ_DIR)
        for path in private_writable:
            _allow(ruleset, path, _ALL_RIGHTS)
        for path in DEVICES:
            _allow(ruleset, path, _READ | _WRITE | _TRUNCATE | _READ_DIR)
    except BaseException:
        os.close(ruleset)
        raise
    os.set_inheritable(ruleset, False)
    return ruleset


def make_scope_ruleset() -> int:
    """Return a ruleset that restricts no files: only signals, `ptrace` and abstract sockets of processes outside."""
    attributes = _Ruleset(0, 0, _ABSTRACT_SOCKETS_AND_SIGNALS)
    ruleset = _checked(_libc().syscall(_CREATE, ctypes.byref(attributes), 24, 0))
    os.set_inheritable(ruleset, False)
    return ruleset


def around(directory: str, hidden: Sequence[str]) -> Iterator[str]:
    """Return paths that together are everything below a directory that is not hidden. Links are left out."""
    if directory in hidden:
        return
    if not any(path.startswith(directory.rstrip("/") + "/") for path in hidden):
        yield directory
        return
    with os.scandir(directory) as entries:
        names = [entry.path for entry in entries if not entry.is_symlink()]
    for path in names:
        yield from around(path, hidden)


def listed_directories(hidden: Sequence[str]) -> set[str]:
    """Return the directories whose entries a ruleset lists. It must be made again when one of them changes."""
    found: set[str] = set()
    for path in hidden:
        while path != "/":
            path = os.path.dirname(path)
            found.add(path)
    return found


def restrict_thread(ruleset: int) -> None:
    """Confine the calling thread, and the processes that it starts from now on. Raises `OSError`."""
    libc = _libc()
    _checked(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _checked(libc.syscall(_RESTRICT, ruleset, 0))


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        parent = os.open(path, getattr(os, "O_PATH", 0) | os.O_CLOEXEC)
    except OSError:
        return  # it does not exist any more, or may not be reached
    try:
        rights &= _ALL_RIGHTS if os.path.isdir(path) else _FILE_RIGHTS
        rule = _PathBeneath(rights, parent)
        _checked(_libc().syscall(_ADD, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0))
    finally:
        os.close(parent)


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"Landlock: {os.strerror(number)}")
    return result
