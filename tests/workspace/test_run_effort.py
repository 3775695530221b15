"""The effort of a run, in the requests that a provider receives on each wire."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import BadRequest
from holdfast.testing import WIRES, Answer, Call, WireName, text
from tests.support.provider_harness import bodies, open_provider_harness

MODEL = "test/claude-test"


def effort_in(wire: WireName, body: dict[str, Any]) -> Any:
    match wire:
        case "openai-chat":
            return body.get("reasoning_effort")
        case "openai-responses":
            return body["reasoning"].get("effort")
        case "anthropic":
            assert ("thinking" in body) == ("output_config" in body)
            return body.get("output_config", {}).get("effort")
        case "gemini":
            return body["generationConfig"]["thinkingConfig"].get("thinkingLevel")


@pytest.mark.parametrize("wire", WIRES)
async def test_models_that_reason_do_so_by_default_on_every_wire(tmp_path: Path, wire: WireName) -> None:
    async with open_provider_harness(tmp_path, wire=wire) as (harness, provider):
        await harness.run("by default", model=MODEL)
        await harness.run("harder", model=MODEL, effort="high")
        await harness.run("not at all", model=MODEL, effort="off")
        await harness.app.services.settings.change({"models.effort": "max"})
        await harness.run("as configured", model=MODEL)
        assert [effort_in(wire, body) for body in bodies(provider)] == ["medium", "high", None, "high"]
        with pytest.raises(BadRequest, match="no effort 'max'; known: low, medium, high, off"):
            await harness.start("too much", model=MODEL, effort="max")


async def test_a_sub_agent_has_the_effort_of_its_parent_unless_it_has_its_own_model(tmp_path: Path) -> None:
    own = {"title": "t", "prompt": "p", "agent": "own"}
    answers = (Answer((Call("agent", {"title": "t", "prompt": "p"}),)), text("a"), Answer((Call("agent", own),)))
    config = '[agents.own]\nmodel = "test/gpt-test"\n'
    async with open_provider_harness(tmp_path, *answers, config=config) as (harness, provider):
        await harness.run("go", model=MODEL, effort="high")
        assert [effort_in("openai-chat", body) for body in bodies(provider)] == [
            *("high", "high", "high"),  # the run, its sub-agent, the run
            *("medium", "high"),  # the agent with its own model, the run
        ]
