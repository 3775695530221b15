"""Connects to a host that may have several addresses, of which some may be dead.

Hosts are ASCII. The codec of international names, which only TLS needs, is not imported.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections import deque
from ipaddress import ip_address
from itertools import zip_longest
from typing import Any

_NEXT_ADDRESS_SECONDS = 0.25
"""An address that does not answer for so long is tried side by side with the next one (RFC 8305)."""


async def open_socket(host: str, port: int) -> socket.socket:
    """Connect to the first address that answers."""
    waiting = deque(await _addresses(host, port))
    attempts: set[asyncio.Task[socket.socket]] = set()
    problem: BaseException = OSError("it has no address")
    try:
        while waiting or attempts:
            if waiting:
                attempts.add(asyncio.create_task(_connect_socket(*waiting.popleft()), name=f"connect:{host}"))
            timeout = _NEXT_ADDRESS_SECONDS if waiting else None
            done, _ = await asyncio.wait(attempts, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            for attempt in done:
                attempts.discard(attempt)
                error = attempt.exception()
                if error is None:
                    return attempt.result()
                problem = error
        raise problem
    finally:
        for attempt in attempts:
            attempt.cancel()
        for late in await asyncio.gather(*attempts, return_exceptions=True):
            if isinstance(late, socket.socket):
                late.close()


async def _addresses(host: str, port: int) -> list[tuple[int, Any]]:
    """The family and the address of each, with the families in turn."""
    try:
        ip = ip_address(host)
    except ValueError:
        pass
    else:
        return [(socket.AF_INET if ip.version == 4 else socket.AF_INET6, (host, port))]
    found = await asyncio.get_running_loop().getaddrinfo(host.encode("ascii"), port, type=socket.SOCK_STREAM)
    by_family: dict[int, list[tuple[int, Any]]] = {}
    for family, _, _, _, address in found:
        by_family.setdefault(family, []).append((family, address))
    turns = zip_longest(*by_family.values())
    return [one for turn in turns for one in turn if one is not None]


async def _connect_socket(family: int, address: Any) -> socket.socket:
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setblocking(False)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await _connect(opened, address)
    except BaseException:
        opened.close()
        raise
    return opened


async def _connect(opened: socket.socket, address: Any) -> None:
    """As `loop.sock_connect`, which would import the codec of international names."""
    error = opened.connect_ex(address)
    if error in (errno.EINPROGRESS, errno.EINTR):
        loop = asyncio.get_running_loop()
        is_ready = asyncio.Event()
        loop.add_writer(opened, is_ready.set)
        try:
            await is_ready.wait()
        finally:
            loop.remove_writer(opened)
        error = opened.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if error:
        raise OSError(error, os.strerror(error))
