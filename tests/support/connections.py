"""A server on loopback for the time of a test."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast.testing.connection_server import ConnectionServer, Serve


@asynccontextmanager
async def serve_connections(
    serve: Serve, *, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Call ``serve`` for each connection. Yields the port."""
    server = ConnectionServer(serve, tls=tls)
    await server.start(host, port)
    try:
        yield server.port
    finally:
        await server.stop()
