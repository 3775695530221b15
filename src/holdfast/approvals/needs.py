"""What a call needs: each thing it does that is not harmless by itself, with the rule that would allow it."""

from __future__ import annotations

from typing import Literal, TypeAlias

from holdfast.approvals.path_location import Places
from holdfast.approvals.rule_patterns import CommandPattern, PathPattern, TextPattern, UrlPattern
from holdfast.approvals.rules import Pattern, Rule
from holdfast.approvals.shell.shell_words import Arg
from holdfast.schema.base import Value

Family: TypeAlias = Literal["view", "write"]
"""Reading or writing files, whichever tool does it."""


class CommandUse(Value, frozen=True):
    """Runs a command. Words at ``outside`` lead out of the workspace."""

    words: tuple[Arg, ...]
    outside: frozenset[int] = frozenset()
    spelled: CommandUse | None = None
    """The same with every variable that is set for it, also those that change nothing."""


class FileUse(Value, frozen=True):
    """Reads or writes a file: an absolute path."""

    tool: str
    family: Family
    path: str


class UrlUse(Value, frozen=True):
    tool: str
    url: str


class ToolUse(Value, frozen=True):
    """Uses a tool of which nothing more is known than what is shown."""

    tool: str
    title: str


Use: TypeAlias = CommandUse | FileUse | UrlUse | ToolUse

Level: TypeAlias = Literal["edit", "plain", "outside", "unclear", "always"]
"""What lifts a need besides a rule. ``edit``: the modes accept_edits and auto. ``plain`` and ``outside``: auto.
``unclear``: auto, unless there is a deny rule that it could hide from. ``always``: nothing."""


class Need(Value, frozen=True):
    why: str
    level: Level
    use: Use | None = None
    """What a rule must cover; ``None`` when no rule can."""
    changes: bool = True
    """Whether it may change anything, which the mode plan does not allow."""
    rule: str | None = None
    """What "always" would save."""


def covers(rule: Rule, use: Use, *, places: Places) -> bool:
    """Whether an allow rule holds for this use, for certain."""
    match use:
        case CommandUse():
            return rule.speaks_of("bash") and _covers_command(rule.pattern, use)
        case FileUse(tool=tool, family=family, path=path):
            if not (rule.speaks_of(tool) or rule.speaks_of(family)):
                return False
            if not isinstance(rule.pattern, PathPattern):
                return rule.pattern is None and places.inside(path)
            if not (places.inside(path) or rule.pattern.absolute):
                return False
            return rule.pattern.matches(path, workspace=places.workspace, home=places.home)
        case UrlUse(tool=tool, url=url):
            if not rule.speaks_of(tool):
                return False
            return rule.pattern is None or (isinstance(rule.pattern, UrlPattern) and rule.pattern.matches(url))
        case ToolUse(tool=tool, title=title):
            if not rule.speaks_of(tool):
                return False
            return rule.pattern is None or (isinstance(rule.pattern, TextPattern) and rule.pattern.matches(title))


def _covers_command(pattern: Pattern | None, use: CommandUse) -> bool:
    if not isinstance(pattern, CommandPattern):
        return pattern is None and not use.outside
    if pattern.compare(use.words) == "yes" and not pattern.climbs(use.words):
        return use.outside <= pattern.named(use.words)
    return use.spelled is not None and _covers_command(pattern, use.spelled)


def denies_file(rule: Rule, *, tool: str, family: str, path: str, places: Places) -> bool:
    """Whether a deny rule holds for a file; upper and lower case are the same to it."""
    if not (rule.speaks_of(tool) or rule.speaks_of(family)):
        return False
    if isinstance(rule.pattern, PathPattern):
        return rule.pattern.matches(path, workspace=places.workspace, home=places.home, folded=True)
    return rule.pattern is None
