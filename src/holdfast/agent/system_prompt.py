"""Renders the system prompt: the agent's prompt, the surroundings, the instructions and the skills, in this order.

The same input always gives the same bytes. The system prompt is rendered once per session and stored in it
(`schema.messages.Context`). Later changes on disk are added to the next prompt; the system prompt stays as it is, so
that the provider's cache stays valid.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from holdfast.agent.prompts import read_prompt
from holdfast.schema.base import Value
from holdfast.schema.messages import Context, Message

MAX_INSTRUCTION_CHARACTERS = 48_000
"""The maximum of all instruction files together."""

_DEFAULT_PROMPT = read_prompt("system_prompt")


class Surroundings(Value, frozen=True):
    """Where the agent works."""

    directory: str
    platform: str
    date: str
    git_branch: str | None = None
    git_status: str | None = None
    """The lines of the short status; None if it is unknown, empty if the work tree is clean."""


class Instructions(Value, frozen=True):
    """One instruction file of the user or the project."""

    path: str
    text: str


class Skill(Value, frozen=True):
    name: str
    description: str
    path: str


class PromptContext(Value, frozen=True):
    """What the system prompt is rendered from."""

    surroundings: Surroundings
    instructions: tuple[Instructions, ...] = ()
    skills: tuple[Skill, ...] = ()


def render_system_prompt(gathered: PromptContext, *, agent_prompt: str | None = None) -> Context:
    """Render the system prompt of a session that begins, or continues after a compaction."""
    blocks = [agent_prompt or _DEFAULT_PROMPT, _surroundings(gathered.surroundings)]
    if gathered.instructions:
        blocks.append(_instructions(gathered.instructions))
    if gathered.skills:
        blocks.append(_skills(gathered.skills))
    return Context(blocks=tuple(blocks), facts=_facts(gathered))


def render_changes(gathered: PromptContext, known: dict[str, str]) -> Context | None:
    """Render what changed since the model was last told, or return None."""
    facts = _facts(gathered)
    if facts == known:
        return None
    changed = {subject for subject in facts.keys() | known.keys() if facts.get(subject) != known.get(subject)}
    blocks: list[str] = []
    if "surroundings" in changed:
        blocks.append(_surroundings(gathered.surroundings))
    files = tuple(file for file in gathered.instructions if f"file:{file.path}" in changed)
    if files:
        blocks.append(_instructions(files))
    blocks.extend(
        f"The instructions in {subject.removeprefix('file:')} were removed."
        for subject in sorted(changed)
        if subject.startswith("file:") and subject not in facts
    )
    if "skills" in changed:
        blocks.append(_skills(gathered.skills) if gathered.skills else "There are no skills any more.")
    text = "<changed-since>\n" + "\n\n".join(blocks) + "\n</changed-since>"
    return Context(changed=text, facts=facts)


def known_context(messages: Iterable[Message]) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the system prompt that was last sent, and the facts that the model knows, from messages in order."""
    blocks: tuple[str, ...] = ()
    facts: dict[str, str] = {}
    for message in messages:
        for part in message.parts:
            if isinstance(part, Context) and not message.unsent:
                blocks = part.blocks or blocks
                facts = part.facts
    return blocks, facts


def _surroundings(where: Surroundings) -> str:
    lines = [f"Directory: {where.directory}", f"Platform: {where.platform}", f"Date: {where.date}"]
    if where.git_branch is not None:
        lines.append(f"Git branch: {where.git_branch}")
    if where.git_status is not None:
        lines.append(f"Git status:\n{where.git_status}" if where.git_status else "Git status: clean")
    return "<surroundings>\n" + "\n".join(lines) + "\n</surroundings>"


def _instructions(files: tuple[Instructions, ...]) -> str:
    left = MAX_INSTRUCTION_CHARACTERS
    blocks = ["Instructions of the user and the project; the later one wins where two disagree:"]
    for file in files:
        text = file.text.strip()
        if len(text) > left:
            text = text[:left] + f"\n[cut here: {file.path} is longer than fits; read the rest when you need it]"
        left = max(0, left - len(text))
        blocks.append(f'<instructions path="{file.path}">\n{text}\n</instructions>')
    return "\n".join(blocks)


def _skills(skills: tuple[Skill, ...]) -> str:
    lines = [f"- {skill.name}: {skill.description} ({skill.path})" for skill in skills]
    return "Skills: read the file of one when the task calls for it.\n" + "\n".join(lines)


def _facts(gathered: PromptContext) -> dict[str, str]:
    facts = {"surroundings": _digest(_surroundings(gathered.surroundings))}
    facts |= {f"file:{file.path}": _digest(file.text) for file in gathered.instructions}
    if gathered.skills:
        facts["skills"] = _digest(_skills(gathered.skills))
    return facts


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
