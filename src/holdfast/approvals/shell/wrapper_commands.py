"""Programs that run other programs: find the inner command from the arguments.

There are three kinds. A wrapper such as `env`, `timeout`, `xargs` or `sh -c` is replaced by its inner command. `find
-exec` and `git bisect run` have an effect of their own and also run commands. A runner such as `sudo`, `ssh` or `watch`
changes how a command runs, so it stays in place, and only deny rules are compared with its inner command. If a wrapper
has an option that is not listed here, its inner command is unknown. A wrapper is known by its bare name or by its path
in a system directory; `./env` is any program.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from holdfast.approvals.shell.git_commands import unwrap_git
from holdfast.approvals.shell.option_parser import NotUnderstood, parse_options
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

_SYSTEM_PROGRAM: Final = re.compile(r"(?:/usr|/usr/local|/opt/homebrew)?/s?bin/([^/]+)")
_SHELLS: Final = frozenset({"bash", "sh", "dash"})
_OTHER_SHELLS: Final = frozenset({"zsh", "ksh", "ash", "mksh", "fish", "csh", "tcsh", "yash", "rbash", "pwsh"})
_SHELL_OPTIONS: Final = "-ceuxl -o: --login --norc --noprofile"
_SHELL_SETTINGS: Final = frozenset({"pipefail", "errexit", "nounset", "xtrace"})
_DURATION: Final = re.compile(r"\d+(?:\.\d+)?[smhd]?")
_ANY_VARIABLE: Final = re.compile(r"[^=]*=")
_SHELL_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_RUNNERS: Final = frozenset(
    {
        *("sudo", "doas", "su", "pkexec", "runuser", "chroot", "unshare", "nsenter", "setpriv", "systemd-run"),
        *("ssh", "watch", "flock", "strace", "ltrace", "gdb", "parallel", "script", "busybox", "toybox", "entr"),
        *("taskset", "chrt", "numactl", "prlimit", "cgexec", "firejail", "bwrap", "faketime", "unbuffer", "expect"),
        *("uv", "uvx", "poetry", "pipenv", "pdm", "hatch", "rye", "npx", "pnpx", "bunx", "nix-shell", "direnv"),
        *("docker", "podman", "kubectl", "fd", "fdfind"),
    }
)


def known_name(program: str) -> str | None:
    """The name by which a program is known; ``None`` if it is named by a path outside the system's directories."""
    if "/" not in program:
        return program
    found = _SYSTEM_PROGRAM.fullmatch(program)
    return found[1] if found else None


def unwrap(argv: Argv) -> Unwrapped:
    """Find the command that this command runs; ``None`` if it runs no other."""
    name, args = known_name(argv[0].text), argv[1:]
    if name is None:
        base = argv[0].text.rpartition("/")[2]
        known = base in _SHELLS | _OTHER_SHELLS | _RUNNERS or base in _UNWRAPPERS
        return Runner(base) if known else None
    if name in _SHELLS:
        return _shell(name, args)
    if name in _OTHER_SHELLS:
        return UnknownInner(f"scripts of {name!r} cannot be analysed")
    if name in _RUNNERS:
        return Runner(name)
    if unwrapper := _UNWRAPPERS.get(name):
        return unwrapper(args)
    return None


def _wrapper(name: str, options: str = "", *, duration: bool = False) -> Callable[[Argv], Unwrapped]:
    """An unwrapper for the form ``name [options] [duration] command …``."""

    def unwrap_args(args: Argv) -> Unwrapped:
        parsed = parse_options(args, options, mixed=False)
        unknown = UnknownInner(f"{name!r} has unknown options")
        if isinstance(parsed, NotUnderstood):
            return unknown
        inner = parsed.operands
        if duration:
            if not inner or not inner[0].literal or not _DURATION.fullmatch(inner[0].text):
                return unknown
            inner = inner[1:]
        if inner and inner[0].literal and inner[0].text.startswith(("-", "+")):
            return unknown
        return InnerCommand(inner) if inner else None

    return unwrap_args


def _env(args: Argv) -> Unwrapped:
    """Only variables may come before the command. Options such as ``-i`` also remove variables that keep git safe.

    Every word with ``=`` is a variable, also one like ``A.B=1``.
    """
    return _assigning("env", args, options="", variables=_ANY_VARIABLE)


def _time(args: Argv) -> Unwrapped:
    """As for the shell, a word that does not begin with a name is the command, for example ``./a=1``."""
    return _assigning("time", args, options="-p", variables=_SHELL_VARIABLE)


def _assigning(name: str, args: Argv, *, options: str, variables: re.Pattern[str]) -> Unwrapped:
    """Variable assignments, then the command."""
    parsed = parse_options(args, options, mixed=False)
    if isinstance(parsed, NotUnderstood):
        return UnknownInner(f"{name!r} has unknown options")
    assigns: list[Assign] = []
    for position, arg in enumerate(parsed.operands):
        if not arg.literal or arg.text == "-":
            return UnknownInner(f"the command that {name!r} runs is not known before it runs")
        if variables.match(arg.text) is None:
            return InnerCommand(parsed.operands[position:], tuple(assigns))
        variable, _, value = arg.text.partition("=")
        assigns.append(Assign(variable, Arg(value), exported=True))
    return None


_XARGS_OPTIONS: Final = (
    "-0rtx -n: -P: -L: -s: -d: --null --no-run-if-empty --verbose --exit --max-args: --max-procs: --delimiter:"
)


def _xargs(args: Argv) -> Unwrapped:
    """The words from the input follow the inner command. Options that place them elsewhere (``-I``) are unknown."""
    parsed = parse_options(args, _XARGS_OPTIONS, mixed=False)
    if isinstance(parsed, NotUnderstood):
        return UnknownInner("'xargs' has unknown options")
    return InnerCommand((*(parsed.operands or (Arg("echo"),)), UNKNOWN_WORDS))


def _command(args: Argv) -> Unwrapped:
    if args and args[0].literal and args[0].text in {"-v", "-V"}:
        return None
    return _wrapper("command", "-p")(args)


def _shell(name: str, args: Argv) -> Unwrapped:
    parsed = parse_options(args, _SHELL_OPTIONS, mixed=False)
    if isinstance(parsed, NotUnderstood):
        return UnknownInner(f"{name!r} has unknown options")
    settings = [value for option, value in parsed.options if option == "-o"]
    attached = any(arg.literal and re.match(r"-[^-]*o.", arg.text) for arg in args[: len(args) - len(parsed.operands)])
    if attached or not _SHELL_SETTINGS.issuperset(settings):
        return UnknownInner(f"{name!r} has unknown options")
    if not parsed.operands:
        return UnknownInner(f"{name!r} runs commands from its standard input")
    first = parsed.operands[0]
    if not first.literal or first.text.startswith(("-", "+")):
        return UnknownInner(f"the script that {name!r} runs is not known before it runs")
    if not parsed.has("-c"):
        return None
    if not all(word.literal for word in parsed.operands[1:]):  # the first is in the shell's messages
        unclear = f"the words that {name!r} gives to its script are not known before it runs"
        return CommandWithInner((Arg(name), *args), scripts=(first.text,), unclear=unclear)
    return InnerScript(first.text, posix=name != "bash", login=parsed.has("-l", "--login"))


def _find(args: Argv) -> Unwrapped:
    """`find` with the commands that it runs. ``+`` ends a command only after ``{}``."""
    inners: list[Argv] = []
    position = 0
    while position < len(args):
        if args[position].text not in {"-exec", "-execdir", "-ok", "-okdir"}:
            position += 1
            continue
        start = position + 1
        end = next((at for at in range(start, len(args)) if _ends_command(args, at)), None)
        if end is None or end == start:
            return UnknownInner("the command of 'find' has no end")
        inners.append(tuple(Arg(word.text, "dynamic") if "{}" in word.text else word for word in args[start:end]))
        position = end + 1
    return CommandWithInner((Arg("find"), *args), tuple(inners)) if inners else None


def _ends_command(args: Argv, at: int) -> bool:
    return args[at].text == ";" or (args[at].text == "+" and args[at - 1].text == "{}")


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
    "builtin": _wrapper("builtin"),
    "exec": _wrapper("exec"),
    "time": _time,
    "nohup": _wrapper("nohup"),
    "nice": _wrapper("nice", "-n: -# --adjustment:"),
    "ionice": _wrapper("ionice", "-t -c: -n:"),
    "setsid": _wrapper("setsid", "-cw --ctty --wait"),
    "stdbuf": _wrapper("stdbuf", "-i: -o: -e: --input: --output: --error:"),
    "timeout": _wrapper(
        "timeout",
        "-fpv -k: -s: --preserve-status --foreground --verbose --signal: --kill-after:",
        duration=True,
    ),
}
