"""The small disk of the self-test: full after its size, and seen by nobody else."""

import ctypes
import errno
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.selftest.small_disk import mount_small_disk, send_directory

_NOBODY = 65534
_NOT_PERMITTED, _NOT_FULL = 2, 3


@pytest.fixture
def directory() -> Iterator[Path]:
    """One that every user reaches."""
    with tempfile.TemporaryDirectory(prefix="holdfast-test-") as found:
        os.chmod(found, 0o777)
        yield Path(found)


def _fill_small_disk(directory: Path, channel: socket.socket) -> int:
    """Called in a child process, as a user without privileges."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)
        ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # as a program that this user starts
    try:
        mount_small_disk(directory, megabytes=1)
    except OSError:
        return _NOT_PERMITTED
    try:
        (directory / "file").write_bytes(bytes(2 << 20))
    except OSError as error:
        send_directory(directory, channel.detach())
        return 0 if error.errno == errno.ENOSPC else 1
    return _NOT_FULL


def test_a_user_without_privileges_gets_a_disk_that_is_full_soon_and_that_nobody_else_sees(directory: Path) -> None:
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = _fill_small_disk(directory, theirs)
        finally:
            os._exit(status)
    theirs.close()
    with ours:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status == _NOT_PERMITTED:
            pytest.skip("this system permits users no namespaces, and `holdfast selftest` says so")
        assert status == 0
        assert list(directory.iterdir()) == []
        _, [opened], _, _ = socket.recv_fds(ours, 1, 1)
    assert os.listdir(opened) == ["file"]
    os.close(opened)
