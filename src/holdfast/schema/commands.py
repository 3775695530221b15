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


class ResourceMention(Value, frozen=True, tag="resource_mention"):
    """Stands for a resource of an MCP server that is read if the approvals allow it."""

    server: str
    uri: str
    typed: bool = False
    """Whether the user typed it in a prompt. A mention in the file of a command is not the user's own."""

    @property
    def text(self) -> str:
        return f"@{self.server}:{self.uri}"


PromptPiece: TypeAlias = str | CommandOutput | FileMention | ResourceMention

MentionKind = Literal["file", "resource", "template"]


class OfferedMention(Value, frozen=True):
    """A completion of what is typed after an ``@``."""

    text: str
    """What to insert, without the ``@``. Of a template only its beginning, up to the first variable."""
    kind: MentionKind = "file"
    description: str = ""


class ExpandedPrompt(Value, frozen=True):
    """What a prompt that names a command becomes."""

    pieces: tuple[PromptPiece, ...]
    files: tuple[File, ...] = ()
