"""Agents in files of several agents."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.extend.agent_files import AgentFile, read_agents
from holdfast.extend.front_matter import MarkdownFiles, SourceFolder


def read(tmp_path: Path, text: str, name: str = "a") -> AgentFile:
    path = tmp_path / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    (found,) = read_agents((SourceFolder(tmp_path, "user"),), MarkdownFiles())
    return found


def test_a_file_of_claude_code_is_understood(tmp_path: Path) -> None:
    agent = read(
        tmp_path,
        "---\nname: code-reviewer\ndescription: Reviews: all of it\ntools: Read, Grep, mcp__docs__find\n"
        "model: inherit\npermissionMode: plan\n---\nYou review.\n",
    )
    assert (agent.name, agent.settings.description, agent.settings.prompt) == (
        *("code-reviewer", "Reviews: all of it", "You review."),
    )
    assert agent.settings.tools == ("view", "grep", "mcp__docs__find")
    assert agent.settings.model is None
    assert agent.settings.read_only


def test_a_file_of_opencode_is_understood(tmp_path: Path) -> None:
    agent = read(
        tmp_path,
        "---\ndescription: x\nmode: subagent\nmodel: a/b\ntemperature: 0.1\nmaxSteps: 9\n"
        "tools:\n  write: false\n  bash: true\npermission:\n  edit: deny\n  webfetch: deny\n  bash: ask\n---\nbody",
        "team/docs",
    )
    assert (agent.name, agent.settings.model, agent.settings.max_steps) == ("team/docs", "a/b", 9)
    assert agent.settings.tools == ("*", "!write", "!edit", "!multiedit", "!apply_patch", "!fetch")
    assert agent.is_subagent
    assert not agent.settings.read_only


def test_primary_and_disabled_agents_are_marked(tmp_path: Path) -> None:
    assert not read(tmp_path / "1", "---\ndescription: x\nmode: primary\n---\nb").is_subagent
    assert read(tmp_path / "2", "---\ndescription: x\ndisable: true\n---\nb").is_disabled


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("no front matter", "no 'description'"),
        ("---\ndescription: x\n---\n", "no text below"),
        ("---\ndescription: x\nmode: wild\n---\nb", "there is no mode 'wild'"),
        ("---\ndescription: x\nsteps: many\n---\nb", "'steps' is 'many'"),
        ("---\ndescription: x\nsteps: ²\n---\nb", "'steps' is '²'"),
        ("---\ndescription: x\nname: a b\n---\nb", "must be of letters"),
    ],
)
def test_what_is_wrong_with_an_agent_is_said(text: str, words: str, tmp_path: Path) -> None:
    assert words in read(tmp_path, text).problem
