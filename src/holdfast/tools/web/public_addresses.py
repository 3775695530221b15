"""Checks whether an address is public, in any notation and inside any IPv6 wrapper."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable
from typing import TypeAlias

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolver: TypeAlias = Callable[[str, int], Awaitable[tuple[Address, ...]]]

_NAT64 = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("64:ff9b:1::/48"))
_COMPATIBLE = ipaddress.IPv6Network("::/96")
_PLATFORMS = (ipaddress.IPv4Network("168.63.129.16/32"), ipaddress.IPv4Network("192.0.0.0/24"))
"""Services of cloud platforms for their own machines, at addresses that look public."""
_HOST = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?", re.IGNORECASE)
_NUMBER = re.compile(r"[0-9a-fx.]+", re.IGNORECASE)


def is_public(address: Address) -> bool:
    """Return whether an address is a host on the internet, and not this machine, its networks or cloud metadata."""
    if isinstance(address, ipaddress.IPv6Address):
        if inner := _wrapped(address):
            return is_public(inner)
        if address.scope_id:
            return False
    if any(address in network for network in _PLATFORMS):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def parse_address(host: str) -> Address | None:
    """Return the address that a host is written as, in any notation that systems accept; None for a name.

    Raises `ValueError` if the host is neither.
    """
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        pass
    if _NUMBER.fullmatch(host):
        try:
            return ipaddress.IPv4Address(socket.inet_aton(host))
        except OSError:
            pass
    if not _HOST.fullmatch(host) or len(host) > 253:
        raise ValueError(f"{host!r} is not a valid host name")
    return None


async def resolve_host(host: str, port: int) -> tuple[Address, ...]:
    """Return all addresses of a name, in the system's order. Raises `OSError` if it has none."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(ipaddress.ip_address(entry[4][0]) for entry in found))


def _wrapped(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address inside an IPv6 address: mapped, 6to4, Teredo, NAT64 or compatible."""
    if address.ipv4_mapped:
        return address.ipv4_mapped
    if address.sixtofour:
        return address.sixtofour
    if address.teredo:
        return address.teredo[1]
    in_low_bits = any(address in network for network in _NAT64) or (address in _COMPATIBLE and int(address) > 0xFFFF)
    return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF) if in_low_bits else None
