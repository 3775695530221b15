"""Runs end with the truth: denials, limits that cannot be kept, files that cannot be read, approvals nobody answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import BadRequest
from holdfast.models.model_script import ScriptedCall
from holdfast.schema.events import ApprovalRequested, ApprovalResolved
from holdfast.schema.messages import File, ToolResult
from holdfast.schema.runs import Limits
from tests.support.app_harness import AppHarness, open_app_harness, saying

TOUCH = (ScriptedCall("bash", {"command": "touch made"}),)
LIST = (ScriptedCall("ls", {}),)


async def results(harness: AppHarness, session_id: str) -> list[ToolResult]:
    messages = await harness.messages(session_id)
    return [part for message in messages for part in message.parts if isinstance(part, ToolResult)]


@pytest.mark.promise("R12")
async def test_a_call_that_nobody_could_be_asked_about_counts_as_denied_even_if_the_run_went_on(
    tmp_path: Path,
) -> None:
    async with open_app_harness(tmp_path, saying(TOUCH, LIST, "I looked instead.")) as harness:
        run = await harness.run("go", interactive=False)
        assert (run.state, run.reason, run.text, run.steps) == ("failed", "denied", "I looked instead.", 3)
        assert run.error is not None
        assert run.error.code == "denied"
        assert run.error.message == (
            "a call was denied: this needs approval, and this run cannot ask for it: touch made; allow it"
            " with a rule or another mode"
        )


async def test_a_denied_call_of_a_sub_agent_counts_for_its_parent(tmp_path: Path) -> None:
    agent = (ScriptedCall("agent", {"title": "t", "prompt": "touch it", "agent": "general"}),)
    script = saying(agent, "the parent's answer")
    child = saying(TOUCH, "the sub-agent's answer")
    rules = tuple(
        type(rule)(do=rule.do, when=type(rule.when)(step=rule.when.step, prompt="touch it")) for rule in child.rules[1:]
    )
    script = type(script)(rules=(script.rules[0], *rules, *script.rules[1:]))
    async with open_app_harness(tmp_path, script) as harness:
        run = await harness.run("go", interactive=False)
        assert (run.state, run.reason, run.text) == ("failed", "denied", "the parent's answer")
        assert run.error is not None
        assert run.error.message.startswith("a call was denied: a sub-agent: a call was denied: this needs approval")


async def test_a_deny_rule_is_named_and_does_not_count_if_the_run_went_on(tmp_path: Path) -> None:
    config = '[approvals]\ndeny = ["bash: touch *"]\n'
    async with open_app_harness(tmp_path, saying(TOUCH, "I may not."), config=config) as harness:
        run = await harness.run("go", interactive=False, mode="auto")
        assert (run.state, run.reason) == ("failed", "denied")
        assert run.error is not None
        assert run.error.code == "denied_by_rule"
        assert run.error.message == "a call was denied by a rule: 'touch made' is denied by the rule 'bash: touch *'"
        (result,) = await results(harness, run.session_id)
        assert "is denied by the rule 'bash: touch *'" in result.text
    async with open_app_harness(tmp_path, saying(TOUCH, LIST, "Another way.")) as harness:
        assert (await harness.run("go", interactive=False, mode="auto")).state == "completed"


async def test_a_denial_by_plan_mode_is_no_failure(tmp_path: Path) -> None:
    async with open_app_harness(tmp_path, saying(TOUCH, "Here is the plan.")) as harness:
        run = await harness.run("go", interactive=False, mode="plan")
        assert (run.state, run.text) == ("completed", "Here is the plan.")
        assert [result.status for result in await results(harness, run.session_id)] == ["denied"]


MODEL = """
[providers.local]
wire = "openai-chat"
base_url = "https://models.example/v1"
api_key = "sk-test-0123456789"
[providers.local.models.blind]
[providers.local.models.seeing]
images = true
price = { input = 1.0, output = 1.0 }
"""


@pytest.mark.parametrize(
    ("model", "fields", "message"),
    [
        (
            "local/blind",
            {"limits": Limits(max_cost=0.5)},
            "the price of 'local/blind' is not known, so the limit of 0.5 US dollars cannot be kept;"
            " set providers.local.models.blind.price, or leave out the limit",
        ),
        (
            "local/blind",
            {"attachments": (File("a.png", "image/png", data="aGk="),)},
            "'local/blind' cannot read images, so 'a.png' cannot be attached; choose another model, or set"
            " providers.local.models.blind.images to true if it can",
        ),
        (
            "local/seeing",
            {"attachments": (File("a.zip", "application/zip", data="aGk="),)},
            "'a.zip' (application/zip) is neither text nor an image, so no model can read it; put it into the"
            " directory, where tools can read it",
        ),
    ],
)
async def test_what_cannot_be_kept_or_read_is_refused(
    tmp_path: Path, model: str, fields: dict[str, Any], message: str
) -> None:
    async with open_app_harness(tmp_path, config=MODEL) as harness:
        with pytest.raises(BadRequest) as refused:
            await harness.start("go", model=model, **fields)
        assert refused.value.message == message


async def test_a_limit_and_an_image_that_fit_the_model_are_accepted(tmp_path: Path) -> None:
    async with open_app_harness(tmp_path, config=MODEL) as harness:
        image = File("a.png", "image/png", data="aGk=")
        accepted = await harness.start(
            "go", model="local/seeing", limits=Limits(max_cost=0.5), attachments=(image, File("b", "text/plain", "x"))
        )
        await harness.app.engine.cancel_session(accepted.run.session_id)


@pytest.mark.promise("W4")
async def test_an_approval_in_auto_does_not_wait_for_ever(tmp_path: Path) -> None:
    config = '[approvals]\nauto_deadline = "50ms"\n'
    write = (ScriptedCall("write", {"path": str(tmp_path / "outside.txt"), "content": "x"}),)
    async with open_app_harness(tmp_path, saying(write, "I could not."), config=config) as harness:
        run = await harness.run("go", mode="auto")
        assert (run.state, run.reason, run.text) == ("failed", "denied", "I could not.")
        assert run.error is not None
        assert "nobody answered in time whether" in run.error.message
        closed = (await harness.until(ApprovalResolved)).approval
        assert (closed.state, closed.decision) == ("expired", "deny")
        assert not (tmp_path / "outside.txt").exists()


async def test_always_counts_in_this_project_only_and_everywhere_in_all(tmp_path: Path) -> None:
    async with open_app_harness(tmp_path, saying(TOUCH, "done")) as harness:
        accepted = await harness.start("go")
        asked = (await harness.until(ApprovalRequested)).approval
        await harness.app.services.approvals.answer(asked.id, "always", client="a")
        assert (await harness.ended(accepted)).state == "completed"
        assert (await harness.run("again")).state == "completed"
        assert (await harness.app.services.settings.config()).settings.approvals.allow == ()
        grants = await harness.app.services.workspaces.grants(harness.workspace_id)
        assert [grant.rule for grant in grants.items] == list(asked.patterns)
        (tmp_path / "other").mkdir()
        other, _ = await harness.app.services.workspaces.open(str(tmp_path / "other"))
        elsewhere = AppHarness(harness.app, tmp_path / "other", other.id)
        run = await elsewhere.run("go", interactive=False)
        assert (run.state, run.reason) == ("failed", "denied")
