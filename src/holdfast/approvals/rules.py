r"""Approval rules, written by the user or saved from an answer.

A rule is ``tool`` or ``tool: pattern``. The tool's name may end with ``*`` (``job_*``). ``write`` applies to every
tool that writes files and to redirections in commands; ``view`` applies to every tool that reads files. The meaning of
the pattern depends on the tool:

``bash: git status *``
    One command, word by word, quoted as in the shell. The pattern is compared with the words that the program would
    get, not with the text of the line, so ``;`` or a new line cannot add a command to it. Inside a word, ``*`` matches
    any characters of that word and ``?`` matches one. As the last word, ``*`` matches zero or more further words.
    Quoted or escaped, both are ordinary characters. In an allow rule, a wildcard inside a word does not match a ``..``
    component. Variables that are set for the command are words before it (``bash: CI=1 make *``).
``unconfined: git push *``, ``network: npm install *``
    One command that may run without the sandbox, or with the network, when the model asks for it. Written as for bash.
``write: docs/*``
    A path: relative to the workspace, or starting with ``/`` or ``~/``. ``*`` matches any characters, including ``/``.
    A pattern without ``/`` is a file name and matches in any directory (``./name`` matches only in the workspace's
    root). A pattern that matches a directory matches everything below it.
``fetch: https://docs.python.org/*``
    A URL. Scheme, host and port must be equal; the host may start with ``*.``; the path is matched as text.
``mcp: github__*``
    Tools of MCP servers, by their names. A rule that an answer saved ends with ``#`` and a digest of the definition of
    the tool: when the server changes the tool, the rule does not match any more.
``web_search: python *``
    Any other tool: compared with the title of the call.

An allow rule must match with certainty. It covers a file outside the workspace, a word with an expansion, and an option
with which a program that usually reads does more (``git log --output=f``) only if it names that word. A deny
rule also matches a program by its path (``/usr/bin/git``). If the value of a word is not known before the command runs,
a deny rule *may* match; such a command needs approval.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, TypeAlias

from holdfast.approvals.rule_patterns import CommandPattern, PathPattern, TextPattern, UrlPattern
from holdfast.errors import ConfigError
from holdfast.schema.base import Value

_PATH_TOOLS: Final = frozenset(
    {
        *{"view", "edit", "multiedit", "write", "apply_patch", "ls", "glob", "grep"},
        *{"diagnostics", "definition", "references", "symbols", "rename"},
    }
)
_URL_TOOLS: Final = frozenset({"fetch"})
_TOOL: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*\*?")

Pattern: TypeAlias = CommandPattern | PathPattern | UrlPattern | TextPattern


class Rule(Value, frozen=True):
    """A parsed rule."""

    text: str
    tool: str
    pattern: Pattern | None = None

    def applies_to(self, tool: str) -> bool:
        """Whether the rule is for this tool; the pattern is not compared."""
        if self.tool.endswith("*"):
            return tool.startswith(self.tool[:-1])
        return self.tool == tool


class Rules(Value, frozen=True):
    """All rules of a run. ``grants`` come from answers that allow a rule for the session."""

    deny: tuple[Rule, ...] = ()
    allow: tuple[Rule, ...] = ()
    grants: tuple[Rule, ...] = ()


@lru_cache(maxsize=256)
def parse_rules(*, deny: tuple[str, ...] = (), allow: tuple[str, ...] = (), grants: tuple[str, ...] = ()) -> Rules:
    """Parse rules. `ConfigError` for the first invalid one. The same rules are parsed once, not for each call."""
    return Rules(
        deny=tuple(parse_rule(text) for text in deny),
        allow=tuple(parse_rule(text) for text in allow),
        grants=tuple(parse_rule(text) for text in grants),
    )


def parse_rule(text: str) -> Rule:
    """Parse one rule. `ConfigError` if it is invalid."""
    tool, colon, pattern = text.partition(":")
    tool, pattern = tool.strip(), pattern.strip()
    if not _TOOL.fullmatch(tool):
        raise _invalid_rule(text, f"{tool!r} is not a tool name", hint="write 'tool' or 'tool: pattern'")
    if not colon:
        return Rule(text.strip(), tool)
    if not pattern:
        raise _invalid_rule(text, "the pattern is empty", hint=f"write {tool!r} alone for a rule about every call")
    try:
        return Rule(f"{tool}: {pattern}", tool, _parse_pattern(tool, pattern))
    except ValueError as problem:
        raise _invalid_rule(text, str(problem)) from problem


def _invalid_rule(text: str, problem: str, *, hint: str = "") -> ConfigError:
    message = f"approval rule {text!r}: {problem}" + (f"; {hint}" if hint else "")
    return ConfigError(message, code="bad_rule", detail={"rule": text})


def _parse_pattern(tool: str, pattern: str) -> Pattern:
    if tool in ("bash", "network", "unconfined"):
        return CommandPattern.parse(pattern)
    if tool in _URL_TOOLS or (tool == "download" and "://" in pattern):
        return UrlPattern.parse(pattern)
    if tool in _PATH_TOOLS or tool == "download":
        return PathPattern.parse(pattern)
    return TextPattern.parse(pattern)
