"""Graceful stop of the engine or of a workspace: active runs are interrupted, queues are kept and paused (`W5`)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from holdfast.runs.engine_state import ActiveRun, EngineState
from holdfast.runs.intent_file import StopIntent
from holdfast.runs.lane.commit_plan import LaneState
from holdfast.runs.lane.protocol import ServerStop
from holdfast.runs.mailbox import CommittedAnswer

_logger = logging.getLogger(__name__)


async def stop_engine(engine_state: EngineState) -> bool:
    """Stop everything, in bounded time. Returns whether everything is written."""
    engine_state.stopping = True
    engine_state.turns_allowed.clear()  # also if the stop of a lane cannot be written, and an end of it can
    _logger.info("stopping: interrupting %d active runs, keeping the queues", len(engine_state.active_runs))
    try:
        is_held, active_runs = await _interrupt(engine_state)
    except asyncio.CancelledError:  # a second stop request does not wait
        await _note_stop(engine_state)
        raise
    unwritten = [active.run.id for active in active_runs if not active.has_ended]
    if unwritten or not is_held:
        await _note_stop(engine_state)
    engine_state.stop_retrying()
    hanging = await engine_state.tasks.finish(seconds=engine_state.limits.stop_seconds)
    unwritten = [active.run.id for active in active_runs if not active.has_ended]
    if unwritten:
        _logger.warning("stopped; the ends of %s could not be written; the next start writes them", unwritten)
    if hanging:
        _logger.warning("stopped; these tasks did not end: %s", ", ".join(hanging))
    if not unwritten and not hanging:
        _logger.info("stopped; every active run has ended")
    return is_held and not unwritten


async def _note_stop(engine_state: EngineState) -> None:
    if engine_state.intents is not None:
        await asyncio.to_thread(engine_state.intents.note, StopIntent())


async def stop_workspace(engine_state: EngineState, workspace_id: str) -> None:
    engine_state.open_workspaces.discard(workspace_id)
    count = len(_active_runs(engine_state, workspace_id))
    _logger.info("closing workspace %s: interrupting %d active runs", workspace_id, count)
    await _interrupt(engine_state, workspace_id=workspace_id)


def _active_runs(engine_state: EngineState, workspace_id: str | None) -> tuple[ActiveRun, ...]:
    runs = engine_state.active_runs.values()
    return tuple(active for active in runs if workspace_id in (None, active.session.workspace_id))


async def _interrupt(
    engine_state: EngineState, *, workspace_id: str | None = None
) -> tuple[bool, tuple[ActiveRun, ...]]:
    """Stop the lanes and wait for the ends of their active runs, at most `shutdown_seconds`.

    Returns whether the lanes are stopped in the database too, and the runs that were active.
    """
    loop = asyncio.get_running_loop()
    seconds = engine_state.limits.shutdown_seconds
    deadline = loop.time() + seconds
    before = _active_runs(engine_state, workspace_id)
    is_held = await _stop_lanes(engine_state, workspace_id, deadline=loop.time() + seconds / 2)
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
    return is_held(), active_runs


async def _stop_lanes(engine_state: EngineState, workspace_id: str | None, *, deadline: float) -> Callable[[], bool]:
    """Stop the lanes in memory, and those of which only the database knows: their recovery may not be written yet.

    Returns a function that tells whether all of that is written.
    """
    loop = asyncio.get_running_loop()
    live = [
        session_id
        for session_id, mailbox in engine_state.mailboxes.items()
        if workspace_id in (None, mailbox.workspace_id)
    ]
    sent = {session_id: _send_stop(engine_state, session_id) for session_id in live}
    reading = asyncio.ensure_future(_unfinished_sessions(engine_state, workspace_id))
    try:
        await asyncio.wait({reading}, timeout=max(deadline - loop.time(), 0))
    finally:
        reading.cancel()
    if is_known := reading.done() and not reading.cancelled() and reading.exception() is None:
        sent |= {found: _send_stop(engine_state, found) for found in reading.result() if found not in sent}
    else:
        _logger.warning("the unfinished runs could not be read; the next start holds their queues")
    if sent:
        await asyncio.wait(sent.values(), timeout=max(deadline - loop.time(), 0))
    return lambda: (
        is_known and all(done.done() and not done.cancelled() and done.exception() is None for done in sent.values())
    )


def _send_stop(engine_state: EngineState, session_id: str) -> asyncio.Future[CommittedAnswer[LaneState]]:
    return engine_state.send(session_id, ServerStop(), uses_reserve=True)


async def _unfinished_sessions(engine_state: EngineState, workspace_id: str | None) -> tuple[str, ...]:
    """The sessions with unfinished runs, in one workspace or in all that are this server's."""
    workspaces: tuple[str | None, ...] = (workspace_id,)
    if workspace_id is None and not engine_state.recovers_all:
        workspaces = tuple(engine_state.open_workspaces)
    found = [await engine_state.store.unfinished_runs(workspace_id=one) for one in workspaces]
    return tuple(dict.fromkeys(run.session_id for runs in found for run in runs))


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
