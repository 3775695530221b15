"""The server: thin routes over the engine, the workspaces, the ledger and the hub, and the life of the process.

- `ServerParts` is what the composition root gives; `make_app` is the interface (docs/protocol.md), from one table of
  endpoints (`calls.Endpoint`), from which its OpenAPI description comes too.
- `serve` answers on sockets (`listen_unix`, `listen_tcp`) until it is stopped, in bounded time (`W5`).

It decides nothing about runs. What it closes: a request that is sent twice is done once (`Answers`); a caller's mistake
is a 4xx and changes nothing, ours is a 500 with an id that the log has too (`Faults`); a stream that is read slowly, or
not any more, holds up nobody (`EventStream`).
"""

from __future__ import annotations

from holdfast.server.auth import checked_token, token_from_file
from holdfast.server.event_loop import loop_factory, run
from holdfast.server.http.application import make_app
from holdfast.server.lifecycle import serve
from holdfast.server.listeners import (
    Listener,
    TcpAddress,
    TcpListener,
    UnixListener,
    listen_tcp,
    listen_unix,
    parse_listen,
)
from holdfast.server.log_file import logging_to
from holdfast.server.process_privacy import hide_process
from holdfast.server.server_parts import ServerLimits, ServerParts

__all__ = [
    "Listener",
    "ServerLimits",
    "ServerParts",
    "TcpAddress",
    "TcpListener",
    "UnixListener",
    "checked_token",
    "hide_process",
    "listen_tcp",
    "listen_unix",
    "logging_to",
    "loop_factory",
    "make_app",
    "parse_listen",
    "run",
    "serve",
    "token_from_file",
]
