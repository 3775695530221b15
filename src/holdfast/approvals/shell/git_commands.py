"""What git runs and what it only reads. Its settings and options can start any program, so few are known."""

from __future__ import annotations

import re
from typing import Final

from holdfast.approvals.shell.peeled_command import MORE, Argv, Branch
from holdfast.approvals.shell.shell_words import Arg

_PLAIN: Final = frozenset({"--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs", "--no-replace-objects"})
_ALONE: Final = frozenset({"-p", "--paginate", "--bare", "--no-lazy-fetch", "--html-path", "--man-path", "--exec-path"})
_HARMLESS: Final = re.compile(
    r"(?:color\.\w+|core\.quotepath|user\.(?:name|email)|advice\.\w+|init\.defaultbranch|commit\.gpgsign"
    r"|core\.autocrlf|diff\.(?:renames|mnemonicprefix|noprefix)|log\.(?:date|decorate))=.*|core\.pager=cat",
    re.IGNORECASE | re.DOTALL,
)
_ALIAS: Final = re.compile(r"alias\.[^=]*=(!?)(.*)", re.IGNORECASE | re.DOTALL)


def read_git(args: Argv) -> Branch:
    """Takes git's own options away, so that rules see the subcommand first, and finds what else it is told to run."""
    position, unclear, scripts, dirs = 0, "", [], []
    while position < len(args) and args[position].literal and args[position].text.startswith("-"):
        text = args[position].text
        value = args[position + 1] if position + 1 < len(args) else MORE
        if text in {"--version", "--help", "-v", "-h"}:
            break
        if text in _PLAIN:
            position += 1
            continue
        if text == "-C":
            dirs.append(value)
        elif text == "-c":
            if not (value.literal and _HARMLESS.fullmatch(value.text)):
                unclear = f"the git setting {value.text!r} can run other programs"
            if alias := _ALIAS.fullmatch(value.text):
                scripts.append(alias[2] if alias[1] else f"git {alias[2]}")
        else:
            unclear = f"the git option {text!r} can change what git runs"
        position += 1 if "=" in text or text in _ALONE else 2
    rest = args[position:]
    if rest and not rest[0].literal:
        unclear = unclear or "which git command is meant is not known"
    inners, more = _told_to_run(rest)
    return Branch((Arg("git"), *rest), inners, (*scripts, *more), dirs=tuple(dirs), unclear=unclear)


def _told_to_run(rest: Argv) -> tuple[tuple[Argv, ...], tuple[str, ...]]:
    """Commands that git is given to run: as words, and as shell text."""
    words = [arg.text for arg in rest]
    if words[:2] == ["bisect", "run"] and rest[2:]:
        return (rest[2:],), ()
    if words[:2] == ["submodule", "foreach"]:
        told = [arg.text for arg in rest[2:] if arg.text not in {"--recursive", "--quiet", "-q"}]
        return (), (" ".join(told),) if told else ()
    if words[:1] == ["rebase"]:
        following = [words[at + 1] for at, word in enumerate(words[:-1]) if word in {"-x", "--exec"}]
        attached = [word.partition("=")[2] for word in words if word.startswith("--exec=")]
        return (), (*following, *attached)
    return (), ()


GIT_READS: Final = frozenset(
    {
        *("status", "log", "diff", "show", "blame", "annotate", "shortlog", "whatchanged", "rev-parse", "rev-list"),
        *(
            "ls-files",
            "ls-tree",
            "cat-file",
            "describe",
            "merge-base",
            "name-rev",
            "for-each-ref",
            "show-ref",
            "cherry",
        ),
        *("diff-tree", "diff-index", "diff-files", "count-objects", "check-ignore", "check-attr", "grep", "version"),
        *("range-diff", "show-branch", "cherry"),
    }
)
_LISTS: Final[dict[str, re.Pattern[str]]] = {
    "branch": re.compile(r"-[avrvi]+|--list|--all|--remotes|--show-current|--verbose|--no-color|--(?:sort|format)=.*"),
    "tag": re.compile(r"-l|--list|-n\d*|--(?:sort|format)=.*"),
    "remote": re.compile(r"-v|--verbose"),
    "stash": re.compile(r"list"),
    "worktree": re.compile(r"list|--porcelain"),
    "reflog": re.compile(r"show|HEAD|-n?\d*|--oneline"),
}
"""Subcommands that list when given only these words, and otherwise change something."""
_NEEDS_A_WORD: Final = frozenset({"stash", "worktree"})
_CONFIG_GETS: Final = frozenset({"--get", "--get-all", "--get-regexp", "--list", "-l", "get", "list"})
_RUNS_OR_WRITES: Final = (
    *("--ext-diff", "--textconv", "--output", "--open-files-in-pager", "--show-signature", "--exec", "--upload-pack"),
    *("--filters", "--paginate", "--no-index", "--contents", "--write-tree"),
)
_NOT_WHAT_IT_STARTS: Final = frozenset({"--text", "--filter", "--no-ext-diff", "--no-textconv"})


def git_only_reads(args: Argv) -> bool:
    """Whether this subcommand with these words can neither write nor run anything that its repository does not name."""
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
        return bool(words) and words[0] in _CONFIG_GETS
    if known := _LISTS.get(name):
        return bool(words or name not in _NEEDS_A_WORD) and all(known.fullmatch(word) for word in words)
    return False


def _options(args: Argv) -> Argv:
    """The words that git may take for options: those before ``--``."""
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
    return option not in _NOT_WHAT_IT_STARTS and any(bad.startswith(option) for bad in _RUNS_OR_WRITES)
