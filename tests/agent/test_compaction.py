"""A conversation that is too long is replaced by a summary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.prompts import read_prompt
from holdfast.agent.summary_text import complete_summary
from holdfast.models.model_script import (
    ModelScript,
    ScriptedCall,
    ScriptedFailure,
    ScriptedStop,
    ScriptedText,
    ScriptedUsage,
    ScriptedWait,
)
from holdfast.models.protocol import ModelInfo, UsageReport
from holdfast.models.scripted_model import ScriptedModel
from holdfast.schema.messages import Context, File, Message, Summary, public_parts, text_of
from holdfast.schema.sessions import Todo
from holdfast.schema.usage import Usage
from holdfast.store import Batch
from holdfast.store.writes import PutTodos
from holdfast.tools.protocol import ToolContext as ToolContext
from tests.support.real_turns import (
    complete_run,
    open_turns,
    scripted_model,
)

SUMMARY_PROMPT, AGAIN = read_prompt("summary"), read_prompt("summary_again")


def test_the_summary_contains_the_stored_task_list() -> None:
    assert complete_summary("s", prompts=[], todos=[]) == "s"
    assert complete_summary("s", prompts=[], todos=[Todo("write it", "in_progress")]).endswith(
        "- [in_progress] write it"
    )


def test_the_summary_contains_the_prompts_unchanged() -> None:
    kept = complete_summary("s", prompts=["first wish", "", "and another"], todos=[])
    assert kept.endswith("word for word\nfirst wish\n\nand another")
    assert len(complete_summary("s", prompts=["x" * 100_000], todos=[])) < 9_000


@pytest.mark.promise("R12")
async def test_the_conversation_is_compacted_before_the_window_is_full(tmp_path: Path) -> None:
    scripted = scripted_model(
        (ScriptedCall("echo", {"word": "a"}), ScriptedUsage(Usage(input=95_000, output=10))),
        (ScriptedText("## Task\nthe story so far"), ScriptedUsage(Usage(input=95_000, output=50))),
        "went on",
        context_window=100_000,
    )
    async with open_turns(tmp_path, scripted) as harness:
        run = await complete_run(harness)
        assert (run.state, run.text, run.steps) == ("completed", "went on", 2)
        stored = await harness.messages()
        summary = next(m for m in stored if any(isinstance(part, Summary) for part in m.parts))
        assert len(stored) == 5
        (told,) = scripted.requests[2].messages
        assert "the story so far" in text_of(told.parts)
        assert isinstance(summary.parts[0], Context)
        assert run.usage.input == 2 * 95_000 + input_tokens(stored[-1])


def input_tokens(message: Message) -> int:
    assert message.usage is not None
    return message.usage.input


@pytest.mark.promise("R12")
async def test_a_provider_that_reports_a_full_window_gets_a_compacted_conversation(tmp_path: Path) -> None:
    scripted = scripted_model((ScriptedFailure("context"),), "the summary", "fits now")
    async with open_turns(tmp_path, scripted) as harness:
        run = await complete_run(harness)
        assert (run.state, run.text) == ("completed", "fits now")
        assert "the summary" in text_of(scripted.requests[2].messages[0].parts)


@pytest.mark.promise("R12")
async def test_a_window_that_is_too_small_for_the_summary_ends_the_run(tmp_path: Path) -> None:
    async with open_turns(tmp_path, scripted_model(*[(ScriptedFailure("context"),)] * 10)) as harness:
        run = await complete_run(harness)
        assert (run.state, run.reason) == ("failed", "context")


@pytest.mark.promise("R12")
async def test_a_model_that_calls_tools_instead_of_writing_a_summary_is_asked_again_without_tools(
    tmp_path: Path,
) -> None:
    scripted = scripted_model(
        (ScriptedCall("echo", {"word": "a"}), ScriptedUsage(Usage(input=95_000, output=10))),
        (ScriptedCall("echo", {"word": "instead of a summary"}), ScriptedUsage(Usage(input=90_000, output=7))),
        (ScriptedText("## Task\nthe story so far"), ScriptedUsage(Usage(input=90_000, output=9))),
        "went on",
        context_window=100_000,
    )
    async with open_turns(tmp_path, scripted) as harness:
        run = await complete_run(harness, "do it")
        assert (run.state, run.text) == ("completed", "went on")
        assert harness.tools["echo"].ran.total() == 1
        assert (run.usage.input, run.usage.output)[0] >= 95_000 + 2 * 90_000
        first, second = scripted.requests[1], scripted.requests[2]
        assert first.tools == second.tools == ()
        assert [(m.role, text_of(m.parts)) for m in first.messages] == [
            ("user", "do it"),
            ("assistant", '[called echo: {"word":"a"}]'),
            ("user", "[result of echo, ok:\necho a]"),
            ("user", SUMMARY_PROMPT),
        ]
        assert text_of(second.messages[-1].parts) == f"{SUMMARY_PROMPT}\n\n{AGAIN}"


@pytest.mark.promise("R12")
@pytest.mark.parametrize("failure", ["calls", "empty", "refused", "context"])
async def test_without_a_summary_of_the_model_one_is_made_and_the_run_goes_on(tmp_path: Path, failure: str) -> None:
    no_summary: dict[str, tuple[Any, ...]] = {
        "calls": ((ScriptedCall("echo", {"word": "no"}),),) * 2,
        "empty": ((ScriptedText(" "),),) * 2,
        "refused": ((ScriptedText("I must not"), ScriptedStop("refused")),) * 2,
        "context": ((ScriptedFailure("context"),),) * 8,
    }
    scripted = scripted_model(
        (
            ScriptedText("I look."),
            ScriptedCall("echo", {"word": "a", "path": "src/a.py"}),
            ScriptedUsage(Usage(input=95_000, output=10)),
        ),
        *no_summary[failure],
        "went on",
        context_window=100_000,
    )
    async with open_turns(tmp_path, scripted) as harness:
        await harness.store.commit(Batch((PutTodos("ses_1", (Todo("mend it", "in_progress"),)),)))
        run = await complete_run(harness, "mend the parser")
        assert (run.state, run.text) == ("completed", "went on")
        (told,) = scripted.requests[-1].messages
        assert text_of(told.parts) == (
            "Summary of the conversation so far, in place of its messages:\n\n"
            "(The model gave no summary. This one lists what was done; look at the files for details.)\n\n"
            "## What was done\n- echo src/a.py (error)\n\n"
            "## Your last answer\nI look.\n\n"
            "## The request you are working on, word for word\nmend the parser\n\n"
            "## Task list (as stored)\n- [in_progress] mend it"
        )


async def test_the_last_prompts_and_the_files_in_use_are_kept_word_for_word(tmp_path: Path) -> None:
    scripted = scripted_model(
        *("one", "two", (ScriptedText("half"), ScriptedWait("mid"))),
        (ScriptedCall("echo", {"word": "a"}), ScriptedUsage(Usage(input=95_000, output=10))),
        *("the summary", "went on"),
        context_window=100_000,
    )
    async with open_turns(tmp_path, scripted) as harness:
        harness.turns.observer.files = (File("src/a.py", "text/plain", text="x = 1\n"),)
        await complete_run(harness, "first wish")
        await complete_run(harness, "second wish")
        dropped = await harness.accept("delete everything")
        await scripted.barrier("mid").reached.wait()
        await harness.engine.cancel_session("ses_1")
        await harness.ended(dropped)
        await complete_run(harness, "third wish")
        (told,) = scripted.requests[-1].messages
        assert "delete everything" not in text_of(told.parts)
        assert text_of(told.parts).split("\n\n", 1)[1] == (
            "the summary\n\n"
            "## The last prompts before, word for word\nfirst wish\n\nsecond wish\n\n"
            "## The request you are working on, word for word\nthird wish"
            "The files in use, as they were when the summary was made; you need not view them again:"
            '<file name="src/a.py">\nx = 1\n\n</file>'
        )
        (summary,) = [p for m in await harness.messages() for p in m.parts if isinstance(p, Summary)]
        assert summary.files
        assert public_parts((summary,)) == (Summary(summary.text),)


async def test_the_users_wish_is_part_of_the_request_for_the_summary(tmp_path: Path) -> None:
    scripted = scripted_model("an answer", "the summary")
    async with open_turns(tmp_path, scripted) as harness:
        await complete_run(harness, "hello")
        accepted = await harness.accept("", kind="compact", arguments={"instruction": "keep the numbers"})
        assert (await harness.ended(accepted)).state == "completed"
        asked = text_of(scripted.requests[1].messages[-1].parts)
        assert asked == f"{SUMMARY_PROMPT}\n\nThe user asks of this summary: keep the numbers"


async def test_a_compact_run_replaces_the_conversation_by_a_summary(tmp_path: Path) -> None:
    scripted = scripted_model("an answer", "the summary", "after")
    async with open_turns(tmp_path, scripted) as harness:
        nothing = await harness.ended(await harness.accept("", kind="compact"))
        assert "nothing to compact" in nothing.text
        await complete_run(harness)
        run = await harness.ended(await harness.accept("", kind="compact"))
        assert (run.state, run.text) == (
            "completed",
            "the summary\n\n## The last prompts before, word for word\ndo it",
        )
        await complete_run(harness, "go on")
        assert [text_of(m.parts).split("\n")[-1] for m in scripted.requests[2].messages] == ["do it", "go on"]


@pytest.mark.promise("R6", "R12")
async def test_a_steer_that_joins_after_a_compaction_does_not_bring_old_messages_back(tmp_path: Path) -> None:
    scripted = scripted_model(
        "an old answer",
        (ScriptedCall("echo", {"word": "a"}), ScriptedUsage(Usage(input=95_000))),
        "## Task\nthe story",
        (ScriptedCall("gated", {"word": "x"}),),
        "all done",
        context_window=100_000,
    )
    async with open_turns(tmp_path, scripted) as harness:
        await complete_run(harness, "an old prompt")
        host = await harness.accept("the present prompt")
        await harness.gates.arrived("x")
        await harness.accept("and a steer", delivery="steer")
        harness.gates.open("x")
        assert (await harness.ended(host)).text == "all done"
        summary, asked, answered, steer = scripted.requests[-1].messages
        assert "the story" in text_of(summary.parts)
        assert "the present prompt" in text_of(summary.parts)
        assert (asked.role, answered.role, text_of(steer.parts)) == ("assistant", "tool", "and a steer")


@pytest.mark.parametrize("told", [(), (UsageReport(Usage()),)])
async def test_missing_usage_is_estimated_and_compaction_is_still_in_time(tmp_path: Path, told: Any) -> None:
    class Silent(ScriptedModel):
        async def stream(self, request):  # type: ignore[no-untyped-def]
            async for delta in super().stream(request):
                for one in told if isinstance(delta, UsageReport) else (delta,):
                    yield one

    script = ModelScript(
        answers=(
            (ScriptedCall("echo", {"word": "w" * 90_000}),),
            (ScriptedText("the story"),),
            (ScriptedText("went on"),),
        )
    )
    async with open_turns(tmp_path, Silent(script, info=ModelInfo("offline/test", context_window=50_000))) as harness:
        run = await complete_run(harness)
        assert (run.state, run.text, run.usage.estimated) == ("completed", "went on", True)
        assert any(isinstance(part, Summary) for message in await harness.messages() for part in message.parts)
