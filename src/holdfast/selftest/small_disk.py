"""Start a server that sees a small, empty disk in one directory. Nobody else sees it, and it is gone with the server.

Run with ``python -P -m holdfast.selftest.small_disk MEGABYTES DIRECTORY SOCKET serve``: the socket, an inherited
descriptor, gets a descriptor of the directory, which is the way in for others. With two arguments it only tries. The
disk is in memory, in a mount namespace of this process. Root may make one; other users need a user namespace for it.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import socket
import sys
from pathlib import Path

_NEW_MOUNTS, _NEW_USER = 0x0002_0000, 0x1000_0000
_NO_SETUID_NO_DEVICES = 0x2 | 0x4
_RECURSIVE_PRIVATE = 0x4000 | 1 << 18


def mount_small_disk(directory: Path, *, megabytes: int) -> None:
    """Let this process see the disk. Call it before there are threads. Raises `OSError` if that is not permitted."""
    libc = ctypes.CDLL(None, use_errno=True)
    uid, gid = os.getuid(), os.getgid()
    _check(libc.unshare(_NEW_MOUNTS | (_NEW_USER if uid else 0)))
    if uid:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    _check(libc.mount(None, b"/", None, _RECURSIVE_PRIVATE, None))
    options = f"size={megabytes}m,mode=0700".encode()
    _check(libc.mount(b"tmpfs", os.fsencode(directory), b"tmpfs", _NO_SETUID_NO_DEVICES, options))


def send_directory(directory: Path, descriptor: int) -> None:
    """Send a descriptor of a directory over the socket, and close the socket."""
    opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    with socket.socket(fileno=descriptor) as channel:
        socket.send_fds(channel, [b"."], [opened])
    os.close(opened)


def _check(result: int) -> None:
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    try:
        mount_small_disk(Path(sys.argv[2]), megabytes=int(sys.argv[1]))
    except (OSError, AttributeError) as error:  # not Linux, or a Linux that does not permit it
        sys.exit(str(error))
    if len(sys.argv) > 3:
        send_directory(Path(sys.argv[2]), int(sys.argv[3]))
        del sys.argv[1:4]
        runpy.run_module("holdfast", run_name="__main__")
