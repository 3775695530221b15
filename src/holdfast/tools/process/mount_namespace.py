"""Confinement in namespaces of the command's own (Linux 6.12), made by the process that becomes the command.

The process gets a copy of all mounts and makes them read-only. It mounts what the command may write once more, as it
was before, and covers what the command may not see. It has devices of its own and no privileges, and no way back:
nested namespaces cannot undo the mounts that they inherit. A user needs a user namespace for this, root does not.
What does not depend on the command is prepared before it is known (`prepare_namespace`), which takes most of the time.
Signals and `ptrace` are left to Landlock (`landlock.make_scope_ruleset`), so that commands see the real process ids.

Paths are opened without following links. If a path was exchanged since the limits were computed, the command does not
start. Only the standard library is imported: the supervisor uses this module.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import socket
import stat
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

_OPEN_TREE, _MOVE_MOUNT, _OPENAT2, _MOUNT_SETATTR = 428, 429, 437, 442
"""System calls. They have the same numbers on all usual processors."""
_NEW_MOUNTS, _NEW_USER, _NEW_NETWORK = 0x0002_0000, 0x1000_0000, 0x4000_0000
_RECURSIVE = 0x8000
_COPY_FLAGS = 0x1 | 0x1000 | _RECURSIVE | os.O_CLOEXEC
_MOVE_BY_DESCRIPTORS = 0x04 | 0x40
_NO_SYMLINKS = 0x04
_READ_ONLY, _NO_SETUID, _NO_DEVICES, _NO_PROGRAMS = 0x1, 0x2, 0x4, 0x8
"""Attributes of mounts. The flags of `mount` have the same values."""
_SAFE = _NO_SETUID | _NO_DEVICES
_PRIVATE = 1 << 18
_AT_FDCWD = -100
_DETACH = 0x2 | 0x8
"""Unmount at once, and follow no link."""

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_DEVICE_LINKS = (
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
)
_KERNEL_CONTROLS = ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi")
"""What root could change in ``/proc``."""

_PR_SET_NO_NEW_PRIVS = 38
_CAPSET_VERSION = 0x2008_0522
_KEPT_CAPABILITIES = (0, 1, 3)
"""What root keeps, to write files of other users in writable directories: CHOWN, DAC_OVERRIDE and FOWNER."""
_SET_INTERFACE_FLAGS, _INTERFACE_UP = 0x8914, 0x1


class NamespaceView(NamedTuple):
    """What a command sees. Paths are absolute and without links. A rule of a later field wins over an earlier one."""

    writable: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    covered: tuple[str, ...] = ()
    """Sockets and directories that are replaced by empty ones."""
    hidden: tuple[str, ...] = ()
    """Directories of which only the following is seen."""
    visible: tuple[str, ...] = ()
    private_writable: tuple[str, ...] = ()
    network: bool = True

    def pack(self) -> list[str]:
        """Return it as texts, each a path with the number of its field. The first one is their count."""
        paths = [f"{number}{path}" for number, field in enumerate(self[:-1]) for path in field]
        return [f"{len(paths)}{'+' if self.network else '-'}", *paths]

    @classmethod
    def unpack(cls, texts: Sequence[str]) -> NamespaceView:
        fields: list[list[str]] = [[] for _ in cls._fields[:-1]]
        for text in texts[1 : 1 + int(texts[0][:-1])]:
            fields[int(text[0])].append(text[1:])
        writable, read_only, covered, hidden, visible, private_writable = map(tuple, fields)
        return cls(writable, read_only, covered, hidden, visible, private_writable, texts[0].endswith("+"))


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_HOW = _OpenHow(os.O_PATH | os.O_CLOEXEC, 0, _NO_SYMLINKS) if hasattr(os, "O_PATH") else _OpenHow()


class _MountAttributes(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


class PreparedNamespace(NamedTuple):
    """Namespaces of the calling process, in which it sees what it saw before. Nothing is confined yet."""

    mounts: list[_Copy]
    """The devices of the command and its ``/proc``, in which root can change nothing, to be attached."""
    network: bool


def prepare_namespace(*, network: bool) -> PreparedNamespace:
    """Put the calling process into new namespaces. It must have one thread, and must not go on after `OSError`.

    Copies have the attributes that the mounts have when they are made, so each kind of copy is made between two changes
    of attributes.
    """
    _make_namespaces(network=network)
    _set_attributes("/", _NO_SETUID, propagation=_PRIVATE)
    devices = _copy(f"/dev/{name}" for name in _DEVICES)
    _set_attributes("/", _NO_DEVICES)
    if not network:
        _start_loopback()
    made = _make_devices(devices)
    _protect_kernel_controls()
    return PreparedNamespace([*made, *_copy(["/proc"])], network)


def enter_namespace(view: NamespaceView, *, directory: str = "/", prepared: PreparedNamespace | None = None) -> None:
    """Confine the calling process for ever, and change to a directory.

    It must have one thread, and it must not go on if this raises `OSError`. ``prepared`` must have the network of the
    view, and no mount may have changed since.
    """
    mounts, network = prepared or prepare_namespace(network=view.network)
    if network != view.network:
        raise ValueError("the namespace was prepared for another network")
    writable = _copy(path for path in view.writable if path != "/")
    shown = _copy(view.private_writable) + _copy(path for path in view.writable if _is_below(path, view.hidden))
    if "/" not in view.writable:
        _set_attributes("/", _READ_ONLY)
    read_only = _copy(view.read_only)
    visible = _copy(view.visible)
    covered = ("/dev", *view.hidden)
    _attach([*mounts, *writable, *read_only], covered=covered)
    for path in view.covered:
        _cover(path)
    for path in view.hidden:
        if _is_below(path, covered):
            os.makedirs(path, exist_ok=True)
        _mount("tmpfs", path, _SAFE, "mode=0755,size=1m")
    _attach([*visible, *shown], covered=covered)
    for path in view.hidden:
        _set_attributes(path, _READ_ONLY, flags=0)
    _drop_privileges()
    os.chdir(directory)


def _make_namespaces(*, network: bool) -> None:
    flags = _NEW_MOUNTS | (0 if network else _NEW_NETWORK)
    uid, gid = os.geteuid(), os.getegid()
    if uid == 0 and _libc().unshare(flags) == 0:
        return
    _check(_libc().unshare(flags | _NEW_USER), "a user namespace")
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        descriptor = os.open(f"/proc/self/{name}", os.O_WRONLY | os.O_CLOEXEC)
        os.write(descriptor, text.encode())
        os.close(descriptor)


@contextlib.contextmanager
def _opened(path: str) -> Iterator[int]:
    """Open a path without following links. Raises `OSError`.

    It is closed at once: a command is confined with many paths, also where the limit of open files is low.
    """
    opened = _system_calls().openat2(_OPENAT2, _AT_FDCWD, os.fsencode(path), _HOW, ctypes.sizeof(_HOW))
    descriptor = _check(opened, path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class _Copy(NamedTuple):
    """A copy of what is mounted at and below a path."""

    path: str
    tree: int


def _copy(paths: Iterable[str]) -> list[_Copy]:
    """Copy what is mounted at and below these paths, to attach it later. Paths that do not exist are left out."""
    found = []
    for path in paths:
        with contextlib.suppress(FileNotFoundError), _opened(path) as source:
            found.append(_Copy(path, _check(_system_calls().open_tree(_OPEN_TREE, source, b"", _COPY_FLAGS), path)))
    return found


def _attach(copies: Iterable[_Copy], *, covered: Sequence[str] = ()) -> None:
    """Attach copies at their paths, and close them. Missing places below covered directories are made."""
    for path, tree in copies:
        if _is_below(path, covered) and not os.path.lexists(path):
            _make_place(path, tree)
        with _opened(path) as place:
            _check(_system_calls().move_mount(_MOVE_MOUNT, tree, b"", place, b"", _MOVE_BY_DESCRIPTORS), path)
        os.close(tree)


def _set_attributes(path: str, attributes: int, *, propagation: int = 0, flags: int = _RECURSIVE) -> None:
    wanted = _MountAttributes(attributes, 0, propagation, 0)
    change = _system_calls().mount_setattr
    _check(change(_MOUNT_SETATTR, _AT_FDCWD, os.fsencode(path), flags, wanted, ctypes.sizeof(wanted)), path)


def _mount(kind: str, path: str, flags: int, options: str) -> None:
    """Mount an empty file system over a directory, which must not be reached through a link."""
    with _opened(path) as descriptor:
        place = f"/proc/self/fd/{descriptor}".encode()
        _check(_libc().mount(kind.encode(), place, kind.encode(), ctypes.c_ulong(flags), options.encode()), path)


def _make_devices(devices: list[_Copy]) -> list[_Copy]:
    """Return a ``/dev`` that is not attached: the view of the command may name paths of the real one."""
    _mount("tmpfs", "/dev", _NO_SETUID | _NO_PROGRAMS, "mode=0755")
    _attach(devices, covered=("/dev",))
    for name, target in _DEVICE_LINKS:
        os.symlink(target, f"/dev/{name}")
    os.mkdir("/dev/pts")
    _mount("devpts", "/dev/pts", _NO_SETUID | _NO_PROGRAMS, "newinstance,ptmxmode=0666,mode=0620")
    os.mkdir("/dev/shm")
    os.chmod("/dev/shm", 0o1777)
    made = _copy(["/dev"])
    _check(_libc().umount2(b"/dev", _DETACH), "/dev")
    return made


def _protect_kernel_controls() -> None:
    """Make read-only what root could change in ``/proc``."""
    controls = _copy(f"/proc/{name}" for name in _KERNEL_CONTROLS if os.geteuid() == 0)
    _attach(controls)
    for path, _ in controls:
        _set_attributes(path, _READ_ONLY)


def _cover(path: str) -> None:
    """Replace a directory by an empty one, and anything else by a device that connects to nothing."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISDIR(os.lstat(path).st_mode):
            _mount("tmpfs", path, _SAFE | _READ_ONLY, "mode=0755,size=1m")
        else:
            _attach([_Copy(path, _copy(["/dev/null"])[0].tree)])


def _make_place(path: str, tree: int) -> None:
    """Make a directory or a file where a tree can be attached."""
    if stat.S_ISDIR(os.fstat(tree).st_mode):
        os.makedirs(path, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def _start_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sH22x", b"lo", _INTERFACE_UP)
        _check(_libc().ioctl(control.fileno(), _SET_INTERFACE_FLAGS, request), "lo")


def _drop_privileges() -> None:
    """Drop all capabilities but those that root keeps. Without new privileges no program can regain one."""
    mask = sum(1 << number for number in _KEPT_CAPABILITIES) if os.geteuid() == 0 else 0
    header, sets = struct.pack("Ii", _CAPSET_VERSION, 0), struct.pack("6I", mask, mask, 0, 0, 0, 0)
    _check(_libc().capset(header, sets), "capabilities")
    _check(_libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "privileges")


def _is_below(path: str, directories: Sequence[str]) -> bool:
    return any(path.startswith(directory + "/") for directory in directories)


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


class _SystemCalls:
    """System calls that libraries of C do not all have. The first argument of each is its number."""

    def __init__(self) -> None:
        number, text, pointer = ctypes.c_long, ctypes.c_char_p, ctypes.POINTER
        self.openat2 = self._prepare(number, text, pointer(_OpenHow), number)
        self.open_tree = self._prepare(number, text, number)
        self.move_mount = self._prepare(number, text, number, text, number)
        self.mount_setattr = self._prepare(number, text, number, pointer(_MountAttributes), number)

    def _prepare(self, *arguments: Any) -> Callable[..., int]:
        """Return a function with fixed types of arguments, because their conversion takes longer than most calls."""
        function = _libc()["syscall"]
        function.argtypes = (ctypes.c_long, *arguments)
        function.restype = ctypes.c_long
        return function


@functools.cache
def _system_calls() -> _SystemCalls:
    return _SystemCalls()


def prepare_namespaces() -> None:
    """Do what `enter_namespace` does, with a path that does not exist, so that its memory is loaded and copied."""
    nothing = "/proc/0"
    with contextlib.suppress(OSError):
        _set_attributes(nothing, 0)
    with contextlib.suppress(OSError):
        _mount("tmpfs", nothing, _SAFE, "")
    with contextlib.suppress(OSError):
        _attach([_Copy(nothing, -1)], covered=("/dev",))
    _copy([nothing])
    _cover(nothing)
    for name in ("capset", "prctl"):
        getattr(_libc(), name)


def _check(result: int, subject: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), subject)
    return result
