"""Which commands git runs, and which of its subcommands only read.

Git's settings and options can start any program. Only the ones that are known to be harmless are accepted.
"""

from __future__ import annotations

import re
from typing import Final

from holdfast.approvals.shell.shell_commands import UNKNOWN_WORDS, Argv, CommandWithInner
from holdfast.approvals.shell.shell_words import Arg

_HARMLESS_GLOBALS: Final = frozenset(
    {"--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs", "--no-replace-objects"}
)
_WITHOUT_VALUE: Final = frozenset(
    {"-p", "--paginate", "--bare", "--no-lazy-fetch", "--html-path", "--man-path", "--exec-path"}
)
_HARMLESS_SETTING: Final = re.compile(
    r"(?:color\.\w+|core\.quotepath|user\.(?:name|email)|advice\.\w+|init\.defaultbranch|commit\.gpgsign"
    r"|core\.autocrlf|diff\.(?:renames|mnemonicprefix|noprefix)|log\.(?:date|decorate))=.*|core\.pager=cat",
    re.IGNORECASE | re.DOTALL,
)
_ALIAS: Final = re.compile(r"alias\.[^=]*=(!?)(.*)", re.IGNORECASE | re.DOTALL)


def unwrap_git(args: Argv) -> CommandWithInner:
    """Remove git's own options, so that rules see the subcommand first, and find the commands that git runs."""
    position, unclear, scripts, directories = 0, "", [], []
    while position < len(args) and args[position].literal and args[position].text.startswith("-"):
        text = args[position].text
        value = args[position + 1] if position + 1 < len(args) else UNKNOWN_WORDS
        if text in {"--version", "--help", "-v", "-h"}:
            break
        if text in _HARMLESS_GLOBALS:
            position += 1
            continue
        if text == "-C":
            directories.append(value)
        elif text == "-c":
            if not (value.literal and _HARMLESS_SETTING.fullmatch(value.text)):
                unclear = f"the git setting {value.text!r} can run other programs"
            if alias := _ALIAS.fullmatch(value.text):
                scripts.append(alias[2] if alias[1] else f"git {alias[2]}")
        else:
            unclear = f"the git option {text!r} can change what git runs"
        position += 1 if "=" in text or text in _WITHOUT_VALUE else 2
    rest = args[position:]
    if rest and not rest[0].literal:
        unclear = unclear or "the git subcommand is not known before it runs"
    inners, more = _inner_commands(rest)
    return CommandWithInner(
        (Arg("git"), *rest), inners, (*scripts, *more), directories=tuple(directories), unclear=unclear
    )


def _inner_commands(rest: Argv) -> tuple[tuple[Argv, ...], tuple[str, ...]]:
    """The commands that a subcommand runs: as words, and as shell text."""
    words = [arg.text for arg in rest]
    if words[:2] == ["bisect", "run"] and rest[2:]:
        return (rest[2:],), ()
    if words[:2] == ["submodule", "foreach"]:
        script = [arg.text for arg in rest[2:] if arg.text not in {"--recursive", "--quiet", "-q"}]
        return (), (" ".join(script),) if script else ()
    if words[:1] == ["rebase"]:
        following = [words[at + 1] for at, word in enumerate(words[:-1]) if word in {"-x", "--exec"}]
        attached = [word.partition("=")[2] for word in words if word.startswith("--exec=")]
        return (), (*following, *attached)
    return (), ()


GIT_READS: Final = frozenset(
    {
        *("status", "log", "diff", "show", "blame", "annotate", "shortlog", "whatchanged", "rev-parse", "rev-list"),
        *("ls-files", "ls-tree", "cat-file", "describe", "merge-base", "name-rev", "for-each-ref", "show-ref"),
        *("cherry", "diff-tree", "diff-index", "diff-files", "count-objects", "check-ignore", "check-attr", "grep"),
        *("version", "range-diff", "show-branch"),
    }
)
_LIST_WORDS: Final[dict[str, re.Pattern[str]]] = {
    "branch": re.compile(r"-[avrvi]+|--list|--all|--remotes|--show-current|--verbose|--no-color|--(?:sort|format)=.*"),
    "tag": re.compile(r"-l|--list|-n\d*|--(?:sort|format)=.*"),
    "remote": re.compile(r"-v|--verbose"),
    "stash": re.compile(r"list"),
    "worktree": re.compile(r"list|--porcelain"),
    "reflog": re.compile(r"show|HEAD|-n?\d*|--oneline"),
}
"""Subcommands that only list if all their words match; otherwise they change something."""
_REQUIRES_WORD: Final = frozenset({"stash", "worktree"})
_CONFIG_READS: Final = frozenset({"--get", "--get-all", "--get-regexp", "--list", "-l", "get", "list"})
_RUNS_OR_WRITES: Final = (
    *("--ext-diff", "--textconv", "--output", "--open-files-in-pager", "--show-signature", "--exec", "--upload-pack"),
    *("--filters", "--paginate", "--no-index", "--contents", "--write-tree"),
)
_HARMLESS_OPTIONS: Final = frozenset({"--text", "--filter", "--no-ext-diff", "--no-textconv"})


def git_only_reads(args: Argv) -> bool:
    """Whether a subcommand only reads. It may still run programs that the repository's configuration names."""
    if not args or not args[0].literal:
        return False
    name, rest = args[0].text, args[1:]
    if name in {"--version", "-v"}:
        return not rest
    if any(_may_run_or_write(arg) for arg in _options(rest)):
        return False
    if name in GIT_READS:
        return True
    words = [arg.text for arg in rest if arg.literal]
    if len(words) != len(rest):
        return False
    if name == "config":
        return bool(words) and words[0] in _CONFIG_READS
    if known := _LIST_WORDS.get(name):
        return bool(words or name not in _REQUIRES_WORD) and all(known.fullmatch(word) for word in words)
    return False


def _options(args: Argv) -> Argv:
    """The words before ``--``, which git may interpret as options."""
    for position, arg in enumerate(args):
        if arg.literal and arg.text == "--":
            return args[:position]
    return args


def _may_run_or_write(arg: Arg) -> bool:
    if not arg.literal:
        return arg.kind == "dynamic" or arg.text.startswith("-")
    if not arg.text.startswith("--"):
        return arg.text.startswith("-") and "O" in arg.text
    option, _, value = arg.text.partition("=")
    if "%G" in value:
        return True
    return option not in _HARMLESS_OPTIONS and any(bad.startswith(option) for bad in _RUNS_OR_WRITES)
