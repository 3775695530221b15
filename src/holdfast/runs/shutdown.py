"""Stopping on purpose: active runs end interrupted, queues are kept and held, in bounded time (`W5`)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from holdfast.runs.driver import Driver
from holdfast.runs.engine_state import EngineState
from holdfast.runs.lane.protocol import ServerStop
from holdfast.runs.mailbox import Mailbox
from holdfast.runs.planners import command_planner

_logger = logging.getLogger(__name__)


async def stop_all(desk: EngineState) -> None:
    """Everything of the engine. Whatever hangs, hangs no longer than the bounds allow."""
    desk.stopping = True
    drivers = tuple(desk.drivers.values())
    _logger.info("stopping: %d active runs are interrupted, queues are kept", len(drivers))
    await _interrupt(desk, tuple(desk.mailboxes.values()), drivers)
    for mailbox in desk.mailboxes.values():
        mailbox.give_up()
    hanging = await desk.tasks.finish(seconds=desk.bounds.stop_seconds)
    unwritten = [driver.run.id for driver in drivers if not driver.is_over]
    if unwritten:
        _logger.warning("stopped; the ends of %s could not be written and will be at the next start", unwritten)
    if hanging:
        _logger.warning("stopped; %s would not end", ", ".join(hanging))
    if not unwritten and not hanging:
        _logger.info("stopped; every active run has its end")


async def stop_workspace(desk: EngineState, workspace_id: str) -> None:
    desk.open_workspaces.discard(workspace_id)
    mailboxes = [
        mailbox
        for mailbox in desk.mailboxes.values()
        if mailbox.state is not None and mailbox.state.session.workspace_id == workspace_id
    ]
    drivers = tuple(driver for driver in desk.drivers.values() if driver.session.workspace_id == workspace_id)
    _logger.info("closing workspace %s: %d active runs are interrupted", workspace_id, len(drivers))
    await _interrupt(desk, mailboxes, drivers)


async def _interrupt(desk: EngineState, mailboxes: Iterable[Mailbox], drivers: tuple[Driver, ...]) -> None:
    """Waits for the ends of the runs, at most as long as the bounds say."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + desk.bounds.shutdown_seconds
    posted = [mailbox.post(command_planner(desk, ServerStop())) for mailbox in mailboxes]
    if posted:
        await asyncio.wait(posted, timeout=desk.bounds.shutdown_seconds / 2)
    for driver in drivers:  # whose stop the ledger could not take
        driver.stop("server_stop")
    ends = [driver.over for driver in drivers]
    if ends:
        await asyncio.wait(ends, timeout=max(deadline - loop.time(), 0))
