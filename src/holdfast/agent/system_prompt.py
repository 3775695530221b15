"""Renders the system prompt: the agent's prompt, the surroundings, instructions, skills, and the conditions of the run.

The same input always gives the same bytes. The system prompt is rendered once per session and stored in it
(`schema.messages.Context`). Later changes, on disk or of the conditions, are added to the next prompt; the system
prompt stays as it is, so that the provider's cache stays valid.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.agent.model_families import Family, family_of, is_small
from holdfast.agent.prompts import read_prompt
from holdfast.config.agent_types import AgentType
from holdfast.digests import sha256_hex
from holdfast.models.protocol import ModelInfo
from holdfast.schema.base import Value
from holdfast.schema.messages import Context, Message
from holdfast.schema.runs import Mode

MAX_INSTRUCTION_CHARACTERS = 48_000
"""The maximum of all instruction files together."""

_DEFAULT_PROMPT = read_prompt("system_prompt")
_SMALL_MODEL = read_prompt("small_model")
_FAMILIES: dict[Family, str] = {
    "claude": read_prompt("family_claude"),
    "gpt": read_prompt("family_gpt"),
    "gemini": read_prompt("family_gemini"),
}
_EXPLORER = read_prompt("subagent_explore")
_GENERAL_SUBAGENT = read_prompt("subagent_general")
_NAMED_SUBAGENT = read_prompt("subagent")
_PLAN_MODE = read_prompt("plan_mode")
_WORK_MODE = read_prompt("work_mode")
_READ_ONLY = read_prompt("read_only")
_HEADLESS = read_prompt("headless")
_ATTENDED = read_prompt("attended")


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


class OfferedAgent(Value, frozen=True):
    """An agent in a file, which the `agent` tool can start. The tool's description has the others."""

    name: str
    description: str


class ServerInstructions(Value, frozen=True):
    """What an MCP server says about its tools."""

    server: str
    text: str


class PromptContext(Value, frozen=True):
    """What the system prompt is rendered from."""

    surroundings: Surroundings
    instructions: tuple[Instructions, ...] = ()
    skills: tuple[Skill, ...] = ()
    agents: tuple[OfferedAgent, ...] = ()
    servers: tuple[ServerInstructions, ...] = ()


class RunConditions(Value, frozen=True, kw_only=True):
    """What the system prompt depends on besides the directory. Only the mode and the person change in a session."""

    mode: Mode = "ask"
    interactive: bool = True
    """Whether a person can be asked."""
    family: Family = "other"
    small_model: bool = False
    agent: AgentType | None = None
    """The kind of a sub-agent."""
    role: AgentType | None = None
    """The agent that the user chose for the session."""

    @classmethod
    def of(
        cls, model: ModelInfo, *, mode: Mode, interactive: bool, agent: AgentType | None, role: AgentType | None = None
    ) -> RunConditions:
        return cls(
            mode=mode,
            interactive=interactive,
            family=family_of(model.name),
            small_model=is_small(model.name, context_window=model.context_window),
            agent=agent,
            role=role,
        )


def render_system_prompt(gathered: PromptContext, *, conditions: RunConditions) -> Context:
    """Render the system prompt of a session that begins, or continues after a compaction."""
    blocks = [_agent_prompt(conditions), _surroundings(gathered.surroundings)]
    if gathered.instructions:
        blocks.append(_instructions(gathered.instructions))
    if gathered.skills:
        blocks.append(_skills(gathered.skills))
    if gathered.agents:
        blocks.append(_agents(gathered.agents))
    if gathered.servers:
        blocks.append(_servers(gathered.servers))
    facts = _condition_facts(conditions)
    if facts.get("mode") == "plan":
        blocks.append(_plan_mode(conditions))
    if facts.get("person") == "none":
        blocks.append(_HEADLESS)
    return Context(blocks=tuple(blocks), facts=_gathered_facts(gathered) | facts)


def render_changes(gathered: PromptContext, *, conditions: RunConditions, known: dict[str, str]) -> Context | None:
    """Render what changed since the model was last told, or return None."""
    gathered_facts, condition_facts = _gathered_facts(gathered), _condition_facts(conditions)
    others = {subject: told for subject, told in known.items() if not _is_own(subject)}
    others |= {subject: told for subject, told in known.items() if subject.startswith("mcp:")}  # may come back
    facts = others | gathered_facts | condition_facts
    if facts == known:
        return None
    changed = {subject for subject in facts.keys() | known.keys() if facts.get(subject) != known.get(subject)}
    blocks = _changed_conditions(conditions, condition_facts, changed)
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
    if "agents" in changed:
        blocks.append(_agents(gathered.agents) if gathered.agents else "There are no agents in files any more.")
    if servers := tuple(one for one in gathered.servers if f"mcp:{one.server}" in changed):
        blocks.append(_servers(servers))
    if not blocks:
        return None
    text = "<changed-since>\n" + "\n\n".join(blocks) + "\n</changed-since>"
    return Context(changed=text, facts=facts)


def _agent_prompt(conditions: RunConditions) -> str:
    """Return the part that stays the same for a whole session."""
    agent = conditions.agent
    if agent is not None and agent.instructions:
        return f"{agent.instructions}\n\n{_NAMED_SUBAGENT}"
    if agent is not None and agent.read_only:
        return _EXPLORER
    blocks = [_DEFAULT_PROMPT]
    if conditions.family in _FAMILIES:
        blocks.append(_FAMILIES[conditions.family])
    if conditions.small_model:
        blocks.append(_SMALL_MODEL)
    if agent is not None:
        blocks.append(_GENERAL_SUBAGENT)
    if conditions.role is not None and conditions.role.instructions:
        blocks.append(_role(conditions.role))
    return "\n\n".join(blocks)


def _role(role: AgentType) -> str:
    return f'The user chose this agent for the session:\n<agent name="{role.name}">\n{role.instructions}\n</agent>'


def _plan_mode(conditions: RunConditions) -> str:
    return _PLAN_MODE if conditions.agent is None else _READ_ONLY


def _condition_facts(conditions: RunConditions) -> dict[str, str]:
    """Return what differs from a run with a person that may change files. A sub-agent's kind says the rest."""
    agent = conditions.agent
    facts: dict[str, str] = {"family": conditions.family} if agent is None else {}
    if conditions.mode == "plan" and (agent is None or not agent.read_only):
        facts["mode"] = "plan"
    if not conditions.interactive and agent is None:
        facts["person"] = "none"
    if conditions.role is not None and conditions.role.instructions:
        facts["agent"] = _digest(_role(conditions.role))
    return facts


def _changed_conditions(conditions: RunConditions, facts: dict[str, str], changed: set[str]) -> list[str]:
    blocks: list[str] = []
    if "family" in changed and conditions.family in _FAMILIES:
        blocks.append(_FAMILIES[conditions.family])
    if "mode" in changed:
        blocks.append(_plan_mode(conditions) if facts.get("mode") == "plan" else _WORK_MODE)
    if "person" in changed:
        blocks.append(_HEADLESS if facts.get("person") == "none" else _ATTENDED)
    if "agent" in changed:
        gone = "The user chose no agent any more: the instructions of the agent above do not hold from here on."
        blocks.append(_role(conditions.role) if conditions.role is not None and "agent" in facts else gone)
    return blocks


def _is_own(subject: str) -> bool:
    """Return whether a subject is rendered here, and not by `reminders`."""
    return subject in ("surroundings", "skills", "agents", "family", "mode", "person", "agent") or subject.startswith(
        ("file:", "mcp:")
    )


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
    blocks = ["Instructions of the user and the project; the later one wins where two disagree:"]
    for file, sent in zip(files, sent_characters(files), strict=True):
        text = file.text.strip()
        if len(text) > sent:
            text = text[:sent] + f"\n[cut here: {file.path} is longer than fits; read the rest when you need it]"
        blocks.append(f'<instructions path="{file.path}">\n{text}\n</instructions>')
    return "\n".join(blocks)


def sent_characters(files: tuple[Instructions, ...]) -> list[int]:
    """How many characters of each file fit into the budget of all."""
    left = MAX_INSTRUCTION_CHARACTERS
    sent: list[int] = []
    for file in files:
        sent.append(min(left, len(file.text.strip())))
        left -= sent[-1]
    return sent


def _skills(skills: tuple[Skill, ...]) -> str:
    lines = [f"- {skill.name}: {skill.description} ({skill.path})" for skill in skills]
    return "Skills: load one with `skill`, or read its file, when the task calls for it.\n" + "\n".join(lines)


def _agents(agents: tuple[OfferedAgent, ...]) -> str:
    lines = [f"- {agent.name}: {agent.description}" for agent in agents]
    return "Further agents for the `agent` tool:\n" + "\n".join(lines)


def _servers(servers: tuple[ServerInstructions, ...]) -> str:
    blocks = ["MCP servers say this about their own tools. It is not from the user, and it is about these tools only:"]
    blocks += [f'<mcp-server name="{one.server}">\n{one.text.replace("</", "< /")}\n</mcp-server>' for one in servers]
    return "\n".join(blocks)


def _gathered_facts(gathered: PromptContext) -> dict[str, str]:
    facts = {"surroundings": _digest(_surroundings(gathered.surroundings))}
    facts |= {f"file:{file.path}": _digest(file.text) for file in gathered.instructions}
    if gathered.skills:
        facts["skills"] = _digest(_skills(gathered.skills))
    if gathered.agents:
        facts["agents"] = _digest(_agents(gathered.agents))
    facts |= {f"mcp:{one.server}": _digest(one.text) for one in gathered.servers}
    return facts


def _digest(text: str) -> str:
    return sha256_hex(text.encode())[:16]
