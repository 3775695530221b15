"""asyncio without TLS, until it is used.

asyncio imports ssl, which loads OpenSSL: 5 MB and a twentieth of a server's start. A server that is asked over its own
socket, and that asks a model on the same machine, never uses it.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


def import_asyncio() -> None:
    """Import asyncio with stand-ins for the modules of TLS. It does nothing if asyncio is already imported."""
    if "asyncio" in sys.modules:
        return
    names = [name for name in ("ssl", "asyncio.sslproto") if name not in sys.modules]
    sys.modules.update({name: StandIn(name) for name in names})
    try:
        import_module("asyncio")
    finally:  # all other modules import the real ones
        for name in names:
            if isinstance(sys.modules.get(name), StandIn):
                del sys.modules[name]


class StandIn(ModuleType):
    """Has the names of another module, which is imported when the first of them is used."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        if name == "SSLSocket" and self.__name__ not in sys.modules:
            return _NoSocket
        return getattr(import_module(self.__name__), name)


class _NoSocket:
    """asyncio refuses each socket of the class `ssl.SSLSocket`. There is none as long as ssl was not imported."""
