"""Graceful stop of the engine or of a workspace: active runs are interrupted, queues are kept and paused (`W5`)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from holdfast.runs.engine_state import ActiveRun, EngineState
from holdfast.runs.intent_file import StopIntent
from holdfast.runs.lane.protocol import ServerStop

_logger = logging.getLogger(__name__)


async def stop_engine(engine_state: EngineState) -> bool:
    """Stop everything, in bounded time. Returns whether everything is written."""
    engine_state.stopping = True
    _logger.info("stopping: interrupting %d active runs, keeping the queues", len(engine_state.active_runs))
    is_held, active_runs = await _interrupt(engine_state, tuple(engine_state.mailboxes))
    unwritten = [active.run.id for active in active_runs if not active.has_ended]
    if (unwritten or not is_held) and engine_state.intents is not None:
        await asyncio.to_thread(engine_state.intents.note, StopIntent())
    for mailbox in engine_state.mailboxes.values():
        mailbox.stop_retrying()
    hanging = await engine_state.tasks.finish(seconds=engine_state.limits.stop_seconds)
    unwritten = [active.run.id for active in active_runs if not active.has_ended]
    if unwritten:
        _logger.warning("stopped; the ends of %s could not be written; the next start writes them", unwritten)
    if hanging:
        _logger.warning("stopped; these tasks did not end: %s", ", ".join(hanging))
    if not unwritten and not hanging:
        _logger.info("stopped; every active run has ended")
    return is_held and not unwritten


async def stop_workspace(engine_state: EngineState, workspace_id: str) -> None:
    engine_state.open_workspaces.discard(workspace_id)
    session_ids = [
        session_id
        for session_id, mailbox in engine_state.mailboxes.items()
        if mailbox.state is not None and mailbox.state.session.workspace_id == workspace_id
    ]
    count = len(_active_runs(engine_state, workspace_id))
    _logger.info("closing workspace %s: interrupting %d active runs", workspace_id, count)
    await _interrupt(engine_state, session_ids, workspace_id=workspace_id)


def _active_runs(engine_state: EngineState, workspace_id: str | None) -> tuple[ActiveRun, ...]:
    runs = engine_state.active_runs.values()
    return tuple(active for active in runs if workspace_id in (None, active.session.workspace_id))


async def _interrupt(
    engine_state: EngineState, session_ids: Iterable[str], *, workspace_id: str | None = None
) -> tuple[bool, tuple[ActiveRun, ...]]:
    """Stop the lanes and wait for the ends of their active runs, at most `shutdown_seconds`.

    Returns whether the lanes are stopped in the database too, and the runs that were active.
    """
    loop = asyncio.get_running_loop()
    seconds = engine_state.limits.shutdown_seconds
    deadline = loop.time() + seconds
    before = _active_runs(engine_state, workspace_id)
    sent = [engine_state.send(session_id, ServerStop(), uses_reserve=True) for session_id in session_ids]
    if sent:
        await asyncio.wait(sent, timeout=seconds / 2)
    # A run whose start was being committed when the stop came has become active meanwhile.
    active_runs = tuple(dict.fromkeys((*before, *_active_runs(engine_state, workspace_id))))
    for active in active_runs:  # also those whose stop could not be written
        active.stop("server_stop")
    if active_runs:
        stopped = [asyncio.ensure_future(active.wait_stopped()) for active in active_runs]
        await asyncio.wait(stopped, timeout=max(deadline - loop.time(), 0))
        for waiter in stopped:
            waiter.cancel()
        await _wait_for_ends(engine_state, active_runs, deadline=deadline)
    is_held = all(done.done() and not done.cancelled() and done.exception() is None for done in sent)
    return is_held, active_runs


async def _wait_for_ends(engine_state: EngineState, active_runs: tuple[ActiveRun, ...], *, deadline: float) -> None:
    """Wait until the ends are written or the time is over. Ends that are refused may never be written."""
    loop = asyncio.get_running_loop()
    refused_deadline = loop.time() + engine_state.limits.unwritable_seconds
    while unwritten := [active for active in active_runs if not active.has_ended]:
        are_refused = all(active.mailbox.write_error is not None for active in unwritten)
        seconds = (min(deadline, refused_deadline) if are_refused else deadline) - loop.time()
        if seconds <= 0:
            return
        # A refusal is no event of its own, so look again after a while.
        ends = [active.end_committed for active in unwritten]
        await asyncio.wait(ends, timeout=min(seconds, engine_state.limits.unwritable_seconds))
