"""The system prompt is byte-stable; later changes are rendered separately."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.agent.system_prompt import (
    MAX_INSTRUCTION_CHARACTERS,
    Instructions,
    PromptContext,
    RunConditions,
    Skill,
    Surroundings,
    known_context,
    render_changes,
    render_system_prompt,
)
from holdfast.schema.messages import Context, Message, Text

HERE = Surroundings("/w", "Linux", "2026-01-01", "main", "")
GATHERED = PromptContext(HERE, (Instructions("/w/AGENTS.md", "be brief"),), (Skill("s", "does s", "/w/s/SKILL.md"),))


WORK = RunConditions(family="claude")


def render_first(gathered: PromptContext = GATHERED, conditions: RunConditions = WORK) -> Context:
    return render_system_prompt(gathered, conditions=conditions)


def changes_since(
    first: Context, gathered: PromptContext = GATHERED, conditions: RunConditions = WORK
) -> Context | None:
    return render_changes(gathered, conditions=conditions, known=first.facts)


def test_the_same_input_gives_the_same_bytes_in_a_fixed_order() -> None:
    first, second = render_first(), render_first()
    assert first == second
    prompt, surroundings, instructions, skills = first.blocks
    assert "Holdfast" in prompt
    assert "/w" in surroundings
    assert "be brief" in instructions
    assert "does s" in skills


def test_no_changes_are_rendered_if_nothing_changed() -> None:
    assert changes_since(render_first()) is None


def test_only_what_changed_is_rendered() -> None:
    changed = replace(GATHERED, instructions=(Instructions("/w/AGENTS.md", "be long"),))
    changes = changes_since(render_first(), changed)
    assert changes is not None
    assert "be long" in changes.changed
    assert "Directory" not in changes.changed
    assert changes.blocks == ()
    assert changes_since(changes, changed) is None


def test_removed_instructions_are_rendered_as_removed() -> None:
    changes = changes_since(render_first(), replace(GATHERED, instructions=(), skills=()))
    assert changes is not None
    assert "/w/AGENTS.md were removed" in changes.changed
    assert "no skills" in changes.changed


def test_instructions_that_are_too_long_are_cut_with_a_note() -> None:
    long = replace(GATHERED, instructions=(Instructions("/w/AGENTS.md", "x" * MAX_INSTRUCTION_CHARACTERS * 2),))
    block = render_first(long).blocks[2]
    assert len(block) < MAX_INSTRUCTION_CHARACTERS + 1_000
    assert "cut here" in block


def test_the_system_prompt_and_the_latest_facts_are_found_in_the_messages() -> None:
    first = render_first()
    changes = changes_since(first, replace(GATHERED, skills=()))
    assert changes is not None
    unsent = render_first(replace(GATHERED, instructions=()))
    stored = [
        Message("m1", "s", "r", "user", 1, "", (first, Text("a"))),
        Message("m2", "s", "r", "user", 2, "", (changes, Text("b"))),
        Message("m3", "s", "r", "user", 3, "", (unsent,), unsent=True),
    ]
    assert known_context(stored) == (first.blocks, changes.facts)


def test_a_change_of_the_mode_the_person_or_the_model_is_told_and_the_head_stays() -> None:
    first = render_first()
    planning = RunConditions(family="gpt", mode="plan", interactive=False)
    changes = changes_since(first, conditions=planning)
    assert changes is not None
    assert changes.blocks == ()
    for words in ("nothing may be changed", "no person at the other end", "`apply_patch`"):
        assert words in changes.changed
    assert changes_since(changes, conditions=planning) is None
    back = changes_since(changes)
    assert back is not None
    assert "no longer in plan mode" in back.changed
    assert "can answer questions" in back.changed
    assert changes_since(back) is None


def test_facts_of_reminders_are_kept_when_something_else_changes() -> None:
    first = render_first()
    known = first.facts | {"job:job_1": "exited"}
    assert render_changes(GATHERED, conditions=WORK, known=known) is None
    changed = render_changes(replace(GATHERED, skills=()), conditions=WORK, known=known)
    assert changed is not None
    assert changed.facts["job:job_1"] == "exited"


def test_a_session_of_an_older_version_is_told_nothing_about_its_model() -> None:
    old = {name: told for name, told in render_first().facts.items() if name != "family"}
    assert render_changes(GATHERED, conditions=RunConditions(), known=old) is None
