"""A plan is accepted: the same conversation goes on in another mode."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.agent import prompts
from holdfast.agent.prompts import read_prompt
from holdfast.errors import Conflict
from holdfast.schema.api.request_bodies import AcceptPlanBody
from holdfast.testing import text
from tests.support.provider_harness import bodies, open_provider_harness, said_to, system_of

MODEL = "test/claude-test"
PROMPTS = {file.stem: read_prompt(file.stem) for file in Path(prompts.__file__).parent.glob("*.md")}


async def test_the_accepted_plan_is_carried_out_with_its_conversation_and_model(tmp_path: Path) -> None:
    async with open_provider_harness(tmp_path, text("1. mend it"), text("mended")) as (harness, provider):
        planned = await harness.run("mend the parser", model=MODEL, mode="plan", effort="high")
        runs = harness.app.services.runs
        body = AcceptPlanBody(note="but keep the names", run_id="run_mine")
        accepted = await runs.accept_plan(planned.session_id, body, client="test")
        run = await harness.ended(accepted)
        assert (run.state, run.text, run.mode, run.model, run.effort) == (
            *("completed", "mended"),
            *("accept_edits", MODEL, "high"),
        )
        again = await runs.accept_plan(planned.session_id, body, client="test")
        assert again.run.id == run.id
        plan, work = bodies(provider)
        assert system_of(plan) == system_of(work)
        assert said_to(work) == [
            "mend the parser",
            f"<changed-since>\n{PROMPTS['work_mode']}\n</changed-since>\n\n"
            f"{PROMPTS['plan_accepted']}\n\nbut keep the names",
        ]
        assert said_to(work, role="assistant") == ["1. mend it"]
        assert "edit" in [tool["function"]["name"] for tool in work["tools"]]


async def test_without_a_plan_nothing_is_started(tmp_path: Path) -> None:
    async with open_provider_harness(tmp_path) as (harness, _):
        worked = await harness.run("hello", model=MODEL)
        with pytest.raises(Conflict, match="has not ended with a plan") as refused:
            await harness.app.services.runs.accept_plan(worked.session_id, AcceptPlanBody(), client="test")
        assert refused.value.error_code == "no_plan"


async def test_a_plan_of_the_configured_mode_can_be_accepted_and_a_compaction_after_it_does_not_matter(
    tmp_path: Path,
) -> None:
    async with open_provider_harness(tmp_path, config='[approvals]\nmode = "plan"\n') as (harness, _):
        planned = await harness.run("plan it", model=MODEL)
        await harness.run("", session_id=planned.session_id, kind="compact", model=MODEL)
        accepted = await harness.app.services.runs.accept_plan(
            planned.session_id, AcceptPlanBody(mode="auto"), client="test"
        )
        assert (await harness.ended(accepted)).mode == "auto"
