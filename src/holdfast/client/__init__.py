"""The client: how the user interfaces talk to a server.

::

    with open_sync(os.environ, name="cli") as client:                 # no event loop, loads little
        workspace = client.open_workspace(os.getcwd())
        accepted = client.start_session(workspace.id, RunRequest(prompt="hello"))
        for event in client.events(session_id=accepted.run.session_id, after=workspace.cursor): ...

    async with await open_client(os.environ, name="tui") as client:   # the same surface on an event loop
        async for event in client.events(): ...

Two transports, `SyncClient` and `AsyncClient`, share one set of rules without I/O (`retry`, `stream_state`). Races they
close: a lost answer is asked for again with the same key, so nothing is done twice; a stream that is cut at any byte
continues at its cursor, and its `transcript` has the exact text at every event; several clients that start at once find
one server. The package knows the API, and nothing about how a server works.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.client.async_client import AsyncClient as AsyncClient
    from holdfast.client.local_server import LocalServer as LocalServer
    from holdfast.client.local_server import open_client as open_client
    from holdfast.client.local_server import open_sync as open_sync
    from holdfast.client.server_address import ServerAddress as ServerAddress
    from holdfast.client.sync_client import SyncClient as SyncClient
    from holdfast.client.transcript import Transcript as Transcript

_MODULES = {
    "ServerAddress": "server_address",
    "AsyncClient": "async_client",
    "LocalServer": "local_server",
    "open_client": "local_server",
    "open_sync": "local_server",
    "Transcript": "transcript",
    "SyncClient": "sync_client",
}


def __getattr__(name: str) -> object:
    """Load each part when it is first used: the command line must not pay for the event loop."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
