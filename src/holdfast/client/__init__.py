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
    from holdfast.client.address import Address as Address
    from holdfast.client.aio import Client as Client
    from holdfast.client.find import LocalServer as LocalServer
    from holdfast.client.find import open_client as open_client
    from holdfast.client.find import open_sync as open_sync
    from holdfast.client.fold import Transcript as Transcript
    from holdfast.client.sync import SyncClient as SyncClient

_HOMES = {
    "Address": "address",
    "Client": "aio",
    "LocalServer": "find",
    "open_client": "find",
    "open_sync": "find",
    "Transcript": "fold",
    "SyncClient": "sync",
}


def __getattr__(name: str) -> object:
    """Each part is loaded when it is first used: the command line must not pay for the event loop."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
