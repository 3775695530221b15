"""Recovery after a crash: active runs end, queued runs continue, nothing is repeated (`W6`)."""

import asyncio
import logging
from pathlib import Path

import pytest

from holdfast.agent.protocol import Ending
from holdfast.agent.unfinished_messages import UNKNOWN
from holdfast.errors import Gone
from holdfast.schema.approvals import Approval
from holdfast.schema.events import ApprovalRequested, RunFinished
from holdfast.schema.messages import Finish, Text, ToolResult
from holdfast.schema.runs import Run
from holdfast.schema.sessions import Session
from holdfast.store import Batch, LaneRow, Store
from holdfast.store import writes as w
from tests.support.engine_harness import WORKSPACE, EngineHarness, crashed_harness, open_harness
from tests.support.scripted_turns import ScriptedTurns, TurnActions


async def write_crashed_state(path: Path, *writes: w.AnyWrite) -> None:
    """Write rows as a killed server would leave them."""
    async with open_harness(path, open_workspace=False) as harness:
        await harness.session()
        await harness.store.commit(Batch(writes))


def row(run_id: str, *, seq: int, state: str, **fields: object) -> w.InsertRun:
    run = Run(id=run_id, session_id="ses_1", seq=seq, rank=seq, prompt=run_id, state=state, **fields)  # type: ignore[arg-type]
    return w.InsertRun(run=run, body_hash="h", decision="started")


def lane(next_seq: int, **fields: object) -> w.SetLane:
    return w.SetLane(LaneRow("ses_1", next_seq=next_seq, **fields))  # type: ignore[arg-type]


async def ends(harness: EngineHarness) -> dict[str, list[tuple[str, str | None]]]:
    found: dict[str, list[tuple[str, str | None]]] = {}
    for event in await harness.events():
        if isinstance(event, RunFinished):
            found.setdefault(event.run.id, []).append((event.run.state, event.run.reason))
    return found


@pytest.mark.promise("W6", "R7", "R5")
async def test_an_active_run_is_interrupted_and_the_queue_continues(tmp_path: Path) -> None:
    path = tmp_path / "own.db"
    await write_crashed_state(
        path,
        row("one", seq=1, state="active"),
        row("two", seq=2, state="queued"),
        row("three", seq=3, state="queued"),
        lane(4),
    )
    async with open_harness(path) as harness:
        for run_id in ("two", "three"):
            assert (await harness.ended(run_id)).state == "completed"
        assert await ends(harness) == {
            "one": [("interrupted", "server_crash")],
            "two": [("completed", "end_turn")],
            "three": [("completed", "end_turn")],
        }
        assert harness.turns.started == ["two", "three"]


@pytest.mark.promise("C1", "W6")
async def test_a_stopping_run_ends_with_its_stop_reason(tmp_path: Path) -> None:
    path = tmp_path / "own.db"
    await write_crashed_state(path, row("one", seq=1, state="stopping", reason="user_cancel"), lane(2, mark=1))
    async with open_harness(path) as harness:
        run = await harness.engine.get_run("one")
        assert (run.state, run.reason) == ("cancelled", "user_cancel")
        assert harness.turns.started == []


@pytest.mark.promise("R6", "R7", "W6")
async def test_joined_runs_end_with_their_host_and_waiting_steers_are_queued(tmp_path: Path) -> None:
    path = tmp_path / "own.db"
    await write_crashed_state(
        path,
        row("host", seq=1, state="active"),
        row("joined", seq=2, state="joined", delivery="steer", host_run_id="host"),
        row("queued", seq=3, state="queued"),
        row("waiting", seq=4, state="waiting", delivery="steer", host_run_id="host"),
        lane(5),
    )
    async with open_harness(path) as harness:
        await harness.ended("queued")
        assert await ends(harness) == {
            "host": [("interrupted", "server_crash")],
            "joined": [("interrupted", "server_crash")],
            "waiting": [("completed", "end_turn")],
            "queued": [("completed", "end_turn")],
        }
        assert harness.turns.started == ["waiting", "queued"]
        assert (await harness.engine.get_run("joined")).host_run_id == "host"


@pytest.mark.promise("C5", "C6", "W6")
async def test_partial_text_is_kept_and_open_calls_are_answered_as_unknown(tmp_path: Path) -> None:
    path = tmp_path / "own.db"
    turns = ScriptedTurns()

    @turns.on("tools")
    async def tools(turn: TurnActions) -> Ending | None:
        await turn.say("let me see")
        await turn.call("bash", "view")
        await turn.gates.pass_through("in tools")
        return None

    async with crashed_harness(path, turns) as harness:
        accepted = await harness.accept("tools")
        await harness.gates.arrived("in tools")
    async with open_harness(path) as harness:
        run = await harness.engine.get_run(accepted.run.id)
        assert (run.state, run.reason, run.error) == ("interrupted", "server_crash", None)
        _, asked, results, closing = await harness.messages()
        assert asked.parts[0] == Text("let me see")
        statuses = [(part.status, part.text) for part in results.parts if isinstance(part, ToolResult)]
        assert statuses == [("unknown", UNKNOWN)] * 2
        assert closing.parts == (Finish("interrupted", "the server ended unexpectedly"),)
        assert harness.turns.started == []


@pytest.mark.promise("C8", "W6")
async def test_open_approvals_of_a_crashed_run_are_closed(tmp_path: Path) -> None:
    path = tmp_path / "own.db"
    approval = Approval("apr_1", WORKSPACE, "ses_1", "ses_1", "one", "call_1", "bash", "rm")
    await write_crashed_state(path, row("one", seq=1, state="active"), lane(2), w.OpenApproval(approval))
    async with open_harness(path) as harness:
        assert (await harness.store.open_approvals()).items == ()
        assert (await harness.store.approval("apr_1")).state == "cancelled"
        assert not isinstance((await harness.events())[-1], ApprovalRequested)


@pytest.mark.promise("W6", "R5")
async def test_nothing_starts_before_its_workspace_is_opened_but_ends_are_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "own.db"
    caplog.set_level(logging.INFO, logger="holdfast.runs")
    await write_crashed_state(path, row("one", seq=1, state="active"), row("two", seq=2, state="queued"), lane(3))
    async with open_harness(path, open_workspace=False) as harness:
        assert await harness.engine.unfinished_workspaces() == (WORKSPACE,)
        assert await harness.engine.recover() == 1
        assert await harness.engine.recover() == 0
        assert (await harness.engine.get_run("one")).state == "interrupted"
        assert (await harness.engine.get_run("two")).state == "queued"
        assert harness.turns.started == []
        assert harness.engine._state.mailboxes == {}
        await harness.engine.open_workspace(WORKSPACE)
        assert (await harness.ended("two")).state == "completed"
        assert await harness.engine.unfinished_workspaces() == ()
    assert "ended 1 runs that were active when the last server ended" in caplog.messages


async def test_opening_an_open_workspace_again_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "own.db"
    await write_crashed_state(path, row("one", seq=1, state="active"), row("two", seq=2, state="queued"), lane(3))
    async with open_harness(path, open_workspace=False) as harness:
        await asyncio.gather(*(harness.engine.open_workspace(WORKSPACE) for _ in range(5)))
        await harness.ended("two")
        before = harness.store.last_number
        await harness.engine.open_workspace(WORKSPACE)
        assert harness.store.last_number == before
        assert harness.turns.started == ["two"]


@pytest.mark.promise("W6", "C1")
async def test_recovery_comes_before_a_command_to_a_closed_workspace(tmp_path: Path) -> None:
    path = tmp_path / "own.db"
    await write_crashed_state(path, row("one", seq=1, state="active"), row("two", seq=2, state="queued"), lane(3))
    async with open_harness(path, open_workspace=False) as harness:
        receipt = await harness.engine.cancel_session("ses_1")
        assert [(line.run_id, line.ended_as) for line in receipt.runs] == [("two", "cancelled")]
        assert await ends(harness) == {"one": [("interrupted", "server_crash")], "two": [("cancelled", "user_cancel")]}
        await harness.engine.open_workspace(WORKSPACE)
        assert harness.turns.started == []


@pytest.mark.promise("E8", "W6")
async def test_a_deletion_that_a_crash_interrupted_is_completed(tmp_path: Path) -> None:
    path = tmp_path / "own.db"
    await write_crashed_state(
        path, row("one", seq=1, state="stopping", reason="session_deleted"), lane(2, mark=1, lifecycle="deleting")
    )
    async with open_harness(path) as harness:
        with pytest.raises(Gone):
            await harness.engine.get_run("one")
        with pytest.raises(Gone):
            await harness.store.session("ses_1")


@pytest.mark.promise("W6", "C3")
@pytest.mark.parametrize(
    ("parent_state", "child_end"),
    [("active", ("interrupted", "server_crash")), ("stopping", ("cancelled", "parent_ended"))],
)
async def test_sub_agents_end_before_their_parent(
    tmp_path: Path, parent_state: str, child_end: tuple[str, str]
) -> None:
    path = tmp_path / "own.db"
    reason = "user_cancel" if parent_state == "stopping" else None
    child = Run(id="child", session_id="ses_2", seq=1, rank=1, state="active", parent_run_id="one")
    grandchild = Run(id="grandchild", session_id="ses_3", seq=1, rank=1, state="active", parent_run_id="child")
    await write_crashed_state(
        path,
        row("one", seq=1, state=parent_state, reason=reason),
        lane(2),
        w.PutSession(Session(id="ses_2", workspace_id=WORKSPACE, parent_id="ses_1")),
        w.InsertRun(run=child, body_hash="", decision="started"),
        w.SetLane(LaneRow("ses_2", next_seq=2)),
        w.PutSession(Session(id="ses_3", workspace_id=WORKSPACE, parent_id="ses_2")),
        w.InsertRun(run=grandchild, body_hash="", decision="started"),
        w.SetLane(LaneRow("ses_3", next_seq=2)),
    )
    async with open_harness(path) as harness:
        found = await ends(harness)
        assert list(found) == ["grandchild", "child", "one"]
        assert found["grandchild"] == found["child"] == [child_end]
        assert harness.turns.started == []


@pytest.mark.promise("W6")
async def test_a_sub_agent_that_had_not_started_never_does(tmp_path: Path) -> None:
    path = tmp_path / "own.db"
    child = Run(id="child", session_id="ses_9", seq=1, rank=1, state="queued", parent_run_id="one")
    await write_crashed_state(
        path,
        row("one", seq=1, state="active"),
        lane(2),
        w.PutSession(Session(id="ses_9", workspace_id=WORKSPACE, parent_id="ses_1")),
        w.InsertRun(run=child, body_hash="", decision="started"),
        w.SetLane(LaneRow("ses_9", next_seq=2)),
    )
    async with open_harness(path) as harness:
        assert (await ends(harness))["child"] == [("cancelled", "parent_ended")]
        assert harness.turns.started == []


@pytest.mark.promise("W6")
async def test_a_long_run_is_recovered_without_reading_all_its_messages(tmp_path: Path) -> None:
    path = tmp_path / "own.db"
    turns = ScriptedTurns()

    @turns.on("long")
    async def long(turn: TurnActions) -> Ending | None:
        for _ in range(60):
            await turn.tool("look")
        await turn.say("and then")
        await turn.gates.pass_through("at the end")
        return None

    async with crashed_harness(path, turns) as harness:
        accepted = await harness.accept("long")
        await harness.gates.arrived("at the end")
    async with open_harness(path, open_workspace=False) as harness:
        reads = MessageReads(harness.store)
        harness.engine._state.store = reads  # type: ignore[assignment]
        await harness.engine.recover()
        assert reads.count == 1
        assert (await harness.engine.get_run(accepted.run.id)).text == "and then"
        assert (await harness.messages())[-1].parts == (
            Text("and then"),
            Finish("interrupted", "the server ended unexpectedly"),
        )


class MessageReads:
    """Count how often messages are read."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.count = 0

    def __getattr__(self, name: str) -> object:
        if name in ("messages", "open_run_parts"):
            self.count += 1
        return getattr(self._store, name)
