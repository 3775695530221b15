"""The HTTP server: routes, authentication, event streams, OpenAPI, sockets, start and stop.

`make_app` builds the API (docs/protocol.md) from one table of endpoints; the OpenAPI description comes from the same
table. `serve` answers on sockets until it is stopped, in bounded time (`W5`). The package decides nothing about runs:
routes translate HTTP to calls of `services`. A mistake of the caller is a 4xx and changes nothing; a bug is a 500 with
an id that is also in the log. A slow or disconnected reader of a stream delays no other client.
"""

from __future__ import annotations

from holdfast.server.application import make_app
from holdfast.server.auth import TcpAccess, check_token, read_token_file
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
from holdfast.server.log_file import log_to_file
from holdfast.server.server_parts import ServerLimits, ServerParts
from holdfast.server.server_process import (
    adopt_orphans,
    hide_process,
    raise_descriptor_limit,
    share_heap,
)

__all__ = [
    "Listener",
    "ServerLimits",
    "ServerParts",
    "TcpAccess",
    "TcpAddress",
    "TcpListener",
    "UnixListener",
    "adopt_orphans",
    "check_token",
    "hide_process",
    "listen_tcp",
    "listen_unix",
    "log_to_file",
    "make_app",
    "parse_listen",
    "raise_descriptor_limit",
    "read_token_file",
    "serve",
    "share_heap",
]
