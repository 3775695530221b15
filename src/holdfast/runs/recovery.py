"""A lane from the ledger, and the end of what a server that is gone left in it (`W6`).

A lane with a turn is never forgotten while its server lives. So one that is read from the ledger with a turn was left
by a crash, and nothing else of it is decided before that run's end is committed: loading is recovery. Its partial text
is kept, its open calls are answered, nothing of it is done again; queued runs wait for their workspace to be opened.
"""

from __future__ import annotations

import logging

from msgspec.structs import replace

from holdfast.agent.protocol import Ending
from holdfast.errors import Gone, NotFound
from holdfast.runs.engine_state import EngineState
from holdfast.runs.lane.ledger_batch import EndDetails, LaneState, Plan, lane_of
from holdfast.runs.lane.protocol import CancelSession, Change, Command, Open, Recover, RunFinished
from holdfast.runs.lane.state import Lane
from holdfast.runs.planners import decide_all
from holdfast.runs.run_end import end_details
from holdfast.schema.runs import Outcome, Run
from holdfast.schema.sessions import Session

_logger = logging.getLogger(__name__)


async def load(desk: EngineState, session_id: str, *, known: Session | None = None) -> Plan[None]:
    """The lane, with what must be committed before anything else is decided on it."""
    session = known or await desk.store.session(session_id)
    rows = await desk.store.lane(session_id)
    lane = lane_of(rows)
    if lane.lifecycle == "open":
        lane = replace(lane, lifecycle="closed")
    state = LaneState(session, lane, rows.lane, {run.id: run for run in rows.runs})
    commands = await _what_is_due(desk, session, lane, rows.runs)
    if not commands:
        return Plan(state, None)
    decided, changes = decide_all(lane, *commands)
    entry = desk.entry(state)
    entry.changes(decided, changes, ends=await _ends(desk, state, changes))
    return entry.plan(decided, None, changes=changes)


async def _what_is_due(desk: EngineState, session: Session, lane: Lane, runs: tuple[Run, ...]) -> list[Command]:
    due: list[Command] = []
    if session.parent_id is not None and runs and await _must_not_go_on(desk, runs):
        due.append(CancelSession("parent_ended"))
    if lane.active is not None:
        await _recover_children(desk, session, parents={run.id for run in runs})
    if lane.active is not None or lane.lifecycle == "deleting":
        due.append(Recover())
    if desk.is_open(session.workspace_id):
        due.append(Open())
    return due


async def _must_not_go_on(desk: EngineState, runs: tuple[Run, ...]) -> bool:
    """Whether a run above a sub-agent was already stopping, or the sub-agent had not even started."""
    if any(run.state in ("queued", "waiting") for run in runs):
        return True
    for run in runs:
        above = run.parent_run_id
        while above is not None:
            try:
                parent = await desk.store.run(above)
            except (NotFound, Gone):
                return True
            if parent.state != "active":
                return True
            above = parent.parent_run_id
    return False


async def _recover_children(desk: EngineState, session: Session, *, parents: set[str]) -> None:
    """Sub-agents end before the run that made them."""
    for run in await desk.store.unfinished_runs(workspace_id=session.workspace_id):
        if run.parent_run_id in parents:
            await desk.mailbox(run.session_id).post(nothing)


async def nothing(state: LaneState) -> Plan[None]:
    """A planner that only has the lane loaded."""
    return Plan(state, None)


async def _ends(desk: EngineState, state: LaneState, changes: tuple[Change, ...]) -> dict[str, EndDetails]:
    ends: dict[str, EndDetails] = {}
    for change in changes:
        if isinstance(change, RunFinished) and change.was in ("active", "stopping"):
            ends[change.run_id] = await end_details(
                desk,
                state,
                run=state.runs[change.run_id],
                end=(change.state, change.reason),
                ending=Ending(Outcome(change.state, change.reason)),
                crashed=True,
            )
            _logger.info(
                "run %s of session %s was cut off when the last server ended; it ends %s (%s)",
                *(change.run_id, state.session.id, change.state, change.reason),
            )
    return ends


async def recover(desk: EngineState, *, workspace_id: str | None = None) -> int:
    """Ends what a crash left, in one workspace or in all; how many runs that were."""
    left = [
        run
        for run in await desk.store.unfinished_runs(workspace_id=workspace_id)
        if run.state not in ("queued", "waiting") and run.id not in desk.drivers
    ]
    for session_id in dict.fromkeys(run.session_id for run in left):
        if session_id not in desk.mailboxes:
            await desk.mailbox(session_id).post(nothing)
    if left:
        _logger.info("%d runs were cut off when the last server ended; their ends are written", len(left))
    return len(left)
