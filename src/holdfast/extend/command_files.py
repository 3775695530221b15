"""Reads commands: Markdown files whose text becomes a prompt when a person types ``/name``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.extend.front_matter import MarkdownFiles, SourceFolder, UnusableFile, find_files, list_field, text_field
from holdfast.schema.base import Value
from holdfast.schema.runs import MODES_BY_FREEDOM, Mode

_NAME = re.compile(r"[A-Za-z0-9][\w.:/-]{0,99}")
_FOREIGN_MODES = {"read-only": "plan", "readonly": "plan", "acceptedits": "accept_edits", "default": "ask"}
_FOREIGN_AGENTS = {"build": "", "plan": "plan"}
"""opencode's main agents, as our modes."""
_MAX_DESCRIPTION = 300


class CommandFile(Value, frozen=True, kw_only=True):
    name: str
    path: str
    origin: str
    description: str = ""
    argument_hint: str = ""
    model: str = ""
    mode: Mode | None = None
    """It can only narrow the mode of a run."""
    agent: str = ""
    tools: tuple[str, ...] | None = None
    """The tools that a run may use, as they are written. None: all."""
    template: str = ""
    names_arguments: bool = False
    """Whether ``$NAME`` stands for an argument, as in Crush."""
    problem: str = ""
    """Why it cannot be used."""


def read_commands(folders: tuple[SourceFolder, ...], files: MarkdownFiles) -> tuple[CommandFile, ...]:
    """Return the commands, also those that cannot be used, ordered by name. A later folder overrides an earlier one."""
    found: dict[str, CommandFile] = {}
    for folder in folders:
        for path in find_files(folder.path):
            command = _read_command(path, folder, files)
            found[command.name] = command
    return tuple(found[name] for name in sorted(found))


def _read_command(path: Path, folder: SourceFolder, files: MarkdownFiles) -> CommandFile:
    name = command_name(path.relative_to(folder.path), product=folder.product)
    try:
        if not _NAME.fullmatch(name):
            raise UnusableFile(f"the name {name!r} must be of letters, digits, '-', '_' and '.'")
        found = files.read(path, inside=folder.inside)
        if not found.body.strip():
            raise UnusableFile("the file has no text below its front matter")
        return _command(name, path, folder, found.fields, found.body)
    except UnusableFile as why:
        return CommandFile(name=name, path=str(path), origin=folder.origin, problem=str(why))


def _command(name: str, path: Path, folder: SourceFolder, fields: Mapping[str, Any], body: str) -> CommandFile:
    agent = text_field(fields, "agent")
    mode = text_field(fields, "mode").lower().replace("-", "_") or _FOREIGN_AGENTS.get(agent, "")
    mode = _FOREIGN_MODES.get(mode.replace("_", ""), mode)
    own = next((known for known in MODES_BY_FREEDOM if known == mode), None)
    if mode and own is None:
        raise UnusableFile(f"there is no mode {mode!r}; use one of {', '.join(MODES_BY_FREEDOM)}")
    model = text_field(fields, "model").partition("#")[0]
    return CommandFile(
        name=name,
        path=str(path),
        origin=folder.origin,
        description=(text_field(fields, "description") or _first_line(body))[:_MAX_DESCRIPTION],
        argument_hint=text_field(fields, "argument-hint") or text_field(fields, "argument_hint"),
        model="" if model == "inherit" else model,
        mode=own,
        agent="" if agent in _FOREIGN_AGENTS else agent,
        tools=list_field(fields, "allowed-tools", "allowed_tools", "tools"),
        template=body.strip(),
        names_arguments=folder.product == "crush",
    )


def command_name(relative: Path, *, product: str) -> str:
    """The name of a command by the rules of the product whose folder it is in."""
    parts = relative.with_suffix("").parts
    if product == "claude":
        return parts[-1]
    return ("/" if product == "opencode" else ":").join(parts)


def _first_line(body: str) -> str:
    return next((line.strip("# \t") for line in body.splitlines() if line.strip("# \t")), "")
