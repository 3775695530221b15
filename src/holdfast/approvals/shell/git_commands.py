"""Which commands git runs.

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
