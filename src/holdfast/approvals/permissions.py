"""The permissions that a call needs, and the rules that give or refuse them.

A permission stands for one thing that the call does and that is not harmless in itself.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from holdfast.approvals.rule_patterns import CommandPattern, PathPattern, TextPattern, UrlPattern
from holdfast.approvals.rules import Pattern, Rule
from holdfast.approvals.shell.shell_words import Arg
from holdfast.approvals.workspace_paths import WorkspacePaths
from holdfast.schema.base import Value

FileAccess: TypeAlias = Literal["view", "write"]
"""Reading or writing a file, with any tool."""


class CommandUse(Value, frozen=True):
    """Runs a command."""

    words: tuple[Arg, ...]
    must_name: frozenset[int] = frozenset()
    """The positions of words that a rule must name itself: files outside the workspace, words with expansions, and
    options with which a program that usually reads does more."""
    with_all_variables: CommandUse | None = None
    """The same command with every variable that is set for it, including harmless ones."""
    tool: str = "bash"
    """What a rule must name: ``bash``, or an `Escalation`."""


class FileUse(Value, frozen=True):
    """Reads or writes the file at an absolute path."""

    tool: str
    access: FileAccess
    path: str


class UrlUse(Value, frozen=True):
    tool: str
    url: str


class ToolUse(Value, frozen=True):
    """Uses a tool of which only the title of the call is known."""

    tool: str
    title: str


class McpUse(Value, frozen=True):
    """Uses a tool of an MCP server."""

    tool: str
    definition: str


Use: TypeAlias = CommandUse | FileUse | UrlUse | ToolUse | McpUse

Level: TypeAlias = Literal["edit", "plain", "outside", "unclear", "always"]
"""Which modes give the permission without a rule. ``edit``: accept_edits and auto. ``plain`` and ``outside``: auto.
``unclear``: auto, unless a deny rule could apply to what is unclear. ``always``: none."""


class Permission(Value, frozen=True):
    why: str
    level: Level
    use: Use | None = None
    """What an allow rule must cover; ``None`` if no rule can give the permission."""
    changes: bool = True
    """Whether the call may change something. The mode plan denies that."""
    rule: str | None = None
    """The rule that the answer "always" saves."""
    told: str = ""
    """The reason for a model that is denied, if it differs from ``why``."""


def covers(rule: Rule, use: Use, *, workspace: WorkspacePaths) -> bool:
    """Whether an allow rule certainly covers this use."""
    match use:
        case CommandUse():
            return rule.applies_to(use.tool) and _covers_command(rule.pattern, use)
        case FileUse(tool=tool, access=access, path=path):
            if not (rule.applies_to(tool) or rule.applies_to(access)):
                return False
            if not isinstance(rule.pattern, PathPattern):
                return rule.pattern is None and workspace.contains(path)
            if not (workspace.contains(path) or rule.pattern.absolute):
                return False
            return rule.pattern.matches(path, workspace=workspace.root, home=workspace.home)
        case UrlUse(tool=tool, url=url):
            if not rule.applies_to(tool):
                return False
            return rule.pattern is None or (isinstance(rule.pattern, UrlPattern) and rule.pattern.matches(url))
        case ToolUse(tool=tool, title=title):
            if not rule.applies_to(tool):
                return False
            return rule.pattern is None or (isinstance(rule.pattern, TextPattern) and rule.pattern.matches(title))
        case McpUse(tool=tool, definition=definition):
            return matches_mcp_tool(rule, tool, definition=definition)


def matches_mcp_tool(rule: Rule, tool: str, *, definition: str) -> bool:
    """Whether a rule is for this tool of an MCP server: ``mcp``, ``mcp: pattern``, or the name of the tool."""
    if rule.tool == "mcp":
        names = (tool, f"{tool}#{definition}")
        return rule.pattern is None or (
            isinstance(rule.pattern, TextPattern) and any(rule.pattern.matches(name) for name in names)
        )
    return rule.applies_to(tool) and rule.pattern is None


def _covers_command(pattern: Pattern | None, use: CommandUse) -> bool:
    if not isinstance(pattern, CommandPattern):
        return pattern is None and not use.must_name
    if pattern.compare(use.words) == "yes" and not pattern.wildcard_matches_parent(use.words):
        return use.must_name <= pattern.named_words(use.words)
    return use.with_all_variables is not None and _covers_command(pattern, use.with_all_variables)


def denies_file(rule: Rule, *, tool: str, access: FileAccess, path: str, workspace: WorkspacePaths) -> bool:
    """Whether a deny rule applies to a file. Deny rules ignore case."""
    if not (rule.applies_to(tool) or rule.applies_to(access)):
        return False
    if isinstance(rule.pattern, PathPattern):
        return rule.pattern.matches(path, workspace=workspace.root, home=workspace.home, ignore_case=True)
    return rule.pattern is None
