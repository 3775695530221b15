"""Programs that run other programs: find the inner command from the arguments.

There are three kinds. A wrapper such as `env`, `timeout`, `xargs` or `sh -c` is replaced by its inner command. `find
-exec` and `git bisect run` have an effect of their own and also run commands. A runner such as `sudo`, `ssh` or `watch`
changes how a command runs, so it stays in place, and only deny rules are compared with its inner command. If a wrapper
has an option that is not known here, its inner command is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from holdfast.approvals.shell.git_commands import unwrap_git
from holdfast.approvals.shell.shell_commands import (
    UNKNOWN_WORDS,
    Argv,
    CommandWithInner,
    InnerCommand,
    InnerScript,
    Runner,
    UnknownInner,
    Unwrapped,
)
from holdfast.approvals.shell.shell_words import Arg, Assign

_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "mksh"})
_RUNNERS: Final = frozenset(
    {
        *("sudo", "doas", "su", "pkexec", "runuser", "chroot", "unshare", "nsenter", "setpriv", "systemd-run"),
        *("ssh", "watch", "flock", "strace", "ltrace", "gdb", "parallel", "script", "busybox", "toybox", "entr"),
        *("taskset", "chrt", "numactl", "prlimit", "cgexec", "firejail", "bwrap", "faketime", "unbuffer", "expect"),
        *("uv", "uvx", "poetry", "pipenv", "pdm", "hatch", "rye", "npx", "pnpx", "bunx", "nix-shell", "direnv"),
        *("docker", "podman", "kubectl", "fd", "fdfind"),
    }
)


def unwrap(argv: Argv) -> Unwrapped:
    """Find the command that this command runs; ``None`` if it runs no other."""
    name, args = argv[0].text.rpartition("/")[2], argv[1:]
    if name in _SHELLS:
        return _shell(name, args)
    if name in _RUNNERS:
        return Runner()
    if unwrapper := _UNWRAPPERS.get(name):
        return unwrapper(args)
    return None


def _options_end(args: Argv, *, flags: str = "", valued: str = "", long: tuple[str, ...] = ()) -> int | None:
    """The position after a wrapper's own options.

    A long option in ``long`` that takes the next word as its value ends with a space. Returns ``None`` if an option is
    not known, or a word's value is not known before the command runs.
    """
    position = 0
    while position < len(args):
        arg = args[position]
        if not arg.literal:
            return None
        if arg.text == "--":
            return position + 1
        if not arg.text.startswith("-") or arg.text == "-":
            return position
        taken = _long_option(arg.text, long) if arg.text.startswith("--") else _short_option(arg.text, flags, valued)
        if taken is None:
            return None
        position += taken
    return position


def _long_option(text: str, known: tuple[str, ...]) -> int | None:
    name, given, _ = text.partition("=")
    if name in known or (given and f"{name} " in known):
        return 1
    return 2 if f"{name} " in known else None


def _short_option(text: str, flags: str, valued: str) -> int | None:
    for at, char in enumerate(text[1:], start=1):
        if char in valued:
            return 1 if text[at + 1 :] else 2
        if char not in flags:
            return None
    return 1


def _simple(
    *, flags: str = "", valued: str = "", long: tuple[str, ...] = (), skip: int = 0, name: str
) -> Callable[[Argv], Unwrapped]:
    """An unwrapper for the form ``name [options] [skip words] command …``."""

    def unwrap_args(args: Argv) -> Unwrapped:
        start = _options_end(args, flags=flags, valued=valued, long=long)
        if start is None or any(not arg.literal for arg in args[start : start + skip]):
            return UnknownInner(f"{name!r} has unknown options")
        inner = args[start + skip :]
        return InnerCommand(inner) if inner else None

    return unwrap_args


def _env(args: Argv) -> Unwrapped:
    start = _options_end(args, flags="i0v", valued="u", long=("--ignore-environment", "--unset "))
    return UnknownInner("'env' has unknown options") if start is None else _assigning(args, start)


def _time(args: Argv) -> Unwrapped:
    start = _options_end(args, flags="p")
    return UnknownInner("'time' has unknown options") if start is None else _assigning(args, start)


def _assigning(args: Argv, start: int) -> Unwrapped:
    """Variable assignments, then the command."""
    assigns: list[Assign] = []
    for position in range(start, len(args)):
        arg = args[position]
        found = _ASSIGNMENT.match(arg.text)
        if not found:
            return InnerCommand(args[position:], tuple(assigns))
        assigns.append(Assign(found[1], Arg(found[2], arg.kind)))
    return None


def _xargs(args: Argv) -> Unwrapped:
    long = ("--null", "--no-run-if-empty", "--verbose", "--max-args ", "--max-procs ", "--delimiter ")
    start = _options_end(args, flags="0rtx", valued="nPLsdEI", long=long)
    if start is None:
        return UnknownInner("'xargs' has unknown options")
    inner = args[start:] or (Arg("echo"),)
    if not any(arg.text.startswith("-I") for arg in args[:start]):
        return InnerCommand((*inner, UNKNOWN_WORDS))
    return InnerCommand(tuple(inner[:1]) + tuple(Arg(arg.text, "dynamic") for arg in inner[1:]) + (UNKNOWN_WORDS,))


def _command(args: Argv) -> Unwrapped:
    if args and args[0].literal and args[0].text in {"-v", "-V"}:
        return None
    return _simple(flags="p", name="command")(args)


def _shell(name: str, args: Argv) -> Unwrapped:
    position = 0
    while position < len(args) and args[position].literal and args[position].text[:1] in {"-", "+"}:
        text = args[position].text
        if re.fullmatch(r"-[lexuabefhkmnptv]*c[lexu]*", text):
            return _shell_script(name, args[position + 1 :])
        if text in {"-o", "+o", "-O", "+O"}:
            position += 2
        elif re.fullmatch(r"[-+][lexuf]+|--norc|--noprofile|--posix|--login", text):
            position += 1
        elif text in {"--version", "--help"}:
            return None
        else:
            return UnknownInner(f"{name!r} has unknown options")
    if position < len(args):
        if args[position].literal:
            return None
        return UnknownInner(f"the script that {name!r} runs is not known before it runs")
    return UnknownInner(f"{name!r} runs commands from its standard input")


def _shell_script(name: str, args: Argv) -> Unwrapped:
    if args and args[0].literal:
        return InnerScript(args[0].text)
    return UnknownInner(f"the text that {name!r} runs is not known before it runs")


def _find(args: Argv) -> Unwrapped:
    outer, inners = [Arg("find")], []
    position = 0
    while position < len(args):
        arg = args[position]
        if arg.text not in {"-exec", "-execdir", "-ok", "-okdir"}:
            outer.append(arg)
            position += 1
            continue
        inner = []
        position += 1
        while position < len(args) and args[position].text not in {";", "+"}:
            word = args[position]
            inner.append(Arg(word.text, "dynamic") if "{}" in word.text else word)
            position += 1
        if not inner or position == len(args):
            return UnknownInner("the command of 'find' has no end")
        inners.append(tuple(inner))
        position += 1
    return CommandWithInner(tuple(outer), tuple(inners)) if inners else None


def _eval(args: Argv) -> Unwrapped:
    if all(arg.literal for arg in args):
        text = " ".join(arg.text for arg in args)
        return CommandWithInner((Arg("eval"), *args), scripts=(text,), unclear="'eval' parses its words again")
    return UnknownInner("the text that 'eval' runs is not known before it runs")


_UNWRAPPERS: Final[dict[str, Callable[[Argv], Unwrapped]]] = {
    "env": _env,
    "xargs": _xargs,
    "command": _command,
    "find": _find,
    "eval": _eval,
    "git": unwrap_git,
    "builtin": _simple(name="builtin"),
    "exec": _simple(flags="cl", valued="a", name="exec"),
    "time": _time,
    "nohup": _simple(name="nohup"),
    "nice": _simple(valued="n", long=("--adjustment ",), name="nice"),
    "ionice": _simple(flags="t", valued="cn", name="ionice"),
    "setsid": _simple(flags="cfw", name="setsid"),
    "stdbuf": _simple(valued="ioe", name="stdbuf"),
    "timeout": _simple(
        flags="fpv",
        valued="sk",
        long=("--preserve-status", "--foreground", "--verbose", "--signal ", "--kill-after "),
        skip=1,
        name="timeout",
    ),
}
