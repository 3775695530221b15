"""Programs that run other programs: what they run, read from their arguments.

Three kinds. A *transparent* wrapper (`env`, `timeout`, `xargs`, `sh -c` …) is only as good or bad as what it runs,
so it is taken away. A *branching* one (`find -exec`, `git bisect run`) does something itself as well. A *runner*
(`sudo`, `ssh`, `watch` …) changes what running means, so it stays what it is, and what it runs is shown to deny
rules only. An option that is not known here makes the wrapper opaque: what it runs is then not understood.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from holdfast.approvals.shell.git_commands import read_git
from holdfast.approvals.shell.peeled_command import MORE, Argv, Branch, Opaque, Peel, Runner, Script, Through
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


def peel(argv: Argv) -> Peel:
    """What this command runs, if it is one that runs others; ``None`` if it is not."""
    name, args = argv[0].text.rpartition("/")[2], argv[1:]
    if name in _SHELLS:
        return _shell(name, args)
    if name in _RUNNERS:
        return Runner()
    if reader := _READERS.get(name):
        return reader(args)
    return None


def options_end(args: Argv, *, flags: str = "", valued: str = "", long: tuple[str, ...] = ()) -> int | None:
    """Where a wrapper's own options end. Long options that take their value as the next word end with a space.

    ``None``: an option that is not known, or a word that is not known before it runs.
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
        taken = _long_option(arg.text, long) if arg.text.startswith("--") else _short(arg.text, flags, valued)
        if taken is None:
            return None
        position += taken
    return position


def _long_option(text: str, known: tuple[str, ...]) -> int | None:
    name, given, _ = text.partition("=")
    if name in known or (given and f"{name} " in known):
        return 1
    return 2 if f"{name} " in known else None


def _short(text: str, flags: str, valued: str) -> int | None:
    for at, char in enumerate(text[1:], start=1):
        if char in valued:
            return 1 if text[at + 1 :] else 2
        if char not in flags:
            return None
    return 1


def _simple(
    *, flags: str = "", valued: str = "", long: tuple[str, ...] = (), skip: int = 0, what: str
) -> Callable[[Argv], Peel]:
    """A wrapper of the shape ``name [options] [skip words] command …``."""

    def read(args: Argv) -> Peel:
        start = options_end(args, flags=flags, valued=valued, long=long)
        if start is None or any(not arg.literal for arg in args[start : start + skip]):
            return Opaque(f"{what} has options that are not known")
        inner = args[start + skip :]
        return Through(inner) if inner else None

    return read


def _env(args: Argv) -> Peel:
    start = options_end(args, flags="i0v", valued="u", long=("--ignore-environment", "--unset "))
    return Opaque("'env' has options that are not known") if start is None else _assigning(args, start)


def _time(args: Argv) -> Peel:
    start = options_end(args, flags="p")
    return Opaque("'time' has options that are not known") if start is None else _assigning(args, start)


def _assigning(args: Argv, start: int) -> Peel:
    """Words that set variables, then the command."""
    assigns: list[Assign] = []
    for position in range(start, len(args)):
        arg = args[position]
        found = _ASSIGNMENT.match(arg.text)
        if not found:
            return Through(args[position:], tuple(assigns))
        assigns.append(Assign(found[1], Arg(found[2], arg.kind)))
    return None


def _xargs(args: Argv) -> Peel:
    long = ("--null", "--no-run-if-empty", "--verbose", "--max-args ", "--max-procs ", "--delimiter ")
    start = options_end(args, flags="0rtx", valued="nPLsdEI", long=long)
    if start is None:
        return Opaque("'xargs' has options that are not known")
    inner = args[start:] or (Arg("echo"),)
    if not any(arg.text.startswith("-I") for arg in args[:start]):
        return Through((*inner, MORE))
    return Through(tuple(inner[:1]) + tuple(Arg(arg.text, "dynamic") for arg in inner[1:]) + (MORE,))


def _command(args: Argv) -> Peel:
    if args and args[0].literal and args[0].text in {"-v", "-V"}:
        return None
    return _simple(flags="p", what="'command'")(args)


def _shell(name: str, args: Argv) -> Peel:
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
            return Opaque(f"{name!r} has options that are not known")
    if position < len(args):
        return None if args[position].literal else Opaque(f"which script {name!r} runs is not known")
    return Opaque(f"{name!r} runs what it reads from its input")


def _shell_script(name: str, args: Argv) -> Peel:
    if args and args[0].literal:
        return Script(args[0].text)
    return Opaque(f"the text that {name!r} runs is not known")


def _find(args: Argv) -> Peel:
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
            return Opaque("what 'find' runs has no end")
        inners.append(tuple(inner))
        position += 1
    return Branch(tuple(outer), tuple(inners)) if inners else None


def _eval(args: Argv) -> Peel:
    if all(arg.literal for arg in args):
        text = " ".join(arg.text for arg in args)
        return Branch((Arg("eval"), *args), scripts=(text,), unclear="'eval' reads its words a second time")
    return Opaque("the text that 'eval' runs is not known")


_READERS: Final[dict[str, Callable[[Argv], Peel]]] = {
    "env": _env,
    "xargs": _xargs,
    "command": _command,
    "find": _find,
    "eval": _eval,
    "git": read_git,
    "builtin": _simple(what="'builtin'"),
    "exec": _simple(flags="cl", valued="a", what="'exec'"),
    "time": _time,
    "nohup": _simple(what="'nohup'"),
    "nice": _simple(valued="n", long=("--adjustment ",), what="'nice'"),
    "ionice": _simple(flags="t", valued="cn", what="'ionice'"),
    "setsid": _simple(flags="cfw", what="'setsid'"),
    "stdbuf": _simple(valued="ioe", what="'stdbuf'"),
    "timeout": _simple(
        flags="fpv",
        valued="sk",
        long=("--preserve-status", "--foreground", "--verbose", "--signal ", "--kill-after "),
        skip=1,
        what="'timeout'",
    ),
}
