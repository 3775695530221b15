"""Blocks the network except loopback and Unix sockets.

An audit hook sees every connection of Python's sockets, whichever library opens it. uvloop connects in C, without audit
events, so its connect function is wrapped. A use is refused and recorded: a test fails even if the code under test
ignores the error.
"""

import ipaddress
import sys
from collections.abc import Callable
from typing import Any

import uvloop

_CONNECTING = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
_RESOLVING = frozenset({"socket.getaddrinfo", "socket.gethostbyname"})
_LOCAL_NAMES = frozenset({"", "localhost", "localhost.localdomain", "ip6-localhost"})


class NetworkUseError(Exception):
    """A test used an address that is not on this machine."""


class NetworkGuard:
    """Refuses and records every use of an address other than loopback."""

    def __init__(self) -> None:
        self.uses: list[str] = []

    def install(self) -> None:
        """Guard this process from now on; an audit hook cannot be removed."""
        sys.addaudithook(self._audit)
        uvloop.Loop.create_connection = self._wrap(uvloop.Loop.create_connection)

    def take_uses(self) -> list[str]:
        """Return what was refused since the last call."""
        uses, self.uses = self.uses, []
        return uses

    def check(self, host: object, *, what: str) -> None:
        if not is_local(host):
            use = f"{what} {host!r}"
            self.uses.append(use)
            raise NetworkUseError(f"{use}: tests may only connect to loopback; start the server in the test")

    def _audit(self, event: str, args: tuple[Any, ...]) -> None:
        if event in _CONNECTING:
            address = args[1]
            if isinstance(address, tuple):
                self.check(address[0], what=event)
        elif event in _RESOLVING:
            self.check(args[0], what=event)

    def _wrap(self, create_connection: Callable[..., Any]) -> Callable[..., Any]:
        async def guarded(loop: Any, protocol_factory: Any, host: Any = None, *args: Any, **kwargs: Any) -> Any:
            self.check(host, what="uvloop connect")
            return await create_connection(loop, protocol_factory, host, *args, **kwargs)

        return guarded


def is_local(host: object) -> bool:
    """Whether a host name or address can only be this machine."""
    if host is None:
        return True
    name = host.decode("ascii", "replace") if isinstance(host, bytes | bytearray) else str(host)
    if name.lower() in _LOCAL_NAMES:
        return True
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified
