"""`bash`: output, endings, jobs and cancelling, with real commands."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from msgspec.structs import replace

from holdfast.config import Redactor, Secret
from holdfast.config.redaction import MARK
from holdfast.errors import StoreUnwritable, ToolError
from holdfast.schema.sessions import Job
from holdfast.tools.bash import BashArguments, BashTool
from holdfast.tools.process.command_process import CommandLauncher
from holdfast.tools.protocol import ToolContext, ToolOutput
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


async def call(tool: BashTool, context: ToolContext, command: str, **arguments: Any) -> ToolOutput:
    struct = msgspec.convert({"command": command, **arguments}, BashArguments)
    return await tool.run(struct, context, await tool.plan(struct, context))


MASKED = (
    f"cat > .env <<EOF\nKEY={MARK}\nEOF",
    f"echo 'KEY={MARK}' >> .env",
    f"printf {MARK} | tee .env",
    f"sed -i 's/x/{MARK}/' .env",
    f"echo {MARK} 1>.env",
)


@pytest.mark.parametrize("command", MASKED)
async def test_a_command_that_writes_a_mask_is_refused(bash: BashTool, workspace: ToolWorkspace, command: str) -> None:
    with pytest.raises(ToolError, match="stands for a secret"):
        await bash.plan(BashArguments(command), workspace.context())


@pytest.mark.parametrize("command", [f"grep -rn '{MARK}' . 2>/dev/null", f"echo {MARK} 2>&1", f"git log --grep {MARK}"])
async def test_a_command_may_search_for_a_mask(bash: BashTool, workspace: ToolWorkspace, command: str) -> None:
    assert (await bash.plan(BashArguments(command), workspace.context())).subject.command == command


async def test_the_result_has_output_and_exit_code(bash: BashTool, workspace: ToolWorkspace) -> None:
    output = await call(bash, workspace.context(), "echo out; echo err >&2; exit 3")
    assert output.text.startswith("out\nerr\n[exit code 3, ")
    assert output.status == "error"
    assert output.display["exit_code"] == 3


async def test_a_command_without_output_says_so(bash: BashTool, workspace: ToolWorkspace) -> None:
    output = await call(bash, workspace.context(), "true")
    assert output.text.startswith("(no output)\n[exit code 0, ")
    assert output.status == "ok"


async def test_output_is_emitted_while_the_command_runs(bash: BashTool, workspace: ToolWorkspace) -> None:
    gate = Gate(workspace.directory)
    running = asyncio.create_task(call(bash, workspace.context(), "echo first; read < gate; echo second"))
    await workspace.wait_for_output("first\n")
    assert not running.done()
    await gate.open()
    assert (await running).text.startswith("first\nsecond\n")
    assert "".join(workspace.live) == "first\nsecond\n"


async def test_a_command_runs_in_the_workspace_without_keys_pagers_and_prompts(
    bash: BashTool, workspace: ToolWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "HOLDFAST_TOKEN", "LOCAL_KEY"):
        monkeypatch.setenv(name, "secret-value")
    settings = settings_of(
        providers={"local": {"wire": "openai-chat", "base_url": "http://127.0.0.1:1", "api_key": "env:LOCAL_KEY"}}
    )
    output = await call(bash, workspace.context(settings=settings), "pwd; env; test -t 0 || echo no terminal; cat")
    assert output.text.startswith(f"{workspace.directory}\n")
    assert "secret-value" not in output.text
    assert "no terminal\n[exit code 0" in output.text
    for line in ("PAGER=cat", "GIT_PAGER=cat", "GIT_TERMINAL_PROMPT=0", "HOLDFAST=1"):
        assert f"\n{line}\n" in output.text


async def test_long_output_is_shortened_and_stored_whole_in_a_file(bash: BashTool, workspace: ToolWorkspace) -> None:
    context = workspace.context()
    output = await call(bash, context, "seq 100000")
    path = workspace.outputs / f"{context.call_id}.txt"
    whole = "".join(f"{number}\n" for number in range(1, 100_001))
    assert path.read_text() == whole
    assert output.text.startswith("1\n2\n3\n")
    assert "\n99999\n100000\n[exit code 0" in output.text
    assert f"the whole output is in {path}" in output.text
    assert len(output.text) < 30_300
    head, _, rest = output.text.partition("\n[… ")
    cut = int(rest.partition(" characters")[0].rpartition("(")[2].replace(",", ""))
    tail = rest.partition("…]\n")[2].partition("\n[exit code")[0] + "\n"
    assert len(head) + 1 + cut + len(tail) == len(whole)


async def test_short_output_makes_no_file(bash: BashTool, workspace: ToolWorkspace) -> None:
    await call(bash, workspace.context(), "echo short")
    assert not workspace.outputs.exists()


async def test_a_secret_is_redacted_in_live_output_answer_and_file(bash: BashTool, workspace: ToolWorkspace) -> None:
    secret = "sk-0123456789abcdef"
    gate = Gate(workspace.directory)
    redactor = Redactor([Secret(secret)])
    command = (
        f"echo one; printf 'key={secret[:9]}'; read < gate; printf '{secret[9:]} end\\n'; seq 20000; echo {secret}"
    )
    context = workspace.context(redact=redactor.redact, redact_stream=redactor.stream)
    running = asyncio.create_task(call(bash, context, command))
    await workspace.wait_for_output("one")
    await gate.open()
    output = await running
    stored = (workspace.outputs / f"{context.call_id}.txt").read_text()
    for text in ("".join(workspace.live), output.text, stored):
        assert secret[:9] not in text
        assert "key=[redacted] end\n" in text


async def test_invalid_bytes_and_split_characters_are_decoded(bash: BashTool, workspace: ToolWorkspace) -> None:
    gate = Gate(workspace.directory)
    command = "printf 'a\\xff b '; printf '\\xe2\\x82'; read < gate; printf '\\xac \\n'"
    running = asyncio.create_task(call(bash, workspace.context(), command))
    await workspace.wait_for_output("b")
    await gate.open()
    assert (await running).text.startswith("a\ufffd b €")


async def test_the_time_out_kills_the_command(bash: BashTool, workspace: ToolWorkspace) -> None:
    context = workspace.context()
    output = await call(bash, context, "echo begun; sleep 1000", timeout=0.05)
    assert "[killed after the time-out of 0.05 s" in output.text
    assert output.status == "error"
    assert any("sleep 1000" in name for name in output.killed)
    assert await still_there([], context.call_id) == []


@pytest.mark.promise("C7")
@pytest.mark.parametrize("animal", ["plain", "ignores_signals", "clears_its_environment", "fifty"])
async def test_cancelling_a_call_kills_its_tree_and_returns_what_was_killed(
    bash: BashTool, workspace: ToolWorkspace, animal: str
) -> None:
    context = workspace.context()
    running = asyncio.create_task(call(bash, context, STUBBORN_COMMANDS[animal].script))
    await workspace.wait_for_output("ready", times=STUBBORN_COMMANDS[animal].ready)
    running.cancel()
    output = await running
    assert output.status == "cancelled"
    assert "ready " in output.text
    assert output.killed
    assert output.left_running == ()
    assert await still_there([], context.call_id) == []


class UnwritableWatch:
    async def begin(self) -> None:
        pass

    async def end(self) -> tuple[str, ...]:
        raise StoreUnwritable("the disk is full")


@pytest.mark.promise("C3")
async def test_a_cancelled_call_names_what_was_killed_if_its_changes_cannot_be_recorded(
    bash: BashTool, workspace: ToolWorkspace
) -> None:
    context = replace(workspace.context(), command_watch=UnwritableWatch())
    running = asyncio.create_task(call(bash, context, STUBBORN_COMMANDS["plain"].script))
    await workspace.wait_for_output("ready")
    running.cancel()
    output = await running
    assert output.status == "cancelled"
    assert any("sleep" in name for name in output.killed)


async def test_a_call_whose_changes_cannot_be_recorded_fails_because_of_the_store(
    bash: BashTool, workspace: ToolWorkspace
) -> None:
    with pytest.raises(StoreUnwritable):
        await call(bash, replace(workspace.context(), command_watch=UnwritableWatch()), "echo x > file")


@pytest.mark.promise("C7")
async def test_a_call_cancelled_before_its_command_started_leaves_nothing(
    bash: BashTool, workspace: ToolWorkspace
) -> None:
    context = workspace.context()
    running = asyncio.create_task(call(bash, context, "sleep 1000"))
    await asyncio.wait((running,), timeout=0)
    running.cancel()
    output = await running
    assert output.status == "cancelled"
    assert await still_there([], context.call_id) == []


async def test_a_second_cancel_does_not_interrupt_the_kill(bash: BashTool, workspace: ToolWorkspace) -> None:
    context = workspace.context()
    running = asyncio.create_task(call(bash, context, STUBBORN_COMMANDS["ignores_signals"].script))
    await workspace.wait_for_output("ready")
    running.cancel()
    await asyncio.wait((running,), timeout=0)
    running.cancel()
    assert (await running).status == "cancelled"
    assert await still_there([], context.call_id) == []


async def test_a_slow_command_becomes_a_job_whose_output_can_be_read(bash: BashTool, workspace: ToolWorkspace) -> None:
    gate = Gate(workspace.directory)
    context = workspace.context(settings=_SOON)
    output = await call(bash, context, "echo first; read < gate; echo second; exit 4")
    [job] = workspace.table.running
    assert f"in the background as job {job.id}" in output.text
    assert output.left_running == (f"{job.id} {job.command}",)
    assert (job.run_id, job.call_id, job.session_id) == ("run_1", context.call_id, "ses_1")
    assert workspace.changes == [job]
    await gate.open()
    job, text = await context.jobs.read(job.id, wait=30)
    assert (job.state, job.exit_code) == ("exited", 4)
    assert output.text.count("first") + text.count("first") == 1
    assert text.endswith("second\n")
    assert Path(job.output_path).read_text() == "first\nsecond\n"
    assert workspace.changes[-1] == job


async def test_a_background_command_becomes_a_job(bash: BashTool, workspace: ToolWorkspace) -> None:
    output = await call(bash, workspace.context(), "sleep 1000", background=True)
    [job] = workspace.table.running
    assert output.display["job_id"] == job.id


async def test_a_background_command_that_fails_at_once_is_reported(bash: BashTool, workspace: ToolWorkspace) -> None:
    output = await call(bash, workspace.context(), "no-such-program", background=True)
    assert "[exit code 127" in output.text
    assert workspace.table.list() == ()


async def test_processes_left_by_an_exited_command_become_a_job(bash: BashTool, workspace: ToolWorkspace) -> None:
    context = workspace.context()
    output = await call(bash, context, "(sleep 1000) & echo started")
    [job] = workspace.table.running
    assert "exit code 0, but these processes still run as job " in output.text
    assert "sleep 1000" in output.text
    killed = await context.jobs.kill(job.id)
    assert (killed.state, killed.left_running) == ("killed", ())
    assert await still_there([], context.call_id) == []


async def test_the_time_out_also_kills_a_job(bash: BashTool, workspace: ToolWorkspace) -> None:
    context = workspace.context(settings=_SOON)
    await call(bash, context, "sleep 1000", timeout=0.2)
    [job] = workspace.table.list()
    job, _ = await context.jobs.read(job.id, wait=30)
    assert job.state == "killed"
    assert await still_there([], context.call_id) == []


async def test_a_job_that_cannot_be_recorded_is_killed(bash: BashTool, tmp_path: Path) -> None:
    class Refusing(ToolWorkspace):
        async def _changed(self, job: Job) -> None:
            raise StoreUnwritable("disk full")

    context = Refusing(tmp_path / "other").context(settings=_SOON)
    with pytest.raises(StoreUnwritable):
        await call(bash, context, "sleep 1000")
    assert await still_there([], context.call_id) == []


async def test_a_command_with_huge_output_does_not_block_others(bash: BashTool, workspace: ToolWorkspace) -> None:
    context = workspace.context()
    flood = asyncio.create_task(call(bash, context, "yes holdfast"))
    await workspace.wait_for_output("too much output to show live")
    other = await call(bash, workspace.context(), "echo here")
    assert other.text.startswith("here\n")
    flood.cancel()
    output = await flood
    assert len(output.text) < 31_000
    assert sum(map(len, workspace.live)) < 500_000


async def test_a_command_too_long_for_the_kernel_raises_an_error(bash: BashTool, workspace: ToolWorkspace) -> None:
    with pytest.raises(ToolError, match="write it to a file"):
        await call(bash, workspace.context(), "x" * 200_000)


async def test_the_subject_of_a_call_is_its_exact_command(bash: BashTool, workspace: ToolWorkspace) -> None:
    plan = await bash.plan(BashArguments("git  push --force"), workspace.context())
    assert plan.subject.command == plan.subject.title == "git  push --force"
    assert (plan.subject.tool, plan.subject.effect, plan.subject.cwd) == ("bash", "runs", str(workspace.directory))


@pytest.mark.parametrize("mode", ["workspace-write", "read-only"])
async def test_a_sandboxed_command_cannot_write_outside(bash: BashTool, workspace: ToolWorkspace, mode: str) -> None:
    outside = workspace.directory.parent / "outside"
    context = workspace.context(settings=settings_of(server={"sandbox": mode}))
    output = await call(bash, context, f"echo x > {outside}; echo x > inside; mktemp && cat <<< here")
    assert not outside.exists()
    assert (workspace.directory / "inside").exists() == (mode == "workspace-write")
    assert "here\n[exit code 0" in output.text


async def test_a_command_that_only_reads_gets_an_environment_in_which_git_runs_nothing(
    bash: BashTool, workspace: ToolWorkspace
) -> None:
    environment = {**os.environ, "BASH_ENV": "./x", "CDPATH": "/", "GIT_DIR": "/x"}
    context = replace(workspace.context(), environment=environment)
    arguments = BashArguments("echo ${BASH_ENV-no} ${CDPATH-no} ${GIT_DIR-no} ${GIT_OPTIONAL_LOCKS-no} $PWD")
    plan = await bash.plan(arguments, context)
    assert plan.subject.search_path == os.environ["PATH"]
    output = await bash.run(arguments, context, replace(plan, read_only=True))
    assert output.text.splitlines()[0] == f"no no no 0 {context.workspace}"
    output = await bash.run(arguments, context, plan)
    assert output.text.splitlines()[0] == f"./x / /x no {context.workspace}"
