"""The head is byte-stable; what changes later is told as an addition."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.agent.system_prompt import (
    MAX_INSTRUCTION_CHARACTERS,
    Instructions,
    PromptContext,
    Skill,
    Surroundings,
    known_context,
    render_changes,
    render_system_prompt,
)
from holdfast.schema.messages import Message, Text

HERE = Surroundings("/w", "Linux", "2026-01-01", "main", "")
GATHERED = PromptContext(HERE, (Instructions("/w/AGENTS.md", "be brief"),), (Skill("s", "does s", "/w/s/SKILL.md"),))


def test_the_same_input_gives_the_same_bytes_in_a_fixed_order() -> None:
    first, second = render_system_prompt(GATHERED), render_system_prompt(GATHERED)
    assert first == second
    rules, where, instructions, skills = first.blocks
    assert "Holdfast" in rules
    assert "/w" in where
    assert "be brief" in instructions
    assert "does s" in skills


def test_the_rules_are_short() -> None:
    assert len(render_system_prompt(GATHERED).blocks[0]) < 2_500


def test_nothing_is_added_when_nothing_changed() -> None:
    assert render_changes(GATHERED, render_system_prompt(GATHERED).facts) is None


def test_only_what_changed_is_told() -> None:
    changed = replace(GATHERED, instructions=(Instructions("/w/AGENTS.md", "be long"),))
    told = render_changes(changed, render_system_prompt(GATHERED).facts)
    assert told is not None
    assert "be long" in told.changed
    assert "Directory" not in told.changed
    assert told.blocks == ()
    assert render_changes(changed, told.facts) is None


def test_instructions_that_are_gone_are_told() -> None:
    told = render_changes(replace(GATHERED, instructions=(), skills=()), render_system_prompt(GATHERED).facts)
    assert told is not None
    assert "/w/AGENTS.md were removed" in told.changed
    assert "no skills" in told.changed


def test_too_long_instructions_are_cut_with_a_notice() -> None:
    long = replace(GATHERED, instructions=(Instructions("/w/AGENTS.md", "x" * MAX_INSTRUCTION_CHARACTERS * 2),))
    block = render_system_prompt(long).blocks[2]
    assert len(block) < MAX_INSTRUCTION_CHARACTERS + 1_000
    assert "cut here" in block


def test_the_head_and_the_newest_facts_are_found_in_the_session() -> None:
    first = render_system_prompt(GATHERED)
    told = render_changes(replace(GATHERED, skills=()), first.facts)
    assert told is not None
    unsent = render_system_prompt(replace(GATHERED, instructions=()))
    stored = [
        Message("m1", "s", "r", "user", 1, "", (first, Text("a"))),
        Message("m2", "s", "r", "user", 2, "", (told, Text("b"))),
        Message("m3", "s", "r", "user", 3, "", (unsent,), unsent=True),
    ]
    assert known_context(stored) == (first.blocks, told.facts)
