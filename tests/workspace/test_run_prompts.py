"""What a model is told by the kind of its run, shown by the requests that a provider receives."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.agent import prompts
from holdfast.agent.prompts import read_prompt
from holdfast.testing import Answer, Call, text
from tests.support.provider_harness import bodies, open_provider_harness, said_to, system_of

PROMPTS = {file.stem: read_prompt(file.stem) for file in Path(prompts.__file__).parent.glob("*.md")}
HEAD = PROMPTS["system_prompt"]


def tools_of(body: dict[str, object]) -> list[str]:
    tools = body["tools"]
    assert isinstance(tools, list)
    return [tool["function"]["name"] for tool in tools]


async def test_each_model_family_gets_its_own_advice_and_tool_order(tmp_path: Path) -> None:
    async with open_provider_harness(tmp_path) as (harness, provider):
        for name in ("claude-test", "gpt-test", "gemini-test", "other-test", "other-test-mini"):
            await harness.run("hello", model=f"test/{name}")
        claude, gpt, gemini, other, small = bodies(provider)
        assert all(system_of(body).startswith(HEAD) for body in (claude, gpt, gemini, other, small))
        assert tools_of(gpt)[0] == "apply_patch"
        assert tools_of(claude)[0] == "bash"
        assert sorted(tools_of(gpt)) == sorted(tools_of(claude))
        for body, block in ((claude, "claude"), (gpt, "gpt"), (gemini, "gemini")):
            assert PROMPTS[f"family_{block}"] in system_of(body)
        assert "# Tools that suit you" not in system_of(other)
        assert PROMPTS["small_model"] in system_of(small)
        assert PROMPTS["small_model"] not in system_of(other)


async def test_a_change_of_the_mode_is_told_with_the_next_prompt_and_the_head_stays(tmp_path: Path) -> None:
    async with open_provider_harness(tmp_path) as (harness, provider):
        first = await harness.run("plan it", model="test/claude-test", mode="plan")
        await harness.run("do it", model="test/claude-test", session_id=first.session_id, mode="auto")
        await harness.run("and more", model="test/claude-test", session_id=first.session_id, mode="auto")
        planned, done, more = bodies(provider)
        assert PROMPTS["plan_mode"] in system_of(planned)
        assert {"bash", "view"} <= set(tools_of(planned))
        assert not {"edit", "write"} & set(tools_of(planned))
        assert system_of(planned) == system_of(done) == system_of(more)
        assert said_to(done) == [
            "plan it",
            f"<changed-since>\n{PROMPTS['work_mode']}\n</changed-since>\n\ndo it",
        ]
        assert said_to(more) == [*said_to(done), "and more"]
        assert more["messages"][: len(done["messages"])] == done["messages"]


async def test_a_run_without_a_person_is_told_so(tmp_path: Path) -> None:
    async with open_provider_harness(tmp_path) as (harness, provider):
        await harness.run("hello", model="test/claude-test", interactive=False)
        (body,) = bodies(provider)
        assert system_of(body).endswith(PROMPTS["headless"])
        assert "ask" not in tools_of(body)


async def test_an_explorer_reads_and_runs_commands_that_change_nothing(tmp_path: Path) -> None:
    answers = (
        Answer((Call("agent", {"title": "look", "prompt": "what is in it?"}),)),
        Answer((Call("bash", {"command": "cat a.txt"}), Call("bash", {"command": "touch made"}))),
        text("it says hello"),
    )
    async with open_provider_harness(tmp_path, *answers) as (harness, provider):
        (harness.directory / "a.txt").write_text("hello\n")
        await harness.run("go", model="test/claude-test", mode="auto")
        _, first, second, after = bodies(provider)
        assert system_of(first).startswith(PROMPTS["subagent_explore"])
        assert HEAD not in system_of(first)
        assert said_to(first) == ["what is in it?"]
        assert tools_of(first) == ["bash", "job_output", "job_kill", "view", "ls", "glob", "grep", "fetch"]
        read, denied = said_to(second, role="tool")
        assert "hello" in read
        assert "plan mode" in denied
        assert not (harness.directory / "made").exists()
        assert said_to(after, role="tool") == ["it says hello"]


async def test_a_general_sub_agent_has_the_mode_of_its_parent_and_its_tools(tmp_path: Path) -> None:
    answers = (
        Answer((Call("agent", {"title": "make", "prompt": "make it", "agent": "general"}),)),
        Answer((Call("bash", {"command": "touch made"}),)),
        text("made it"),
    )
    async with open_provider_harness(tmp_path, *answers) as (harness, provider):
        await harness.run("go", model="test/claude-test", mode="auto")
        parent, child, *_ = bodies(provider)
        assert system_of(child).startswith(HEAD)
        assert PROMPTS["subagent_general"] in system_of(child)
        assert set(tools_of(parent)) - set(tools_of(child)) == {"ask"}
        assert (harness.directory / "made").exists()


@pytest.mark.parametrize("agent", ["general", "explore"])
async def test_a_sub_agent_of_a_run_that_plans_changes_nothing(tmp_path: Path, agent: str) -> None:
    answers = (
        Answer((Call("agent", {"title": "make", "prompt": "make it", "agent": agent}),)),
        Answer((Call("bash", {"command": "touch made"}),)),
        text("I could not"),
    )
    async with open_provider_harness(tmp_path, *answers) as (harness, provider):
        await harness.run("go", model="test/claude-test", mode="plan")
        _, child, *_ = bodies(provider)
        assert (PROMPTS["read_only"] in system_of(child)) == (agent == "general")
        assert PROMPTS["plan_mode"] not in system_of(child)
        assert not (harness.directory / "made").exists()
