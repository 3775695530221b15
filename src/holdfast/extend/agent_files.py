"""Reads agents: Markdown files whose text is the system prompt of an agent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.config.settings import AgentSettings
from holdfast.extend.front_matter import MarkdownFiles, SourceFolder, UnusableFile, find_files, list_field, text_field
from holdfast.schema.base import Value
from holdfast.tools.dialects.call_translation import own_name

_NAME = re.compile(r"[A-Za-z0-9][\w./-]{0,63}")
_USES = ("primary", "subagent", "all")
_MAX_STEPS = 10_000
_EDITING_TOOLS = ("edit", "multiedit", "write", "apply_patch")
"""What opencode's permission ``edit`` covers."""


class AgentFile(Value, frozen=True, kw_only=True):
    name: str
    path: str
    origin: str
    settings: AgentSettings = AgentSettings()
    is_subagent: bool = True
    """Whether the `agent` tool may start it."""
    is_disabled: bool = False
    problem: str = ""
    """Why it cannot be used."""


def read_agents(folders: tuple[SourceFolder, ...], files: MarkdownFiles) -> tuple[AgentFile, ...]:
    """Return the agents, also those that cannot be used, ordered by name. A later folder overrides an earlier one."""
    found: dict[str, AgentFile] = {}
    for folder in folders:
        for path in find_files(folder.path):
            agent = _read_agent(path, folder, files)
            found[agent.name] = agent
    return tuple(found[name] for name in sorted(found))


def _read_agent(path: Path, folder: SourceFolder, files: MarkdownFiles) -> AgentFile:
    name = path.relative_to(folder.path).with_suffix("").as_posix()
    try:
        found = files.read(path, inside=folder.inside)
        name = text_field(found.fields, "name") or name
        return _agent(name, path, folder, found.fields, found.body)
    except UnusableFile as why:
        return AgentFile(name=name, path=str(path), origin=folder.origin, problem=str(why))


def _agent(name: str, path: Path, folder: SourceFolder, fields: Mapping[str, Any], body: str) -> AgentFile:
    if not _NAME.fullmatch(name):
        raise UnusableFile(f"the name {name!r} must be of letters, digits, '-', '_' and '.'")
    description = text_field(fields, "description")
    if not description:
        raise UnusableFile("the front matter has no 'description'")
    if not body.strip():
        raise UnusableFile("the file has no text below its front matter")
    mode = text_field(fields, "mode").lower()
    if mode and mode not in (*_USES, "plan"):
        raise UnusableFile(f"there is no mode {mode!r}; use 'plan' for an agent that only reads, or {', '.join(_USES)}")
    model = text_field(fields, "model").partition("#")[0]
    settings = AgentSettings(
        description=description,
        prompt=body.strip(),
        tools=_tools(fields),
        model=None if model in ("", "inherit") else model,
        max_steps=_steps(fields),
        read_only="plan" in (mode, text_field(fields, "permissionMode")),
    )
    return AgentFile(
        name=name,
        path=str(path),
        origin=folder.origin,
        settings=settings,
        is_subagent=mode != "primary",
        is_disabled="true" in (text_field(fields, "disable"), text_field(fields, "disabled")),
    )


def _tools(fields: Mapping[str, Any]) -> tuple[str, ...]:
    """The patterns of the tools: those that it may use, then with ``!`` those that it may not use."""
    allowed = list_field(fields, "tools")
    denied = [tool_name(name) for name in list_field(fields, "disallowedTools", "disallowed-tools") or ()]
    table = fields.get("tools")
    if isinstance(table, dict):
        denied += [tool_name(name) for name, use in table.items() if use == "false"]
    permissions = fields.get("permission")
    if isinstance(permissions, dict):
        for name, use in permissions.items():
            if use == "deny":
                denied += _EDITING_TOOLS if name == "edit" else [tool_name(name)]
    own = tuple(tool_name(name) for name in allowed) if allowed is not None else ("*",)
    return tuple(dict.fromkeys((*own, *(f"!{name}" for name in denied))))


def tool_name(written: str) -> str:
    """Our name of a tool as another agent writes it, without the arguments in parentheses."""
    return own_name(written.partition("(")[0].strip(), ())


def _steps(fields: Mapping[str, Any]) -> int | None:
    written = next((text_field(fields, name) for name in ("steps", "maxSteps", "max_steps") if name in fields), "")
    if not written:
        return None
    if not written.isdecimal() or not 0 < int(written) <= _MAX_STEPS:
        raise UnusableFile(f"'steps' is {written!r}; it must be a number from 1 to {_MAX_STEPS:,}")
    return int(written)
