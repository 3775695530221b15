"""A conversation that is kept for the next turn is what the next turn would read."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.agent.kept_conversations import KeptConversation, KeptConversations
from holdfast.models.wires.request_cache import RequestCache
from tests.support.conversation_check import check_conversations
from tests.support.real_turns import complete_run, open_turns, scripted_model


@pytest.fixture
def continued(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    return check_conversations(monkeypatch)


async def test_the_next_prompt_continues_what_was_kept(tmp_path: Path, continued: list[int]) -> None:
    scripted = scripted_model("one", "two", "three")
    async with open_turns(tmp_path, scripted) as harness:
        for prompt in ("first", "second", "third"):
            await complete_run(harness, prompt)
        assert continued == [3, 5]
        first, second, third = scripted.requests
        assert second.messages[: len(first.messages)] == first.messages
        assert third.messages[: len(second.messages)] == second.messages
        assert third.messages[0] is second.messages[0]
        assert third.converted is second.converted
        assert third.system == first.system


async def test_a_run_of_another_kind_between_makes_the_next_turn_read_anew(
    tmp_path: Path, continued: list[int]
) -> None:
    scripted = scripted_model("one", "the summary", "two", "three")
    async with open_turns(tmp_path, scripted) as harness:
        await complete_run(harness, "first")
        await harness.ended(await harness.accept("", kind="compact"))
        await complete_run(harness, "second")
        assert continued == []
        await complete_run(harness, "third")
        assert len(continued) == 1


def a_conversation(*, run_seq: int = 1, messages: int = 50, estimate: int = 0) -> KeptConversation:
    return KeptConversation(
        run_seq=run_seq,
        images=False,
        last_seq=messages,
        known={f"msg_{number}" for number in range(messages)},
        sent=[],
        fresh=[],
        size=0,
        estimate=estimate,
        system=(),
        facts={},
        converted=RequestCache(),
    )


def test_only_the_run_that_follows_directly_gets_it_and_only_once() -> None:
    kept = KeptConversations()
    for run_seq, images, is_taken in ((2, False, True), (3, False, False), (1, False, False), (2, True, False)):
        conversation = a_conversation()
        kept.put("ses_1", conversation)
        found = kept.take("ses_1", run_seq=run_seq, images=images)
        assert (found is conversation) == is_taken
        assert kept.take("ses_1", run_seq=run_seq, images=images) is None


def test_few_and_only_long_conversations_are_kept() -> None:
    kept = KeptConversations()
    kept.put("short", a_conversation(messages=10))
    kept.put("huge", a_conversation(estimate=10_000_000))
    assert len(kept) == 0
    for number in range(10):
        kept.put(f"ses_{number}", a_conversation())
    assert len(kept) == 4
    assert kept.take("ses_9", run_seq=2, images=False) is not None
    assert kept.take("ses_0", run_seq=2, images=False) is None
