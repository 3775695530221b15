"""The rules that an approval offers to save: the narrowest rule that is still useful."""

from __future__ import annotations

import shlex
from typing import Final

from holdfast.approvals.rule_patterns import CommandPattern, escape_path, split_url
from holdfast.approvals.shell.git_reads import GIT_READS
from holdfast.approvals.shell.shell_words import Arg

_MAX_PATTERN: Final = 200
_SUBCOMMANDS: Final = frozenset(
    {
        *("git", "npm", "pnpm", "yarn", "bun", "cargo", "go", "pip", "uv", "poetry", "pdm", "hatch", "gh", "dotnet"),
        *("mvn", "gradle", "bundle", "rake", "mix", "composer", "swift", "zig", "deno"),
    }
)
"""Programs whose first argument is a subcommand."""
_RUN_SUBCOMMANDS: Final = frozenset({"run", "exec", "x", "dlx", "tool", "run-script"})
_EXACT: Final = frozenset({"config", "eval", "filter-branch", "submodule", "bisect", "rebase", "alias", "api", "-c"})
"""Subcommands that can run any program. A rule with a wildcard for them would allow anything."""
_CHECKERS: Final = frozenset(
    {
        *("pytest", "ruff", "mypy", "black", "isort", "flake8", "pylint", "pyright", "eslint", "prettier", "tsc"),
        *("jest", "vitest", "gofmt", "rustfmt", "shellcheck", "mkdir", "touch"),
    }
)
"""Programs that do the same thing with any arguments."""


def command_rule(words: tuple[Arg, ...], *, named: frozenset[int] = frozenset()) -> str | None:
    """A rule for a command; ``None`` if no rule can be offered. The rule contains the words at positions ``named``."""
    pattern = None if named else _wildcard_pattern(words)
    if pattern is None and all(arg.literal for arg in words):
        pattern = " ".join(shlex.quote(arg.text) for arg in words)
    if pattern is None or len(pattern) > _MAX_PATTERN or not pattern.isprintable():
        return None
    return f"bash: {pattern}" if CommandPattern.parse(pattern).compare(words) == "yes" else None


def _wildcard_pattern(words: tuple[Arg, ...]) -> str | None:
    if words[0].text in _CHECKERS:
        return f"{words[0].text} *"
    if words[0].text not in _SUBCOMMANDS or len(words) < 2:
        return None
    if words[0].text == "git" and words[1].text in GIT_READS:
        return None
    kept = 3 if words[1].text in _RUN_SUBCOMMANDS else 2
    start = words[:kept]
    if len(start) < kept or any(not arg.literal or arg.text.startswith("-") or arg.text in _EXACT for arg in start[1:]):
        return None
    return " ".join([*(shlex.quote(arg.text) for arg in start), "*"])


def file_rule(tool: str, shown: str) -> str | None:
    """A rule for one file. A bare name gets ``./``, because it would match in any directory."""
    if not shown.isprintable() or shown != shown.strip():
        return None
    anchored = shown if "/" in shown else f"./{shown}"
    return f"{tool}: {escape_path(anchored)}"


def url_rule(tool: str, url: str) -> str | None:
    """A rule for all URLs of a site."""
    parts = split_url(url)
    return f"{tool}: {parts.scheme}://{parts.netloc.lower()}/*" if parts else None
