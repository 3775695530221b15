"""MCP servers that ask a model during a call: refused, allowed, denied, limited, cancelled."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.schema.events import ApprovalRequested
from holdfast.schema.messages import ToolResult
from holdfast.testing import Answer, Call, Hang, Say, calls, text
from tests.support.app_harness import AppHarness
from tests.support.mcp_peers import eventually, plain_command, toml_of
from tests.support.provider_harness import bodies, open_provider_harness

MODEL = "test/other-test"
ASK = calls(Call("peer__say", {"text": "the moon"}))
ALLOWED = 'sampling = true\nsampling_model = "test/other-test-mini"\nsampling_tokens = 70\n'
RULE = '[approvals]\nallow = ["mcp: peer__say"]\n'


def config(extra: str = "", rule: str = RULE, samples: int = 1, record: Path | None = None) -> str:
    env = {"MCP_SAMPLES": str(samples), **({"MCP_RECORD": str(record)} if record else {})}
    written = ", ".join(f"{name} = {json.dumps(value)}" for name, value in env.items())
    return toml_of("peer", plain_command("sample"), f"env = {{ {written} }}\n{extra}") + rule


async def start_servers(harness: AppHarness) -> None:
    await harness.app.services.extensions.list_statuses(harness.workspace_id, wait=30)


async def result_of(harness: AppHarness, session_id: str) -> ToolResult:
    parts = [part for message in await harness.messages(session_id) for part in message.parts]
    (result,) = [part for part in parts if isinstance(part, ToolResult)]
    return result


def log_of(harness: AppHarness) -> str:
    workspace = harness.app.open_workspaces.live_now(harness.workspace_id)
    assert workspace is not None
    return "\n".join(workspace.mcp.server("peer").log.lines)


async def test_sampling_is_refused_unless_it_is_configured(tmp_path: Path) -> None:
    record = tmp_path / "record"
    async with open_provider_harness(tmp_path, ASK, config=config(record=record)) as (harness, provider):
        run = await harness.run("go", model=MODEL, interactive=False)
        result = await result_of(harness, run.session_id)
        why = "sampling is not allowed for this server; the user can allow it with mcp.peer.sampling"
        assert result.text == f"said refused: {why}"
        assert f"was refused: {why}" in log_of(harness)
        assert len(bodies(provider)) == 2
        first = json.loads(record.read_text().splitlines()[0])
        assert "sampling" not in first["params"]["capabilities"]


async def test_an_allowed_request_is_approved_answered_limited_and_counted(tmp_path: Path) -> None:
    answers = (ASK, text("cheese STOP never said"), text("done"))
    async with open_provider_harness(tmp_path, *answers, config=config(ALLOWED)) as (harness, provider):
        await start_servers(harness)
        started = await harness.start("go", model=MODEL)
        asked: ApprovalRequested = await harness.until(ApprovalRequested)
        approval = asked.approval
        assert (approval.tool, approval.title) == (
            "peer__sampling",
            "let the MCP server peer ask a model: What about the moon?",
        )
        assert approval.display["prompt"] == "What about the moon?"
        assert len(bodies(provider)) == 1, "nothing is sent before the approval"
        await harness.app.services.approvals.answer(approval.id, "once", client="test")
        run = await harness.ended(started)
        assert (await result_of(harness, run.session_id)).text == "said cheese "
        _, sampled, last = bodies(provider)
        assert sampled["model"] == "other-test-mini"
        assert sampled.get("max_tokens", sampled.get("max_completion_tokens")) == 70
        assert "tools" not in sampled
        assert [message["content"] for message in sampled["messages"]] == ["What about the moon?"]
        stats = await harness.app.store.usage_stats(since="2000-01-01", until="2100-01-01")
        assert {row.model for row in stats} >= {"test/other-test-mini", MODEL}
        assert run.steps == 2
        assert "got an answer of the model test/other-test-mini" in log_of(harness)
        assert last


async def test_a_request_that_the_person_denies_is_an_error_for_the_server(tmp_path: Path) -> None:
    async with open_provider_harness(tmp_path, ASK, config=config(ALLOWED)) as (harness, provider):
        await start_servers(harness)
        started = await harness.start("go", model=MODEL)
        asked: ApprovalRequested = await harness.until(ApprovalRequested)
        await harness.app.services.approvals.answer(asked.approval.id, "deny", client="test")
        run = await harness.ended(started)
        assert (await result_of(harness, run.session_id)).text.startswith("said refused: the request was denied")
        assert len(bodies(provider)) == 2


async def test_a_rule_allows_requests_up_to_their_number(tmp_path: Path) -> None:
    rule = '[approvals]\nallow = ["mcp"]\n'
    settings = config(f"{ALLOWED}sampling_requests = 2\n", rule, samples=3)
    async with open_provider_harness(tmp_path, ASK, text("one"), text("two"), config=settings) as (harness, _):
        run = await harness.run("go", model=MODEL, interactive=False)
        result = await result_of(harness, run.session_id)
        assert result.text == "said one; two; refused: only 2 sampling requests are allowed in one run"


@pytest.mark.promise("C8")
@pytest.mark.parametrize("at", ["approval", "model"])
async def test_a_cancel_ends_the_request_to_the_model(tmp_path: Path, at: str) -> None:
    rule = '[approvals]\nallow = ["mcp"]\n' if at == "model" else RULE
    record = tmp_path / "record"
    hanging = Answer(pieces=(Say("never"), Hang()))
    settings = config(ALLOWED, rule, record=record)
    async with open_provider_harness(tmp_path, ASK, hanging, config=settings) as (harness, provider):
        await start_servers(harness)
        started = await harness.start("go", model=MODEL)
        if at == "model":
            await eventually(lambda: len(bodies(provider)) == 2)
        else:
            await harness.until(ApprovalRequested)
        await harness.app.engine.cancel_run(started.run.id)
        run = await harness.ended(started)
        assert (run.state, run.reason) == ("cancelled", "user_cancel")
        await eventually(lambda: not any(task.get_name() == "mcp:answer" for task in asyncio.all_tasks()))
        await eventually(lambda: "the call has ended" in log_of(harness))

        def refused() -> list[dict[str, Any]]:
            return [one for one in map(json.loads, record.read_text().splitlines()) if "error" in one]

        await eventually(lambda: len(refused()) == 1)
        server = (await harness.app.open_workspaces.live(harness.workspace_id)).mcp.server("peer")
        assert server.is_ready
