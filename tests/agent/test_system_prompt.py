"""The head is byte-stable; what changes later is told as an addition."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.agent.system_prompt import (
    MAX_INSTRUCTIONS,
    Gathered,
    Instructions,
    Skill,
    Surroundings,
    addition,
    head,
    known_context,
)
from holdfast.schema.messages import Message, Text

HERE = Surroundings("/w", "Linux", "2026-01-01", "main", "")
GATHERED = Gathered(HERE, (Instructions("/w/AGENTS.md", "be brief"),), (Skill("s", "does s", "/w/s/SKILL.md"),))


def test_the_same_input_gives_the_same_bytes_in_a_fixed_order() -> None:
    first, second = head(GATHERED), head(GATHERED)
    assert first == second
    rules, where, instructions, skills = first.blocks
    assert "Holdfast" in rules
    assert "/w" in where
    assert "be brief" in instructions
    assert "does s" in skills


def test_the_rules_are_short() -> None:
    assert len(head(GATHERED).blocks[0]) < 2_500


def test_nothing_is_added_when_nothing_changed() -> None:
    assert addition(GATHERED, head(GATHERED).facts) is None


def test_only_what_changed_is_told() -> None:
    changed = replace(GATHERED, instructions=(Instructions("/w/AGENTS.md", "be long"),))
    told = addition(changed, head(GATHERED).facts)
    assert told is not None
    assert "be long" in told.changed
    assert "Directory" not in told.changed
    assert told.blocks == ()
    assert addition(changed, told.facts) is None


def test_instructions_that_are_gone_are_told() -> None:
    told = addition(replace(GATHERED, instructions=(), skills=()), head(GATHERED).facts)
    assert told is not None
    assert "/w/AGENTS.md are gone" in told.changed
    assert "no skills" in told.changed


def test_too_long_instructions_are_cut_with_a_notice() -> None:
    long = replace(GATHERED, instructions=(Instructions("/w/AGENTS.md", "x" * MAX_INSTRUCTIONS * 2),))
    block = head(long).blocks[2]
    assert len(block) < MAX_INSTRUCTIONS + 1_000
    assert "cut here" in block


def test_the_head_and_the_newest_facts_are_found_in_the_session() -> None:
    first = head(GATHERED)
    told = addition(replace(GATHERED, skills=()), first.facts)
    assert told is not None
    stored = [
        Message("m1", "s", "r", "user", 1, "", (first, Text("a"))),
        Message("m2", "s", "r", "user", 2, "", (told, Text("b"))),
        Message("m3", "s", "r", "user", 3, "", (head(replace(GATHERED, instructions=())),), unsent=True),
    ]
    assert known_context(stored) == (first.blocks, told.facts)
