"""Every variant of the system prompt as it is sent, in `prompt_variants/`, so that a review sees what changed for whom.

`UPDATE_SNAPSHOTS=1 .venv/bin/pytest tests/agent/test_prompt_variants.py` writes the files again.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.agent.prompts import read_prompt
from holdfast.agent.system_prompt import (
    Instructions,
    PromptContext,
    RunConditions,
    Skill,
    Surroundings,
    render_changes,
    render_system_prompt,
)
from holdfast.config.agent_types import BUILT_IN_AGENTS, AgentType
from tests.support.snapshots import check_snapshot

STORED = Path(__file__).parent / "prompt_variants"
GATHERED = PromptContext(
    Surroundings("/home/ada/engine", "Linux 6.12 (x86_64)", "2026-11-17", "main", " M src/mill.py"),
    (Instructions("/home/ada/engine/AGENTS.md", "Run `make test` before you finish."),),
    (Skill("release", "How to publish a release", "/home/ada/.config/holdfast/skills/release/SKILL.md"),),
)
EXPLORE, GENERAL = BUILT_IN_AGENTS
NAMED = AgentType(name="poet", description="Writes verse.", instructions="You write verse about code.", read_only=True)

VARIANTS = {
    "claude": RunConditions(family="claude"),
    "gpt": RunConditions(family="gpt"),
    "gemini": RunConditions(family="gemini"),
    "other": RunConditions(),
    "small": RunConditions(small_model=True),
    "plan": RunConditions(family="claude", mode="plan"),
    "headless": RunConditions(family="claude", interactive=False),
    "subagent-explore": RunConditions(family="claude", mode="plan", agent=EXPLORE),
    "subagent-general": RunConditions(family="gpt", agent=GENERAL),
    "subagent-general-in-plan-mode": RunConditions(family="claude", mode="plan", agent=GENERAL),
    "subagent-named": RunConditions(mode="plan", agent=NAMED),
}
CHANGES = {
    "changed-to-plan": ("claude", "plan"),
    "changed-to-work": ("plan", "claude"),
    "changed-to-headless": ("claude", "headless"),
    "changed-to-attended": ("headless", "claude"),
    "changed-to-gpt": ("claude", "gpt"),
}


def rendered(name: str) -> str:
    if name in VARIANTS:
        return "\n\n".join(render_system_prompt(GATHERED, conditions=VARIANTS[name]).blocks)
    before, after = (VARIANTS[variant] for variant in CHANGES[name])
    known = render_system_prompt(GATHERED, conditions=before).facts
    changes = render_changes(GATHERED, conditions=after, known=known)
    assert changes is not None
    return changes.changed


@pytest.mark.parametrize("name", [*VARIANTS, *CHANGES])
def test_the_prompt_is_the_reviewed_one(name: str) -> None:
    check_snapshot(STORED / f"{name}.md", rendered(name) + "\n")


def test_there_is_no_file_without_its_variant() -> None:
    assert {file.stem for file in STORED.iterdir()} == {*VARIANTS, *CHANGES}


def test_the_prompt_of_the_agent_has_a_fitting_size() -> None:
    """Long enough to say what matters, short enough to be followed and paid for."""
    assert 6_000 <= len(read_prompt("system_prompt")) <= 10_000


def test_every_tool_that_a_prompt_names_exists() -> None:
    import re

    from holdfast.tools.registry import BUILT_IN

    known = {module for module, _ in BUILT_IN} | {"job_output", "job_kill"}
    tools_in_prompts = {
        "grep",
        "glob",
        "view",
        "todos",
        "job_output",
        "job_kill",
        "agent",
        "edit",
        "multiedit",
        "write",
    }
    named = set(re.findall(r"`(\w+)`", read_prompt("system_prompt") + read_prompt("family_claude")))
    assert tools_in_prompts <= known
    assert tools_in_prompts <= named
