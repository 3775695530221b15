"""The commands of a workspace: its files, its skills and the prompts of its MCP servers, called as ``/name``."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from holdfast.errors import BadRequest, ToolError
from holdfast.extend.agent_files import tool_name
from holdfast.extend.command_files import CommandFile
from holdfast.extend.file_extensions import FileExtensions
from holdfast.extend.mcp.mcp_resources import McpResources
from holdfast.extend.mcp.mcp_tools import McpResourceArguments, McpResourceTool
from holdfast.extend.prompt_template import fill_template
from holdfast.extend.skills import SkillFile
from holdfast.schema.commands import ExpandedPrompt, FileMention, PromptCommand, PromptPiece, ResourceMention
from holdfast.schema.messages import ToolCall, ToolSpec
from holdfast.tools.protocol import PreparedCall
from holdfast.tools.registry import OfferedTools, may_use
from holdfast.workspace.workspace_agents import NOT_TRUSTED

_PREFIXES = ("user:", "project:")
"""What Crush puts before the names of commands."""
_COMMAND = re.compile(r"[A-Za-z][\w-]*(:[\w-]+)*")
"""What a person types who means a command. A path has a second slash or a dot."""


class PromptSource(Protocol):
    """Further commands, such as the prompts of MCP servers."""

    def commands(self) -> Sequence[PromptCommand]: ...

    async def wait_for(self, name: str) -> str:
        """Wait until it is known whether there is a command. Return why there is none, if it would be one of these."""

    async def expand(self, name: str, arguments: str) -> ExpandedPrompt:
        """Return what a command of this source becomes. Raises a `HoldfastError` that ends the run."""


class CalledCommand(NamedTuple):
    """A command and the arguments with which a prompt calls it."""

    command: CommandFile | SkillFile | PromptSource
    name: str
    arguments: str

    @property
    def file(self) -> CommandFile | None:
        return self.command if isinstance(self.command, CommandFile) else None


class PromptCommands:
    """A command file comes before a skill of the same name, and both before other sources."""

    def __init__(self, directory: Path, files: FileExtensions, resources: McpResources) -> None:
        self._directory = directory
        self._files = files
        self.resources = resources
        self.sources: list[PromptSource] = []

    def list(self) -> tuple[PromptCommand, ...]:
        found: dict[str, PromptCommand] = {}
        for source in self.sources:
            found |= {command.name: command for command in source.commands()}
        for skill in self._files.found.usable_skills:
            found[skill.name] = PromptCommand(
                name=skill.name,
                description=skill.description,
                argument_hint=skill.argument_hint,
                source=skill.path,
                kind="skill",
            )
        for file in self._files.found.usable_commands:
            found[file.name] = PromptCommand(
                name=file.name, description=file.description, argument_hint=file.argument_hint, source=file.path
            )
        return tuple(found[name] for name in sorted(found))

    def find(self, prompt: str) -> CalledCommand | None:
        """Return the command that a prompt calls; None if it calls none."""
        if not prompt.startswith("/"):
            return None
        words = prompt[1:].split(maxsplit=1)
        if not words or not prompt[1:].startswith(words[0]):
            return None
        typed, arguments = words[0], words[1] if len(words) > 1 else ""
        for name in (typed, *(typed.removeprefix(prefix) for prefix in _PREFIXES if typed.startswith(prefix))):
            if command := self._named(name):
                return CalledCommand(command, name, arguments)
        return None

    def _named(self, name: str) -> CommandFile | SkillFile | PromptSource | None:
        found = self._files.found
        for file in found.usable_commands:
            if file.name == name:
                return file
        for skill in found.usable_skills:
            if skill.name == name:
                return skill
        return next(
            (source for source in self.sources if any(command.name == name for command in source.commands())), None
        )

    def refuse_mistake(self, prompt: str, *, is_last_chance: bool = False) -> None:
        """Raise `BadRequest` if a prompt that calls no command seems to be meant to, so that no model gets it.

        Commands of MCP servers have a colon and may become known later: they are refused when the run starts, with
        ``is_last_chance``. Blocking.
        """
        typed = prompt[1:].split(maxsplit=1)[0] if prompt[1:].strip() else ""
        if not prompt.startswith(f"/{typed}") or not typed:
            return
        name = next((typed.removeprefix(prefix) for prefix in _PREFIXES if typed.startswith(prefix)), typed)
        found = self._files.found
        files: tuple[CommandFile | SkillFile, ...] = (*found.commands, *found.skills)
        for file in files:
            if file.name == name and file.problem:
                raise BadRequest(f"/{name} cannot be used: {file.path} {file.problem}", code="unusable_command")
        untrusted = self._files.find_untrusted("skills") | self._files.find_untrusted("commands")
        if path := untrusted.get(name):
            message = f"/{name} is in {path}, which is {NOT_TRUSTED}"
            raise BadRequest(message, code="not_trusted", detail={"command": name})
        if not _COMMAND.fullmatch(typed) or os.path.lexists(f"/{typed}") or (":" in typed and not is_last_chance):
            return
        known = [command.name for command in self.list()]
        close = get_close_matches(name, known, n=3)
        hint = f"; did you mean {' or '.join(f'/{one}' for one in close)}?" if close else ""
        raise BadRequest(
            f"there is no command /{typed}{hint}; a prompt that is not a command must not begin with '/'",
            code="unknown_command",
            detail={"command": typed, "close": close},
        )

    async def expand(self, prompt: str) -> ExpandedPrompt | None:
        called = self.find(prompt)
        if called is None and prompt.startswith("/"):
            called = await self._find_later(prompt)
        if called is None:
            return None
        match called.command:
            case CommandFile() as file:
                return ExpandedPrompt(await asyncio.to_thread(self._pieces, file, called.arguments))
            case SkillFile() as skill:
                from holdfast.extend.skill_tool import skill_text

                text = await asyncio.to_thread(skill_text, skill)
                asked = called.arguments.strip() or "Follow the skill."
                return ExpandedPrompt((f"{text}\n\n{asked}",))
            case source:
                return await source.expand(called.name, called.arguments)

    async def _find_later(self, prompt: str) -> CalledCommand | None:
        """Find a command whose source is not ready yet. Raises `BadRequest` if there is none."""
        name = next(iter(prompt[1:].split(maxsplit=1)), "")
        for source in self.sources:
            if why := await source.wait_for(name):
                raise BadRequest(f"/{name}: {why}", code="unknown_command", detail={"command": name})
        if called := self.find(prompt):
            return called
        await asyncio.to_thread(self.refuse_mistake, prompt, is_last_chance=True)
        return None

    def _pieces(self, file: CommandFile, arguments: str) -> tuple[PromptPiece, ...]:
        """What looks like a mention and names no file is text. Blocking: the arguments may be long."""
        pieces = fill_template(file.template, arguments, names_arguments=file.names_arguments)
        return tuple(self._with_target(piece) for piece in pieces)

    def _with_target(self, piece: PromptPiece) -> PromptPiece:
        match piece:
            case FileMention(path) if not self._is_file(path):
                return f"@{path}"
            case ResourceMention(server) if not self.resources.has_server(server):
                return piece.text
            case _:
                return piece

    def _is_file(self, path: str) -> bool:
        return os.path.isfile(os.path.join(self._directory, os.path.expanduser(path)))


class WorkspacePromptExpander:
    """The `PromptExpander` of one run. What a command itself runs is not limited by its ``allowed-tools``."""

    def __init__(self, commands: PromptCommands, tools: OfferedTools) -> None:
        self._commands = commands
        self.toolbox = _ExpansionTools(tools, McpResourceTool(commands.resources.servers))

    async def expand(self, prompt: str) -> ExpandedPrompt | None:
        expanded = await self._commands.expand(prompt)
        if expanded is None and (pieces := self._commands.resources.read_prompt(prompt)) is not None:
            return ExpandedPrompt(pieces)
        return expanded


class _ExpansionTools:
    """The tools of a run, and the one that reads resources, which a run may not have yet."""

    def __init__(self, tools: OfferedTools, resource_tool: McpResourceTool) -> None:
        self._tools = tools
        self._resource_tool = resource_tool

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return self._tools.specs

    def update(self) -> None:
        self._tools.update()

    def prepare(self, call: ToolCall) -> PreparedCall:
        if call.name == McpResourceTool.name:
            return PreparedCall(self._resource_tool, msgspec.convert(call.arguments, McpResourceArguments))
        return self._tools.prepare(call)


class CommandTools:
    """The tools of a run whose command allows only some of them.

    The model is told about all of them, so that the provider's cache stays valid; calls of others are refused. Tools
    without effects are always allowed.
    """

    def __init__(self, tools: OfferedTools, command: CommandFile) -> None:
        self._tools = tools
        self._command = command
        self._allowed = None if command.tools is None else tuple(tool_name(name) for name in command.tools)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return self._tools.specs

    def update(self) -> None:
        self._tools.update()

    def prepare(self, call: ToolCall) -> PreparedCall:
        prepared = self._tools.prepare(call)
        if self._allowed is None or prepared.tool.effect == "none":
            return prepared
        name = prepared.tool.name
        if called_name := getattr(prepared.tool, "called_name", None):  # a tool that calls another one
            name = name if name in self._allowed else called_name(prepared.arguments)
        if may_use(name, self._allowed):
            return prepared
        allowed = ", ".join(self._allowed) or "none"
        raise ToolError(f"tool {name!r} is not available: /{self._command.name} allows only {allowed}")
