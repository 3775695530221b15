"""The client: how the faces talk to a server.

::

    with open_sync(os.environ, name="cli") as client:                 # the command line: no event loop, loads little
        workspace = client.open_workspace(os.getcwd())
        accepted = client.start_session(workspace.id, RunRequest(prompt="hello"))
        for event in client.events(session_id=accepted.run.session_id, after=workspace.cursor): ...

    async with await open_client(os.environ, name="tui") as client:   # the same surface on an event loop
        async for event in client.events(): ...

Races it closes: an answer that was lost is asked for again with the same key, so nothing is done twice; a stream that
was cut, at whatever byte, goes on at its cursor, and its `transcript` has the exact text at every event; several
clients that start at once find one server. It knows the words and the interface, and nothing of how a server works.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.client.async_client import Client as Client
    from holdfast.client.local_server import LocalServer as LocalServer
    from holdfast.client.local_server import open_client as open_client
    from holdfast.client.local_server import open_sync as open_sync
    from holdfast.client.server_address import Address as Address
    from holdfast.client.sync_client import SyncClient as SyncClient
    from holdfast.client.transcript import Transcript as Transcript

_HOMES = {
    "Address": "server_address",
    "Client": "async_client",
    "LocalServer": "local_server",
    "open_client": "local_server",
    "open_sync": "local_server",
    "Transcript": "transcript",
    "SyncClient": "sync_client",
}


def __getattr__(name: str) -> object:
    """Each part is loaded when it is first used: the command line must not pay for the event loop."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
