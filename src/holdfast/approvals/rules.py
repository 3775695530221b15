r"""Approval rules: what a person wrote, or saved, about what a tool may do.

A rule is ``tool`` or ``tool: pattern``. The tool's name may end in ``*`` (``mcp_docs_*``). ``write`` speaks of every
tool that writes files, and of redirections in shell lines; ``view`` of every tool that reads files. What a pattern
means depends on the tool:

``bash: git status *``
    One command, word by word, in the shell's quoting. It is compared with the words the program would get, never with
    the line's text, so nothing can be smuggled in behind ``;`` or a new line. ``*`` within a word matches any
    characters of that word, ``?`` one character; as the last word, ``*`` matches none or more further words. Quoted or
    escaped, they are plain characters. In an allow rule a wildcard within a word never matches a ``..`` component.
    Variables set for the command are words before it (``bash: CI=1 make *``).
``write: docs/*``
    A path. Relative ones start at the workspace, others at ``/`` or ``~/``; ``*`` matches any characters, ``/`` too.
    Without a ``/`` it is a name, at any depth (``./name`` is only the one). What matches a directory holds
    for everything below it.
``fetch: https://docs.python.org/*``
    A URL: scheme, host and port are compared as such, ``*.`` may start the host, the path is matched as text.
``mcp_docs_read: *.md``
    Any other tool: matched against what a person is shown as its title.

An allow rule must match for certain, and only what it names itself may lie outside of the workspace. A deny rule also
holds against a program's path (``/usr/bin/git``), and *may* match where a word is only known when it runs; what may be
denied is asked.
"""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

from holdfast.approvals.rule_patterns import CommandPattern, PathPattern, TextPattern, UrlPattern
from holdfast.errors import ConfigError
from holdfast.schema.base import Value

PATH_TOOLS: Final = frozenset({"view", "edit", "multiedit", "write", "apply_patch", "ls", "glob", "grep"})
URL_TOOLS: Final = frozenset({"fetch"})
_TOOL: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*\*?")

Pattern: TypeAlias = CommandPattern | PathPattern | UrlPattern | TextPattern
Origin: TypeAlias = Literal["configured", "saved", "granted"]


class Rule(Value, frozen=True):
    """A rule as it was written, read."""

    text: str
    tool: str
    pattern: Pattern | None = None

    def speaks_of(self, tool: str) -> bool:
        if self.tool.endswith("*"):
            return tool.startswith(self.tool[:-1])
        return self.tool == tool


class Rules(Value, frozen=True):
    """All rules that hold for a run. ``grants`` are those a person gave for this session."""

    deny: tuple[Rule, ...] = ()
    allow: tuple[Rule, ...] = ()
    grants: tuple[Rule, ...] = ()


def read_rules(*, deny: tuple[str, ...] = (), allow: tuple[str, ...] = (), grants: tuple[str, ...] = ()) -> Rules:
    """Rules from their texts; a bad one is an error that says what is wrong with it."""
    return Rules(
        deny=tuple(read_rule(text) for text in deny),
        allow=tuple(read_rule(text) for text in allow),
        grants=tuple(read_rule(text) for text in grants),
    )


def read_rule(text: str) -> Rule:
    """One rule from its text."""
    tool, colon, pattern = text.partition(":")
    tool, pattern = tool.strip(), pattern.strip()
    if not _TOOL.fullmatch(tool):
        raise bad_rule(text, f"{tool!r} is not a tool's name", hint="write 'tool' or 'tool: pattern'")
    if not colon:
        return Rule(text.strip(), tool)
    if not pattern:
        raise bad_rule(text, "the pattern is empty", hint=f"write {tool!r} alone to speak of every use")
    try:
        return Rule(f"{tool}: {pattern}", tool, _read_pattern(tool, pattern))
    except ValueError as problem:
        raise bad_rule(text, str(problem)) from problem


def bad_rule(text: str, problem: str, *, hint: str = "") -> ConfigError:
    message = f"approval rule {text!r}: {problem}" + (f"; {hint}" if hint else "")
    return ConfigError(message, code="bad_rule", detail={"rule": text})


def _read_pattern(tool: str, pattern: str) -> Pattern:
    if tool == "bash":
        return CommandPattern.read(pattern)
    if tool in URL_TOOLS or (tool == "download" and "://" in pattern):
        return UrlPattern.read(pattern)
    if tool in PATH_TOOLS or tool == "download":
        return PathPattern.read(pattern)
    return TextPattern.read(pattern)
