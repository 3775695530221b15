"""The client of the HTTP API, used by all user interfaces.

::

    with open_sync_client(os.environ, name="cli") as client:            # no event loop, few imports
        workspace = client.open_workspace(os.getcwd())
        accepted = client.start_session(workspace.id, RunRequest(prompt="hello"))
        for event in client.events(session_id=accepted.run.session_id, after=workspace.cursor): ...

    async with await open_async_client(os.environ, name="tui") as client:   # the same methods on an event loop
        async for event in client.events(): ...

`SyncClient` and `AsyncClient` are two transports under one set of rules without I/O. A call whose response is lost is
sent again with the same key, so it has its effect once. A stream that is cut at any byte continues at its cursor, and
its `transcript` has the exact text at every event. Clients that start at the same time find one server. The package
knows the API and nothing about the server's implementation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.client.async_client import AsyncClient as AsyncClient
    from holdfast.client.local_server import LocalServer as LocalServer
    from holdfast.client.local_server import open_async_client as open_async_client
    from holdfast.client.local_server import open_sync_client as open_sync_client
    from holdfast.client.server_address import ServerAddress as ServerAddress
    from holdfast.client.sync_client import SyncClient as SyncClient
    from holdfast.client.transcript import Transcript as Transcript

_MODULES = {
    "ServerAddress": "server_address",
    "AsyncClient": "async_client",
    "LocalServer": "local_server",
    "open_async_client": "local_server",
    "open_sync_client": "local_server",
    "Transcript": "transcript",
    "SyncClient": "sync_client",
}


def __getattr__(name: str) -> object:
    """Import each part when it is first used, so that the command line does not import asyncio."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
