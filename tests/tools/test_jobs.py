"""Background jobs: each session reads new output, a kill is verified, closing leaves no process."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from holdfast.errors import StoreUnwritable, ToolError
from holdfast.schema.sessions import Job
from holdfast.tools.bash import BashArguments, BashTool
from holdfast.tools.jobs import JobKillArguments, JobKillTool, JobOutputArguments, JobOutputTool, JobTable
from holdfast.tools.process.command_process import CommandLauncher
from tests.support.stubborn_commands import STUBBORN_COMMANDS, still_there
from tests.support.tool_contexts import Gate, ToolWorkspace, settings_of

_SOON = settings_of(tools={"bash_background": "1ms"})


@pytest.fixture
def workspace(tmp_path: Path) -> ToolWorkspace:
    return ToolWorkspace(tmp_path)


@pytest_asyncio.fixture
async def bash(workspace: ToolWorkspace) -> AsyncIterator[BashTool]:
    tool = BashTool(CommandLauncher())
    yield tool
    await workspace.table.close()
    await tool.launcher.close()


async def start(bash: BashTool, workspace: ToolWorkspace, command: str, **more: Any) -> Job:
    """A command that is a job; `workspace` must keep it from ending."""
    context = workspace.context(settings=_SOON, **more)
    arguments = BashArguments(command)
    await bash.run(arguments, context, await bash.plan(arguments, context))
    return workspace.table.list()[-1]


async def test_each_session_reads_from_its_own_position(bash: BashTool, workspace: ToolWorkspace) -> None:
    first_gate, second_gate = Gate(workspace.directory, "first"), Gate(workspace.directory, "second")
    job = await start(bash, workspace, "read < first; echo one; read < second; echo two")
    first, second = workspace.table.for_session("ses_a"), workspace.table.for_session("ses_b")
    await first_gate.open()
    await workspace.wait_for_output("one")
    assert (await first.read(job.id))[1] == "one\n"
    assert (await first.read(job.id))[1] == ""
    await second_gate.open()
    await workspace.wait_for_output("two")
    assert (await first.read(job.id, wait=30))[1] == "two\n"
    assert (await second.read(job.id))[1] == "one\ntwo\n"


async def test_a_wait_ends_with_the_job(bash: BashTool, workspace: ToolWorkspace) -> None:
    gate = Gate(workspace.directory)
    job = await start(bash, workspace, "read < gate; exit 5")
    reading = asyncio.create_task(workspace.table.read(job.id, session_id="ses_1", wait=500))
    await asyncio.wait((reading,), timeout=0)
    await gate.open()
    ended, _ = await reading
    assert (ended.state, ended.exit_code) == ("exited", 5)
    assert ended.finished_at


async def test_a_wait_ends_after_its_time(bash: BashTool, workspace: ToolWorkspace) -> None:
    job = await start(bash, workspace, "sleep 1000")
    still, text = await workspace.table.read(job.id, session_id="ses_1", wait=0.001)
    assert (still.state, text) == ("running", "")


async def test_long_output_is_shortened_in_the_middle(bash: BashTool, workspace: ToolWorkspace) -> None:
    gate = Gate(workspace.directory)
    job = await start(bash, workspace, "read < gate; seq 200000")
    await gate.open()
    _, text = await workspace.table.read(job.id, session_id="ses_1", wait=30)
    assert text.startswith("1\n2\n")
    assert text.endswith("\n200000\n")
    assert f" bytes); the whole output is in {job.output_path}; view it with offset " in text
    assert len(text) < 31_000


@pytest.mark.promise("C7")
@pytest.mark.parametrize("name", ["ignores_signals", "daemon", "fifty"])
async def test_a_killed_job_is_dead_when_the_kill_returns(bash: BashTool, workspace: ToolWorkspace, name: str) -> None:
    job = await start(bash, workspace, STUBBORN_COMMANDS[name].script)
    await workspace.wait_for_output("ready", times=STUBBORN_COMMANDS[name].ready)
    killed = await workspace.table.kill(job.id)
    assert killed.state == "killed"
    assert killed.left_running == ()
    assert await still_there([], job.call_id) == []
    assert workspace.changes[-1] == killed


async def test_killing_twice_changes_nothing(bash: BashTool, workspace: ToolWorkspace) -> None:
    job = await start(bash, workspace, "sleep 1000")
    assert await workspace.table.kill(job.id) == await workspace.table.kill(job.id)
    assert [change.state for change in workspace.changes] == ["running", "killed"]


@pytest.mark.promise("W3")
async def test_closing_a_table_kills_only_its_own_jobs(
    bash: BashTool, workspace: ToolWorkspace, tmp_path: Path
) -> None:
    jobs = [
        await start(bash, workspace, STUBBORN_COMMANDS[name].script)
        for name in ("ignores_signals", "own_session", "plain")
    ]
    other = ToolWorkspace(tmp_path / "other")
    survivor = await start(bash, other, "echo ready $$; exec sleep 1000")
    await other.wait_for_output("ready")
    assert await workspace.table.close() == ()
    for job in jobs:
        assert await still_there([], job.call_id) == []
    assert workspace.table.running == ()
    assert [job.id for job in other.table.running] == [survivor.id]
    await other.table.close()


async def test_a_closed_table_accepts_no_job(bash: BashTool, workspace: ToolWorkspace) -> None:
    await workspace.table.close()
    context = workspace.context(settings=_SOON)
    with pytest.raises(ToolError, match="closing"):
        await bash.run(BashArguments("sleep 1000"), context, await bash.plan(BashArguments("sleep 1000"), context))
    assert await still_there([], context.call_id) == []


async def test_an_end_that_cannot_be_recorded_is_logged(
    bash: BashTool, workspace: ToolWorkspace, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse_ends(job: Job) -> None:
        if job.state != "running":
            raise StoreUnwritable("disk full")

    workspace.table = JobTable(on_change=refuse_ends, now=lambda: "")
    job = await start(bash, workspace, "sleep 1000")
    assert (await workspace.table.kill(job.id)).state == "killed"
    assert f"cannot record the end of job {job.id}: disk full" in caplog.text


async def test_the_tools_report_the_state_of_the_job(bash: BashTool, workspace: ToolWorkspace) -> None:
    job = await start(bash, workspace, "sleep 1000")
    context = workspace.context()
    arguments = JobOutputArguments(job.id)
    read = await JobOutputTool().run(arguments, context, await JobOutputTool().plan(arguments, context))
    assert read.text == f"(no new output)\n[{job.id}: running since {job.started_at}]"
    ending = JobKillArguments(job.id)
    killed = await JobKillTool().run(ending, context, await JobKillTool().plan(ending, context))
    assert killed.text == f"[{job.id}: killed, exit code -2]"
    assert killed.killed == ("sleep 1000",)


async def test_an_unknown_job_raises_an_error_with_the_known_jobs(bash: BashTool, workspace: ToolWorkspace) -> None:
    job = await start(bash, workspace, "sleep 1000")
    with pytest.raises(ToolError, match=rf"job 'job_x' does not exist; jobs of this workspace: {job.id}"):
        await workspace.table.kill("job_x")


def test_processes_that_survive_a_kill_are_named() -> None:
    from holdfast.tools.jobs import _describe_state

    job = Job("job_1", "wsp_1", "ses_1", "run_1", "x", state="killed", left_running=("12 stuck",))
    assert _describe_state(job) == "[job_1: killed, but these processes survived: 12 stuck]"
    assert "lost" in _describe_state(msgspec.structs.replace(job, state="lost", left_running=()))
