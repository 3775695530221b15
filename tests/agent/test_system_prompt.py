"""The system prompt is byte-stable; later changes are rendered separately."""

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
    prompt, surroundings, instructions, skills = first.blocks
    assert "Holdfast" in prompt
    assert "/w" in surroundings
    assert "be brief" in instructions
    assert "does s" in skills


def test_the_default_prompt_is_short() -> None:
    assert len(render_system_prompt(GATHERED).blocks[0]) < 2_500


def test_no_changes_are_rendered_if_nothing_changed() -> None:
    assert render_changes(GATHERED, render_system_prompt(GATHERED).facts) is None


def test_only_what_changed_is_rendered() -> None:
    changed = replace(GATHERED, instructions=(Instructions("/w/AGENTS.md", "be long"),))
    changes = render_changes(changed, render_system_prompt(GATHERED).facts)
    assert changes is not None
    assert "be long" in changes.changed
    assert "Directory" not in changes.changed
    assert changes.blocks == ()
    assert render_changes(changed, changes.facts) is None


def test_removed_instructions_are_rendered_as_removed() -> None:
    changes = render_changes(replace(GATHERED, instructions=(), skills=()), render_system_prompt(GATHERED).facts)
    assert changes is not None
    assert "/w/AGENTS.md were removed" in changes.changed
    assert "no skills" in changes.changed


def test_instructions_that_are_too_long_are_cut_with_a_note() -> None:
    long = replace(GATHERED, instructions=(Instructions("/w/AGENTS.md", "x" * MAX_INSTRUCTION_CHARACTERS * 2),))
    block = render_system_prompt(long).blocks[2]
    assert len(block) < MAX_INSTRUCTION_CHARACTERS + 1_000
    assert "cut here" in block


def test_the_system_prompt_and_the_latest_facts_are_found_in_the_messages() -> None:
    first = render_system_prompt(GATHERED)
    changes = render_changes(replace(GATHERED, skills=()), first.facts)
    assert changes is not None
    unsent = render_system_prompt(replace(GATHERED, instructions=()))
    stored = [
        Message("m1", "s", "r", "user", 1, "", (first, Text("a"))),
        Message("m2", "s", "r", "user", 2, "", (changes, Text("b"))),
        Message("m3", "s", "r", "user", 3, "", (unsent,), unsent=True),
    ]
    assert known_context(stored) == (first.blocks, changes.facts)
