"""Lane commands as planners: decide, and what the decision writes."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.errors import ServerStopping
from holdfast.runs.engine_state import EngineState
from holdfast.runs.lane.decisions import decide
from holdfast.runs.lane.ledger_batch import LaneState, Plan
from holdfast.runs.lane.protocol import Change, Command, Open, QueueChanged
from holdfast.runs.lane.state import Lane
from holdfast.runs.mailbox import Planner
from holdfast.schema.messages import File


def decide_all(lane: Lane, *commands: Command) -> tuple[Lane, tuple[Change, ...]]:
    """Several commands as one decision; the queue is told once, as it is in the end."""
    told: list[Change] = []
    queue_changed = False
    for command in commands:
        decision = decide(lane, command)
        lane = decision.lane
        told.extend(change for change in decision.changes if not isinstance(change, QueueChanged))
        queue_changed |= len(decision.changes) > 0 and isinstance(decision.changes[-1], QueueChanged)
    return lane, (*told, QueueChanged()) if queue_changed else tuple(told)


def open_planner(desk: EngineState) -> Planner[LaneState]:
    """Lets a lane's runs start; not any more when a stop has come first."""
    opened = command_planner(desk, Open())

    async def plan(state: LaneState) -> Plan[LaneState]:
        if not desk.is_open(state.session.workspace_id):
            raise ServerStopping("the server is stopping, or the workspace was closed again")
        return await opened(state)

    return plan


def command_planner(
    desk: EngineState, *commands: Command, edited: Mapping[str, str | tuple[File, ...]] | None = None
) -> Planner[LaneState]:
    """Answers the state after the commit."""

    async def plan(state: LaneState) -> Plan[LaneState]:
        lane, changes = decide_all(state.lane, *commands)
        entry = desk.entry(state)
        entry.changes(lane, changes, edited=edited)
        made = entry.plan(lane, state, changes=changes)
        return Plan(made.state, made.state, made.batch, made.changes, made.ended)

    return plan
