"""A cancel at every point where a run waits for an MCP server. Nothing is left running, and the session goes on.

The servers have a child in a session of its own that ignores SIGTERM.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.models.model_script import ScriptedCall
from holdfast.schema.events import QuestionAsked, QuestionResolved
from tests.support.app_harness import AppHarness, open_app_harness, saying
from tests.support.mcp_peers import eventually, marked, plain_command, toml_of

SAY = ScriptedCall("peer__say", {"text": "x"})
RULES = '[approvals]\nallow = ["mcp"]\n'


def has_task(name: str) -> Callable[[], bool]:
    return lambda: any(task.get_name() == name for task in asyncio.all_tasks())


def received(tmp_path: Path, method: str) -> Callable[[], bool]:
    record = tmp_path / "record"
    return lambda: record.exists() and method in record.read_text()


@pytest.mark.promise("C7", "C8", "W3")
@pytest.mark.parametrize(
    ("behaviour", "prompt", "interactive"),
    [
        ("never", "go", False),
        ("hang:initialize", "go", False),
        ("hang:tools/list", "go", False),
        ("hang:tools/call", "go", False),
        ("wait", "go", False),
        ("ask", "go", True),
        ("hang:resources/read", "see @peer:note://a", True),
        ("hang:prompts/get", "/peer:explain it", True),
    ],
)
async def test_a_cancel_reaches_what_waits_for_a_server(
    tmp_path: Path, behaviour: str, prompt: str, interactive: bool
) -> None:
    mark = f"MCP_MARK={tmp_path}"
    env = f'env = {{ MCP_MARK = "{tmp_path}", MCP_RECORD = "{tmp_path / "record"}" }}'
    config = toml_of("peer", plain_command(behaviour, "child"), env) + RULES
    async with open_app_harness(tmp_path, saying(SAY, "done"), config=config) as harness:
        if interactive:
            await harness.app.services.extensions.list_statuses(harness.workspace_id, wait=30)
        started = await harness.start(prompt, interactive=interactive)
        await at_its_point(harness, tmp_path, behaviour)
        receipt = await harness.app.engine.cancel_run(started.run.id)
        run = await harness.ended(started)
        assert (run.state, run.reason) == ("cancelled", "user_cancel")
        assert [one.left_running for one in receipt.runs] == [()]
        assert not any(task.get_name().startswith("mcp:peer:") and task.get_name() in CALLS for task in all_tasks())
        if behaviour == "ask":
            closed: QuestionResolved = await harness.until(QuestionResolved)
            assert closed.question.state == "cancelled"
        assert (await harness.run("again", session_id=run.session_id, mode="plan")).state == "completed"
    assert await marked(mark) == []


CALLS = frozenset({"mcp:peer:say", "mcp:peer:prompt", "mcp:peer:resource"})


def all_tasks() -> set[asyncio.Task[object]]:
    return {task for task in asyncio.all_tasks() if not task.done()}


async def at_its_point(harness: AppHarness, tmp_path: Path, behaviour: str) -> None:
    if behaviour == "ask":
        await harness.until(QuestionAsked)
    elif behaviour == "never":
        async with asyncio.timeout(30):
            while len(await marked(f"MCP_MARK={tmp_path}")) < 2:  # noqa: ASYNC110 - there is no event to wait for
                await asyncio.sleep(0.01)
    else:
        method = behaviour.removeprefix("hang:") if ":" in behaviour else "tools/call"
        await eventually(received(tmp_path, f'"{method}"'))


async def test_closing_while_a_server_is_being_connected_again_leaves_nothing(tmp_path: Path) -> None:
    env = f'env = {{ MCP_MARK = "{tmp_path}" }}'
    config = toml_of("peer", plain_command("exit", "child"), env) + RULES
    async with open_app_harness(tmp_path, saying(SAY, "done"), config=config) as harness:
        run = await harness.run("go", interactive=False)
        assert run.state == "completed"
        server = (await harness.app.open_workspaces.live(harness.workspace_id)).mcp.server("peer")
        await eventually(lambda: "connected again" in server.status.detail)
    assert await marked(f"MCP_MARK={tmp_path}") == []
