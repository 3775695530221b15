"""Imports libraries without the modules that they import themselves and hardly ever use.

asyncio, for example, imports ssl, which loads OpenSSL: 5 MB and a twentieth of a server's start. A server that is asked
over its own socket, and that asks a model on the same machine, never uses it.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


def import_without(library: str, *unused: str) -> None:
    """Import a library with stand-ins for these modules. It does nothing if the library is already imported.

    Only the library has the stand-ins: all other modules import the real ones.
    """
    if library in sys.modules:
        return
    names = [name for name in unused if name not in sys.modules]
    sys.modules.update({name: StandIn(name) for name in names})
    try:
        import_module(library)
    finally:
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
