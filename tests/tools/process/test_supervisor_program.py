"""A request is taken by one supervisor or withdrawn: nothing is started twice, and nothing after it was given up."""

import asyncio
import os
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.tools.process.supervisor import CommandKind
from holdfast.tools.process.supervisor_program import RequestOffer
from tests.support.running_server import until

KIND = CommandKind(piped=False, in_namespace=False)
LARGE = b"x" * 1_000_000
"""More than a socket holds."""


class Supervisors:
    """The other side of a supervisor program's socket."""

    def __init__(self) -> None:
        ours, self._theirs = socket.socketpair()
        ours.setblocking(False)
        self.program: Any = SimpleNamespace(socket=ours, has_free_supervisor=False)

    def control(self) -> socket.socket:
        """Take what comes with a request, as a supervisor does that has waited."""
        _, [descriptor], _, _ = socket.recv_fds(self._theirs, 1, 5)
        return socket.socket(fileno=descriptor)

    def offer(self, request: bytes) -> RequestOffer:
        return RequestOffer(self.program, request, kind=KIND, descriptors=[])

    def close(self) -> None:
        self._theirs.close()
        self.program.socket.close()


@pytest.fixture
def supervisors():
    made = Supervisors()
    yield made
    made.close()


def read_all(control: socket.socket) -> bytes:
    with control:
        return b"".join(iter(lambda: control.recv(1 << 16), b""))


@pytest.mark.promise("C7")
@pytest.mark.parametrize("request_bytes", [b"a request", LARGE], ids=["small", "large"])
async def test_a_request_that_no_supervisor_takes_in_time_is_never_read(
    supervisors: Supervisors, request_bytes: bytes
) -> None:
    offer = supervisors.offer(request_bytes)
    assert await offer.answer(seconds=0.01) is None
    offer.connection.close()
    assert await asyncio.to_thread(read_all, supervisors.control()) == b""


async def test_a_request_that_is_read_in_part_is_never_complete(supervisors: Supervisors) -> None:
    offer, control = supervisors.offer(LARGE), supervisors.control()
    part = await asyncio.to_thread(control.recv, 1000)
    assert offer.withdraw()
    offer.connection.close()
    assert len(part + await asyncio.to_thread(read_all, control)) < len(LARGE)


async def test_a_supervisor_that_took_the_request_is_awaited_without_limit(supervisors: Supervisors) -> None:
    offer, control = supervisors.offer(b"a request"), supervisors.control()
    assert await asyncio.to_thread(control.recv, 100) == b"a request"
    answering = asyncio.create_task(offer.answer(seconds=0.0))
    await asyncio.wait((answering,), timeout=0.05)
    assert not answering.done()
    control.sendall(b"started\t1\nexi")
    assert await answering == ["started", "1"]
    reports: list[list[str]] = []
    offer.connection.listen(reports.append)
    control.sendall(b"ted\t0\nempty\n")
    control.close()
    await until(lambda: [] in reports)
    assert reports == [["exited", "0"], ["empty"], []]
    assert not offer.withdraw()
    offer.connection.close()


async def test_a_supervisor_that_ends_with_the_request_is_noticed(supervisors: Supervisors) -> None:
    offer, control = supervisors.offer(b"a request"), supervisors.control()
    assert await asyncio.to_thread(control.recv, 100) == b"a request"
    control.close()
    assert await offer.answer(seconds=0.0) == []
    offer.connection.close()


async def test_a_large_request_arrives_whole(supervisors: Supervisors) -> None:
    offer, control = supervisors.offer(LARGE), supervisors.control()
    received = bytearray()

    def take() -> None:
        while len(received) < len(LARGE):
            received.extend(control.recv(1 << 16))
        control.sendall(b"failed\tno\n")

    report, _ = await asyncio.gather(offer.answer(seconds=60), asyncio.to_thread(take))
    assert report == ["failed", "no"]
    assert bytes(received) == LARGE
    control.close()
    offer.connection.close()


async def test_nothing_is_offered_to_a_program_that_has_ended(supervisors: Supervisors) -> None:
    before = os.listdir("/proc/self/fd")
    supervisors.close()
    supervisors.program.socket, other = socket.socketpair()
    other.close()
    with pytest.raises(ConnectionError):
        supervisors.offer(b"a request")
    assert len(os.listdir("/proc/self/fd")) == len(before) - 1
