"""Imports libraries without the modules that they import themselves and hardly ever use.

asyncio, for example, imports ssl, which loads OpenSSL: 5 MB and a twentieth of a server's start. A server that is asked
over its own socket, and that asks a model on the same machine, never uses it.
"""

from __future__ import annotations

import sys
from functools import partial
from importlib import import_module
from types import FunctionType, MethodType, ModuleType
from typing import Any

_CO_COROUTINE = 0x80
"""`inspect.CO_COROUTINE`, the flag of the code of an ``async def``."""


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
        if self.__name__ not in sys.modules and (self.__name__, name) in _ANSWERS:
            return _ANSWERS[self.__name__, name]
        return getattr(import_module(self.__name__), name)


class _NoSocket:
    """asyncio refuses each socket of the class `ssl.SSLSocket`. There is none as long as ssl was not imported."""


def _is_coroutine_function(function: Any) -> bool:
    """As `inspect.iscoroutinefunction`. asyncio refuses coroutine functions as handlers of signals."""
    while isinstance(function, partial | MethodType):
        function = function.func if isinstance(function, partial) else function.__func__
    return _is_function(function) and bool(function.__code__.co_flags & _CO_COROUTINE)


def _is_function(function: Any) -> bool:
    return isinstance(function, FunctionType)


def _unwrap(function: Any) -> Any:
    """As `inspect.unwrap`. `signal.signal` makes the repr of asyncio's own handler, and of its task, and drops it."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function


_ANSWERS: dict[tuple[str, str], Any] = {
    ("ssl", "SSLSocket"): _NoSocket,
    ("inspect", "iscoroutinefunction"): _is_coroutine_function,
    ("inspect", "isfunction"): _is_function,
    ("inspect", "unwrap"): _unwrap,
}
"""What asyncio uses of these modules at every start: it is known without them."""
