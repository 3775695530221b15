"""Recovery after a crash: loads a lane from the database and ends the runs that the last server left active (`W6`).

A lane with a turn stays in memory while its server lives. So a lane that is loaded with a turn was left by a crash, and
the end of that run is committed before anything else is decided. Its partial text is kept, its open calls get a
result, and nothing is executed again. Queued runs wait until their workspace is opened.

Cancels and a stop that the last server could only note (`intent_file`) are decided first, as if they had been written.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from holdfast.agent.protocol import Ending
from holdfast.errors import CommitRefused, Gone, NotFound, ServerStopping
from holdfast.runs.engine_state import EngineState
from holdfast.runs.intent_file import CancelIntent, StopIntent
from holdfast.runs.lane.commit_plan import CommitPlan, LaneState, lane_of
from holdfast.runs.lane.decisions import decide_all
from holdfast.runs.lane.protocol import CancelRun, CancelSession, Change, Command, Open, Recover, RunEnded, ServerStop
from holdfast.runs.lane.state import Lane
from holdfast.runs.mailbox import Planner
from holdfast.runs.run_end import complete_ending
from holdfast.schema.runs import Outcome, Run
from holdfast.schema.sessions import Session

_logger = logging.getLogger(__name__)


async def end_crashed_runs(engine_state: EngineState, *, workspace_id: str | None = None, retry: bool = False) -> int:
    """End the runs that a crash left active, in one workspace or in all. Returns how many have ended.

    With ``retry``, the others end when they can be written; otherwise with the next command that their lane gets.
    """
    crashed = [
        run
        for run in await engine_state.store.unfinished_runs(workspace_id=workspace_id)
        if run.state not in ("queued", "waiting") and run.id not in engine_state.active_runs
    ]
    left = await _load_lanes(engine_state, dict.fromkeys(run.session_id for run in crashed), retry=retry)
    ended = sum(run.session_id not in left for run in crashed)
    if ended:
        _logger.info("ended %d runs that were active when the last server ended", ended)
    return ended


async def take_intents(engine_state: EngineState) -> None:
    """Let the lanes take what the last server could only note. Call this before anything is opened."""
    if engine_state.intents is None:
        return
    engine_state.taken_intents = intents = await asyncio.to_thread(engine_state.intents.open)
    if not intents:
        return
    unfinished = await engine_state.store.unfinished_runs()
    for session_id in dict.fromkeys(run.session_id for run in unfinished):
        engine_state.left_intents[session_id] = tuple(
            intent for intent in intents if isinstance(intent, StopIntent) or intent.session_id == session_id
        )
    if not engine_state.left_intents:
        engine_state.forget_intents(*intents)
    await _load_lanes(engine_state, tuple(engine_state.left_intents), retry=True)
    _logger.info("the last server left %d cancels or stops that it could not write", len(intents))


async def _load_lanes(engine_state: EngineState, session_ids: Iterable[str], *, retry: bool) -> set[str]:
    """Load lanes that are not loaded. Returns those that cannot be written now, or are left to a stop."""
    left: set[str] = set()
    for session_id in session_ids:
        mailbox = engine_state.mailboxes.get(session_id)
        if engine_state.stopping or (mailbox is not None and mailbox.state is None):
            left.add(session_id)
        elif mailbox is None:
            error = await (post_opening if retry else _post_once)(engine_state, session_id, _load_only)
            if error is not None:
                left.add(session_id)
                _logger.warning("session %s could not be recovered yet: %s", session_id, error)
    return left


async def _post_once(engine_state: EngineState, session_id: str, planner: Planner[None]) -> CommitRefused | None:
    try:
        await engine_state.mailbox(session_id).post(planner, until_known=True)
    except CommitRefused as error:
        return error
    return None


async def post_opening(engine_state: EngineState, session_id: str, planner: Planner[None]) -> CommitRefused | None:
    """Post what is retried until it is written or the engine stops. Returns why it is not written yet."""
    refused: asyncio.Future[CommitRefused] = asyncio.get_running_loop().create_future()

    def on_refused(error: CommitRefused) -> None:
        if not refused.done():
            refused.set_result(error)

    posted = engine_state.mailbox(session_id).post_opening(planner, on_refused=on_refused)
    await asyncio.wait((posted, refused), return_when=asyncio.FIRST_COMPLETED)
    if not posted.done():
        return refused.result()
    if posted.cancelled():
        raise ServerStopping("the server stopped before the session was loaded")
    try:
        posted.result()
    except CommitRefused as error:
        return error
    return None


async def load_lane(engine_state: EngineState, session: Session) -> CommitPlan[None]:
    """Load a lane. The plan commits what must be written before anything is decided on it."""
    rows = await engine_state.store.lane(session.id)
    lane = lane_of(rows)
    if lane.lifecycle == "open":
        lane = replace(lane, lifecycle="closed")
    lane = engine_state.lane_now(lane)
    state = LaneState(session, lane, rows.lane, {run.id: run for run in rows.runs})
    commands = await _due_commands(engine_state, session, lane, rows.runs)
    if not commands:
        return CommitPlan(state, None)
    decision = decide_all(lane, *commands)
    endings = await _endings(engine_state, state, decision.changes)
    return engine_state.plan_decision(state, decision, endings=endings).with_answer(None)


async def _due_commands(
    engine_state: EngineState, session: Session, lane: Lane, runs: tuple[Run, ...]
) -> list[Command]:
    commands = list(_left_commands(engine_state, session.id, lane))
    if session.parent_id is not None and runs and await _must_be_cancelled(engine_state, runs):
        commands.append(CancelSession("parent_ended"))
    if lane.active is not None:
        await _recover_subagents(engine_state, session, parents={run.id for run in runs})
    if lane.active is not None or lane.lifecycle == "deleting":
        commands.append(Recover())
    if engine_state.is_open(session.workspace_id):
        commands.append(Open())
    return commands


def _left_commands(engine_state: EngineState, session_id: str, lane: Lane) -> Iterator[Command]:
    """The commands of the intents that the last server left for this lane and did not write after all."""
    for intent in engine_state.left_intents.get(session_id, ()):
        match intent:
            case CancelIntent(mark=int() as mark):
                if lane.mark < mark:
                    yield CancelSession()
            case CancelIntent(run_id=str() as run_id):
                if (run := lane.find(run_id)) is not None and run.state != "joined":
                    yield CancelRun(run_id)
            case StopIntent():
                yield ServerStop()


async def _must_be_cancelled(engine_state: EngineState, runs: tuple[Run, ...]) -> bool:
    """Whether a sub-agent had not started, or a run above it was already stopping."""
    if any(run.state in ("queued", "waiting") for run in runs):
        return True
    for run in runs:
        parent_id = run.parent_run_id
        while parent_id is not None:
            try:
                parent = await engine_state.store.run(parent_id)
            except (NotFound, Gone):
                return True
            if parent.state != "active":
                return True
            parent_id = parent.parent_run_id
    return False


async def _recover_subagents(engine_state: EngineState, session: Session, *, parents: set[str]) -> None:
    """Sub-agents end before the run that started them."""
    for run in await engine_state.store.unfinished_runs(workspace_id=session.workspace_id):
        if run.parent_run_id in parents:
            await engine_state.mailbox(run.session_id).post(_load_only, until_known=True)


async def _load_only(state: LaneState) -> CommitPlan[None]:
    """A planner without a command: posting it loads the lane."""
    return CommitPlan(state, None)


async def _endings(engine_state: EngineState, state: LaneState, changes: tuple[Change, ...]) -> dict[str, Ending]:
    endings: dict[str, Ending] = {}
    for change in changes:
        if isinstance(change, RunEnded) and change.was in ("active", "stopping"):
            endings[change.run_id] = await complete_ending(
                engine_state,
                state,
                run=state.runs[change.run_id],
                end=(change.state, change.reason),
                ending=Ending(Outcome(change.state, change.reason)),
                crashed=True,
            )
            _logger.info(
                "run %s of session %s was active when the last server ended; it ends %s (%s)",
                *(change.run_id, state.session.id, change.state, change.reason),
            )
    return endings
