"""A commit writes each row once."""

from holdfast.agent.protocol import Ending, Spent
from holdfast.runs.lane.commit_plan import Acceptance, CommitPlan, LaneState, PlanBuilder, new_lane_state
from holdfast.runs.lane.decisions import decide
from holdfast.runs.lane.protocol import Accept, End
from holdfast.schema.events import RunAccepted, RunFinished, RunStarted
from holdfast.schema.runs import Outcome, RunRequest
from holdfast.schema.sessions import Session
from holdfast.schema.usage import Usage
from holdfast.store import writes as w

AT = "2026-01-01T00:00:00.000Z"
SESSION = Session(id="ses_1", workspace_id="wsp_1", created_at=AT, updated_at=AT)
DONE = Outcome("completed", "end_turn", "done")


def builder(state: LaneState) -> PlanBuilder:
    return PlanBuilder(state, at=AT, new_message_id=lambda: "msg_1")


def start() -> CommitPlan[object]:
    """A prompt that begins a session, and starts at once."""
    state = new_lane_state(SESSION)
    acceptance = Acceptance(request=RunRequest(prompt="go"), client="", body_hash="hash", in_new_session=True)
    return builder(state).plan(decide(state.lane, Accept(run_id="run_1")), acceptance=acceptance).with_answer(None)


def test_a_run_that_starts_at_once_is_inserted_active_with_the_lane_of_its_new_session() -> None:
    plan = start()
    put, insert, message = plan.batch.writes
    assert put == w.PutSession(SESSION, plan.state.row)
    assert plan.state.row.next_seq == 2
    assert isinstance(insert, w.InsertRun)
    assert isinstance(message, w.PutMessage)
    assert insert.run == plan.state.runs["run_1"]
    assert (insert.run.state, insert.run.started_at) == ("active", AT)
    states = [event.run.state for event in plan.batch.events if isinstance(event, RunAccepted | RunStarted)]
    assert states == ["queued", "active"]


def test_the_usage_of_the_last_step_is_written_with_the_end_of_the_run() -> None:
    state = start().state
    ending = Ending(DONE, spent=Spent("m", Usage(input=3)))
    decision = decide(state.lane, End("run_1", DONE))
    plan = builder(state).plan(decision, endings={"run_1": ending})
    lane, added, end = plan.batch.writes
    assert lane == w.SetLane(plan.state.row)
    assert isinstance(added, w.AddUsage)
    assert (added.usage, added.runs, added.steps) == (Usage(input=3), 1, 1)
    assert isinstance(end, w.EndRun)
    assert (end.usage, end.steps) == (Usage(input=3), 1)
    (finished,) = (event.run for event in plan.batch.events if isinstance(event, RunFinished))
    assert plan.ended == (finished,)
    assert (finished.usage, finished.steps, finished.state) == (Usage(input=3), 1, "completed")
