"""From the first socket to the last: serve, stop in bounded time, leave when nobody is there (`W2`, `W5`, `W6`)."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

from holdfast.errors import HoldfastError
from holdfast.server.http.application import make_app
from holdfast.server.http.endpoint import Responder
from holdfast.server.http.uvicorn_server import HttpServer
from holdfast.server.listeners import Listener, TcpListener
from holdfast.server.server_parts import ServerParts

_logger = logging.getLogger(__name__)

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_LOOK_SECONDS = 15.0
_HURRY_SECONDS = 1.0
_PROCESS_SECONDS = 20.0
"""Longer than everything that is bounded by itself."""


async def serve(
    parts: ServerParts,
    listeners: Sequence[Listener],
    *,
    linger: float = 600.0,
    idle_exit: bool = False,
    ready: Callable[[], None] | None = None,
    owns_process: bool = False,
) -> None:
    """Answers on these sockets until it is told to stop, or with ``idle_exit`` when nobody has wanted anything for
    ``linger`` seconds.

    What a crash or a stop left unfinished goes on by itself. ``ready`` is called when health would answer. A server
    that owns its process stops on signals, and its process ends soon after, whatever hangs.
    """
    servers: list[HttpServer] = []
    try:
        for listener in listeners:
            server = HttpServer(_app(parts, listener), limits=parts.limits)
            await server.start(listener.socket)
            servers.append(server)
            _logger.info("listening at %s", listener)
        if ready is not None:
            ready()
        with _stopping_on_signals(parts) if owns_process else nullcontext():
            await _work_until_stop(parts, linger=linger, idle_exit=idle_exit)
            if owns_process:
                _end_process_at_last()
            await _stop_runs(parts)
            await _stop_serving(parts, servers)
    finally:
        for listener in listeners:
            listener.socket.close()
            await asyncio.to_thread(listener.remove)


def _app(parts: ServerParts, listener: Listener) -> Responder:
    return make_app(parts, token=listener.token if isinstance(listener, TcpListener) else None)


async def _work_until_stop(parts: ServerParts, *, linger: float, idle_exit: bool) -> None:
    tasks = (
        asyncio.create_task(_open_unfinished(parts), name="open unfinished workspaces"),
        asyncio.create_task(_watch_idleness(parts, linger=linger, idle_exit=idle_exit), name="idleness"),
    )
    try:
        await parts.life.until_stop()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def _open_unfinished(parts: ServerParts) -> None:
    """`W6`: queued runs start by themselves."""
    try:
        count = await parts.workspaces.open_unfinished()
    except HoldfastError as error:
        _logger.warning("workspaces with unfinished work were not all opened: %s", error)
        return
    if count:
        _logger.info("%d workspaces with unfinished work were opened", count)


async def _watch_idleness(parts: ServerParts, *, linger: float, idle_exit: bool) -> None:
    """`W2`: workspaces are unloaded and the server leaves, when nobody is there and nothing is left to do."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(min(linger / 4, _LOOK_SECONDS))
        watched = parts.presence.watched()
        if None not in watched:
            named = frozenset(workspace_id for workspace_id in watched if workspace_id is not None)
            await parts.workspaces.close_idle(watched=named, linger=linger, now=loop.time())
        is_wanted = parts.presence.streams or parts.workspaces.is_busy or parts.life.idle_seconds < linger
        if idle_exit and not is_wanted:
            _logger.info("nobody has wanted anything for %.0f s: leaving", linger)
            parts.life.stop()


async def _stop_runs(parts: ServerParts) -> None:
    """`W5`, bounded by the engine. Whoever asks a second time does not want to wait for that."""
    stopping = asyncio.create_task(parts.engine.stop(), name="stop runs")
    hurry = asyncio.create_task(parts.life.until_hurry(), name="hurry")
    await asyncio.wait((stopping, hurry), return_when=asyncio.FIRST_COMPLETED)
    hurry.cancel()
    if not stopping.done():
        _logger.warning("asked to stop again: runs that have not ended are ended at the next start")
        stopping.cancel()
    elif error := stopping.exception():
        _logger.error("runs could not be stopped", exc_info=error)
    parts.life.runs_have_stopped()


async def _stop_serving(parts: ServerParts, servers: Sequence[HttpServer]) -> None:
    """Streams end with what they were told of the stop; then the connections go."""
    parts.hub.close()
    await asyncio.gather(*(server.stop() for server in servers))
    _logger.info("stopped")


@contextmanager
def _stopping_on_signals(parts: ServerParts) -> Iterator[None]:
    """The first asks, the second hurries, the third ends the process as if nobody listened."""
    loop = asyncio.get_running_loop()
    received = 0

    def on_signal() -> None:
        nonlocal received
        received += 1
        parts.life.stop()
        if received > 1:
            loop.call_later(_HURRY_SECONDS, os._exit, 1)
            _ignore()

    def _ignore() -> None:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)

    for number in _SIGNALS:
        loop.add_signal_handler(number, on_signal)
    try:
        yield
    finally:
        _ignore()


def _end_process_at_last() -> None:
    """From a thread: also a loop that is stuck does not keep the process."""
    timer = threading.Timer(_PROCESS_SECONDS, os._exit, (1,))
    timer.daemon = True
    timer.start()
