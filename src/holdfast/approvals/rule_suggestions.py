"""What "always" would save: the narrowest rule that is still of use, shown exactly as it will be saved."""

from __future__ import annotations

import shlex
from typing import Final

from holdfast.approvals.rule_patterns import CommandPattern, literal_path, split_url
from holdfast.approvals.shell.git_commands import GIT_READS
from holdfast.approvals.shell.shell_words import Arg

_MAX_PATTERN: Final = 200
_SUBCOMMANDS: Final = frozenset(
    {
        *("git", "npm", "pnpm", "yarn", "bun", "cargo", "go", "pip", "uv", "poetry", "pdm", "hatch", "gh", "dotnet"),
        *("mvn", "gradle", "bundle", "rake", "mix", "composer", "swift", "zig", "deno"),
    }
)
"""Programs whose first word says what they do."""
_RUN_WHAT_COMES_NEXT: Final = frozenset({"run", "exec", "x", "dlx", "tool", "run-script"})
_EXACT: Final = frozenset({"config", "eval", "filter-branch", "submodule", "bisect", "rebase", "alias", "api", "-c"})
"""Subcommands that can be told to run anything, so that a wide rule would allow anything."""
_CHECKERS: Final = frozenset(
    {
        *(
            "pytest",
            "ruff",
            "mypy",
            "black",
            "isort",
            "flake8",
            "pylint",
            "pyright",
            "eslint",
            "prettier",
            "tsc",
            "jest",
        ),
        *("vitest", "gofmt", "rustfmt", "shellcheck", "mkdir", "touch"),
    }
)
"""Programs that do the same whatever they are given."""


def command_rule(words: tuple[Arg, ...], *, named: frozenset[int] = frozenset()) -> str | None:
    """A rule for a command, or ``None`` where none can be offered. Words at ``named`` must be in it."""
    pattern = None if named else _wide(words)
    if pattern is None and all(arg.literal for arg in words):
        pattern = " ".join(shlex.quote(arg.text) for arg in words)
    if pattern is None or len(pattern) > _MAX_PATTERN or not pattern.isprintable():
        return None
    return f"bash: {pattern}" if CommandPattern.read(pattern).compare(words) == "yes" else None


def _wide(words: tuple[Arg, ...]) -> str | None:
    if words[0].text in _CHECKERS:
        return f"{words[0].text} *"
    if words[0].text not in _SUBCOMMANDS or len(words) < 2:
        return None
    if words[0].text == "git" and words[1].text in GIT_READS:
        return None
    kept = 3 if words[1].text in _RUN_WHAT_COMES_NEXT else 2
    start = words[:kept]
    if len(start) < kept or any(not arg.literal or arg.text.startswith("-") or arg.text in _EXACT for arg in start[1:]):
        return None
    return " ".join([*(shlex.quote(arg.text) for arg in start), "*"])


def file_rule(tool: str, shown: str) -> str | None:
    """A rule for one file. A bare name would hold at any depth, so it is anchored."""
    if not shown.isprintable() or shown != shown.strip():
        return None
    anchored = shown if "/" in shown else f"./{shown}"
    return f"{tool}: {literal_path(anchored)}"


def url_rule(tool: str, url: str) -> str | None:
    """A rule for a site."""
    parts = split_url(url)
    return f"{tool}: {parts.scheme}://{parts.netloc.lower()}/*" if parts else None
