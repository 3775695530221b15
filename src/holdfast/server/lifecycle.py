"""Serve on sockets, exit when idle, and stop in bounded time (`W2`, `W5`, `W6`)."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.server.application import make_app
from holdfast.server.http.http_server import HttpServer
from holdfast.server.listeners import Listener, TcpListener, UnixListener, listen_unix
from holdfast.server.memory_release import MemoryRelease
from holdfast.server.server_parts import ServerParts
from holdfast.server.web_listeners import WebListeners
from holdfast.services import Services

_logger = logging.getLogger(__name__)

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_IDLE_CHECK_SECONDS = 15.0
_GROWN_CHECK_SECONDS = 3.0
_SECOND_SIGNAL_SECONDS = 1.0
_PROCESS_EXIT_SECONDS = 20.0
"""Longer than the limits of everything that stops before the process exits."""


async def serve(
    parts: ServerParts,
    listeners: Sequence[Listener],
    *,
    linger: float,
    idle_exit: bool = False,
    ready: Callable[[], None] | None = None,
    owns_process: bool = False,
) -> bool:
    """Serve on these sockets until a stop is requested; with ``idle_exit``, also stop after ``linger`` idle seconds.

    Unfinished runs of an earlier server continue. ``ready`` is called once the server answers. A server that owns its
    process stops on signals, and the process exits soon after a stop even if something hangs. Returns whether the stop
    is written: every active run has its end, and every queue is held.
    """
    services = parts.services
    services.state.is_kept = owns_process and not idle_exit
    servers: list[HttpServer] = []
    listeners = list(listeners)

    async def start(listener: Listener) -> None:
        own_app = listener.app if isinstance(listener, UnixListener) else None
        tcp, tls = (listener.access, listener.tls) if isinstance(listener, TcpListener) else (None, None)
        app = own_app or make_app(parts, tcp=tcp)
        server = HttpServer(app, limits=parts.limits, find_tool_peers=parts.find_tool_peers)
        await server.start(listener.socket, tls=tls)
        servers.append(server)
        _logger.info("listening at %s", listener)

    async def replace_lost_sockets() -> None:
        """Listen again at the path of a Unix socket that was removed, for example by a cleaner of temporary files."""
        while True:
            await asyncio.sleep(parts.limits.socket_check_seconds)
            for index, listener in enumerate(listeners):
                if isinstance(listener, UnixListener) and await asyncio.to_thread(listener.is_lost):
                    try:
                        found = await asyncio.to_thread(listen_unix, listener.path, app=listener.app)
                    except HoldfastError as error:
                        _logger.warning("the socket %s was removed and cannot be made again: %s", listener.path, error)
                        continue
                    listeners[index] = found
                    replaced.append(listener)
                    await start(found)

    replaced: list[UnixListener] = []
    web = WebListeners(parts)
    try:
        with _stop_on_signals(services) if owns_process else nullcontext():  # before the first request is answered
            for listener in tuple(listeners):
                await start(listener)
            await services.web.start(web)
            if ready is not None:
                ready()
            await _work_until_stop(services, replace_lost_sockets(), linger=linger, idle_exit=idle_exit)
            if owns_process:
                _exit_process_later()
            is_written = await _stop_runs(services)
            services.events.close_all()
            await asyncio.gather(*(server.stop() for server in servers), web.close_all())
            _logger.info("stopped")
            return is_written
    finally:
        for old in replaced:
            old.socket.close()
        for listener in listeners:
            listener.socket.close()
            await asyncio.to_thread(listener.remove)


async def _work_until_stop(
    services: Services, watch: Coroutine[Any, Any, None], *, linger: float, idle_exit: bool
) -> None:
    tasks = (
        asyncio.create_task(watch, name="replace lost sockets"),
        asyncio.create_task(_open_unfinished(services), name="open unfinished workspaces"),
        asyncio.create_task(_watch_idleness(services, linger=linger, idle_exit=idle_exit), name="idleness"),
    )
    try:
        await services.state.wait_for_stop()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def _open_unfinished(services: Services) -> None:
    """Open workspaces with unfinished runs, so that queued runs start (`W6`)."""
    try:
        count = await services.workspaces.open_unfinished()
    except HoldfastError as error:
        _logger.warning("not all workspaces with unfinished runs were opened: %s", error)
        return
    if count:
        _logger.info("opened %d workspaces with unfinished runs", count)


async def _watch_idleness(services: Services, *, linger: float, idle_exit: bool) -> None:
    """Close idle workspaces, give back memory, and stop an idle server (`W2`)."""
    loop = asyncio.get_running_loop()
    memory = MemoryRelease()
    while True:
        await asyncio.to_thread(memory.check)  # the first time it notes the size at the start
        await asyncio.sleep(min(linger / 4, _GROWN_CHECK_SECONDS if memory.is_grown else _IDLE_CHECK_SECONDS))
        watched = services.presence.watched_workspaces()
        if None not in watched:
            named = frozenset(workspace_id for workspace_id in watched if workspace_id is not None)
            await services.workspaces.close_idle(watched=named, linger=linger, now=loop.time())
        in_use = services.presence.streams or services.workspaces.is_busy or services.state.idle_seconds < linger
        if idle_exit and not in_use and not services.web.is_shared:
            _logger.info("idle for %.0f s: stopping", linger)
            services.state.request_stop()


async def _stop_runs(services: Services) -> bool:
    """Stop all runs (`W5`). The engine limits how long that takes; a second stop request does not wait for it.

    Returns whether the stop is written.
    """
    stop = asyncio.create_task(services.server.stop_runs(), name="stop runs")
    second_stop = asyncio.create_task(services.state.wait_for_second_stop(), name="second stop")
    await asyncio.wait((stop, second_stop), return_when=asyncio.FIRST_COMPLETED)
    second_stop.cancel()
    if not stop.done():
        _logger.warning("second stop request: unfinished runs are ended at the next start")
        stop.cancel()
    elif error := stop.exception():
        _logger.error("runs could not be stopped", exc_info=error)
    services.state.mark_runs_stopped()
    return stop.done() and not stop.cancelled() and stop.exception() is None and stop.result()


@contextmanager
def _stop_on_signals(services: Services) -> Iterator[None]:
    """The first signal requests a stop, the second a faster one; a third kills the process."""
    loop = asyncio.get_running_loop()
    received = 0

    def on_signal() -> None:
        nonlocal received
        received += 1
        services.state.request_stop()
        if received > 1:
            loop.call_later(_SECOND_SIGNAL_SECONDS, os._exit, 1)
            remove_handlers()

    def remove_handlers() -> None:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)

    for number in _SIGNALS:
        loop.add_signal_handler(number, on_signal)
    try:
        yield
    finally:
        remove_handlers()


def _exit_process_later() -> None:
    """Exit from a thread after a while, in case the event loop is stuck."""
    timer = threading.Timer(_PROCESS_EXIT_SECONDS, os._exit, (1,))
    timer.daemon = True
    timer.start()
