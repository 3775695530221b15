"""The system prompt and the first title of a session."""

from __future__ import annotations

from pathlib import Path

from holdfast.agent.system_prompt import Instructions
from holdfast.schema.events import (
    SessionUpdated,
)
from holdfast.schema.messages import text_of
from holdfast.tools.protocol import ToolContext as ToolContext
from tests.support.real_turns import (
    complete_run,
    open_turns,
    scripted_model,
)


async def test_the_system_prompt_stays_and_changes_are_sent_with_the_next_prompt(tmp_path: Path) -> None:
    scripted = scripted_model("one", "two", "three")
    async with open_turns(tmp_path, scripted) as harness:
        await complete_run(harness, "first")
        await complete_run(harness, "second")
        harness.turns.context_gatherer.branch = "topic"
        harness.turns.context_gatherer.instructions = (Instructions("/w/AGENTS.md", "be kind"),)
        await complete_run(harness, "third")
        first, second, third = scripted.requests
        assert first.system == second.system == third.system
        assert third.messages[: len(second.messages)] == second.messages
        told = text_of(third.messages[-1].parts)
        assert "topic" in told
        assert "be kind" in told
        assert "changed-since" not in text_of(second.messages[-1].parts)


async def test_the_first_words_of_the_prompt_are_the_title_at_first(tmp_path: Path) -> None:
    async with open_turns(tmp_path, scripted_model("ok", "ok")) as harness:
        await complete_run(harness, "Please mend the broken test in the parser module today")
        assert (await harness.store.session("ses_1")).title == "Please mend the broken test in the parser"
        assert [words for _, words in harness.turns.titler.asked] == [
            "Please mend the broken test in the parser module today"
        ]
        await complete_run(harness, "second")
        assert len([e for e in await harness.events() if isinstance(e, SessionUpdated)]) == 1
