"""Commands that a person calls as ``/name``, and the prompts that they become."""

from __future__ import annotations

from typing import Literal, TypeAlias

from holdfast.schema.base import Value
from holdfast.schema.messages import File

CommandKind = Literal["command", "skill", "mcp"]
"""A Markdown file, a skill, or a prompt of an MCP server."""


class PromptCommand(Value, frozen=True, kw_only=True):
    """A command that the server knows. Clients complete it and send it as it is typed."""

    name: str
    """Without the slash."""
    description: str = ""
    argument_hint: str = ""
    source: str = ""
    """The file, or the name of the server."""
    kind: CommandKind = "command"


class CommandOutput(Value, frozen=True, tag="command_output"):
    """Stands for the output of a shell command. The command runs if the approvals allow it."""

    command: str


class FileMention(Value, frozen=True, tag="file_mention"):
    """Stands for a file that is read if the approvals allow it."""

    path: str


PromptPiece: TypeAlias = str | CommandOutput | FileMention


class ExpandedPrompt(Value, frozen=True):
    """What a prompt that names a command becomes."""

    pieces: tuple[PromptPiece, ...]
    files: tuple[File, ...] = ()
