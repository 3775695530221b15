"""Commands that only read, and which of their words are files.

A command with a program, an option or a word that is not known here counts as not read-only and needs approval. An
abbreviated long option counts as every option that it may stand for.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

from holdfast.approvals.shell.git_commands import git_only_reads
from holdfast.approvals.shell.shell_commands import Command
from holdfast.approvals.shell.shell_words import Arg, changes_programs
from holdfast.schema.base import Value

Operands: TypeAlias = Literal["files", "pattern", "text"]
"""What a program's operands are: files; a pattern and then files; or only text."""


class Reads(Value, frozen=True):
    """The command only reads. ``files`` are the words that name files."""

    files: tuple[Arg, ...] = ()


class ReadonlyProgram(Value, frozen=True):
    """A program that only reads if it is called without the refused options."""

    operands: Operands = "files"
    refused_short: str = ""
    """Short options that write, run a program or follow links."""
    refused_long: tuple[str, ...] = ()
    max_operands: int | None = None
    """The program writes to any further operand."""


def only_reads(command: Command, *, trusted: bool) -> Reads | None:
    """The files that a command reads; ``None`` if it may do more.

    Git runs programs that the repository names, so it counts as read-only only in a trusted workspace.
    """
    if not command.argv[0].literal or any(changes_programs(assign.name) for assign in command.assigns):
        return None
    name, args = command.name, command.argv[1:]
    if name == "git":
        if not trusted or not git_only_reads(args):
            return None
        options, operands = _split(args[1:])
        return Reads((*_values(options), *operands))
    if parser := _PARSERS.get(name):
        return parser(args)
    program = _PROGRAMS.get(name)
    return _plain(program, args) if program else None


def _plain(program: ReadonlyProgram, args: tuple[Arg, ...]) -> Reads | None:
    options, operands = _split(args)
    if not all(_harmless(program, option) for option in options):
        return None
    if (program.refused_short or program.refused_long) and any(_may_be_option(arg) for arg in args):
        return None
    if program.max_operands is not None and (
        len(operands) > program.max_operands or any(not arg.literal for arg in operands)
    ):
        return None
    if program.operands == "text":
        return Reads(tuple(arg for arg in operands if arg.kind == "glob"))
    if program.operands == "pattern" and not any(_gives_pattern(option.text) for option in options):
        operands = operands[1:]
    return Reads((*_values(options), *operands))


def _split(args: tuple[Arg, ...]) -> tuple[list[Arg], list[Arg]]:
    """Split words into options and operands. After ``--`` all words are operands."""
    options: list[Arg] = []
    operands: list[Arg] = []
    for at, arg in enumerate(args):
        if arg.literal and arg.text == "--":
            operands += args[at + 1 :]
            break
        (options if _is_option(arg) else operands).append(arg)
    return options, [arg for arg in operands if not (arg.literal and arg.text == "-")]


def _is_option(arg: Arg) -> bool:
    """Whether a word is certainly an option. A glob in an option's value does not change that."""
    if arg.literal:
        return arg.text.startswith("-") and arg.text != "-"
    return arg.kind == "glob" and re.match(r"--[a-z-]+=", arg.text) is not None


def _may_be_option(arg: Arg) -> bool:
    """Whether a word may become an option when it is expanded. Matches of globs like ``*.py`` are checked later."""
    return arg.kind == "dynamic" or (arg.kind == "glob" and arg.text.startswith("-") and not _is_option(arg))


def _harmless(program: ReadonlyProgram, option: Arg) -> bool:
    if not option.text.isascii():
        return False
    if option.text.startswith("--"):
        name = option.text.partition("=")[0]
        return not any(bad.startswith(name) for bad in program.refused_long)
    return not any(letter in option.text[1:] for letter in program.refused_short)


def _gives_pattern(option: str) -> bool:
    """Whether an option may contain the pattern (`-e`, `-f`, `--files` …), so that every operand is a file."""
    if option.startswith("--"):
        name = option.partition("=")[0]
        return any(giver.startswith(name) for giver in ("--regexp", "--file", "--files", "--type-list"))
    return "e" in option or "f" in option


def _values(options: list[Arg]) -> list[Arg]:
    return [value for option in options for value in option_values(option)]


def option_values(option: Arg) -> list[Arg]:
    """The texts in an option that may be file names: after ``=``, or after any letter of a short option."""
    text = option.text
    if text.startswith("--"):
        values = [text.partition("=")[2]]
    else:
        values = [text[at:] for at in range(2, min(len(text), 40))]
    return [Arg(value) for value in values if value and not re.fullmatch(r"[\d,.:+]*\d", value)]


_FIND_REFUSED: Final = frozenset(
    {
        *("-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fprintf", "-fls", "-files0-from"),
        *("-L", "-H", "-follow"),
    }
)
_FIND_TEXT_TESTS: Final = re.compile(
    r"-(?:i?name|i?path|i?wholename|i?regex|regextype|type|size|perm|[acm]time|[acm]min|printf)"
)


def _find(args: tuple[Arg, ...]) -> Reads | None:
    files: list[Arg] = []
    previous = ""
    for arg in args:
        if arg.literal and (arg.text in _FIND_REFUSED or arg.text.startswith("-D")):
            return None
        if _may_be_option(arg):
            return None
        if not _FIND_TEXT_TESTS.fullmatch(previous) and not arg.text.startswith("-"):
            files.append(arg)
        previous = arg.text
    return Reads(tuple(arg for arg in files if arg.text not in {"(", ")", "!", ","}))


_ADDRESS: Final = r"(?:\d+|\$|/[^/\\\n]*/)"
_SED_COMMAND: Final = re.compile(
    rf"(?:{_ADDRESS}(?:,(?:{_ADDRESS}|\+\d+))?)?\s*!?\s*"
    r"(?:[pdq=]|s([/|#,])(?:(?!\1)[^\\\n])*\1(?:(?!\1)[^\\\n])*\1[gpiI\d]*)"
)
_SED_OPTION: Final = re.compile(r"-n|-E|-r|-s|-z|-nE|-En|-nr|-rn|--quiet|--silent|--regexp-extended|--posix|--sandbox")


def _sed(args: tuple[Arg, ...]) -> Reads | None:
    """Accept `sed` if its scripts only print. A script can also write files or run commands."""
    scripts: list[Arg] = []
    operands: list[Arg] = []
    position, given = 0, False
    while position < len(args):
        arg = args[position]
        if arg.literal and arg.text in {"-e", "--expression"}:
            given = True
            scripts += args[position + 1 : position + 2]
            position += 1
        elif arg.literal and arg.text.startswith("-") and arg.text != "-":
            if not _SED_OPTION.fullmatch(arg.text):
                return None
        else:
            operands.append(arg)
        position += 1
    if not given:
        scripts, operands = operands[:1], operands[1:]
    if not scripts or not all(arg.literal and _only_prints(arg.text) for arg in scripts):
        return None
    return None if any(_may_be_option(arg) for arg in operands) else Reads(tuple(operands))


def _only_prints(script: str) -> bool:
    return all(_SED_COMMAND.fullmatch(part.strip()) for part in script.split(";") if part.strip()) and bool(script)


def _jq(args: tuple[Arg, ...]) -> Reads | None:
    if any(arg.literal and re.search(r"import|include", arg.text) for arg in args):
        return None
    refused_long = ("--from-file", "--rawfile", "--slurpfile", "--library-path", "--argfile", "--run-tests")
    return _plain(ReadonlyProgram("pattern", refused_short="fLe", refused_long=refused_long), args)


def _date(args: tuple[Arg, ...]) -> Reads | None:
    harmless = re.compile(r"\+.*|-u|--utc|-I\w*|--iso-8601(?:=\w+)?|-R|--rfc-3339=\w+", re.DOTALL)
    return Reads() if all(arg.literal and harmless.fullmatch(arg.text) for arg in args) else None


def _set(args: tuple[Arg, ...]) -> Reads | None:
    harmless = re.compile(r"[-+][euxo]+|pipefail")
    return Reads() if args and all(arg.literal and harmless.fullmatch(arg.text) for arg in args) else None


def _cd(args: tuple[Arg, ...]) -> Reads | None:
    if len(args) == 1 and args[0].literal and args[0].text and not args[0].text.startswith("-"):
        return Reads(args)
    return None


def _test(args: tuple[Arg, ...]) -> Reads | None:
    return Reads(tuple(arg for arg in args if arg.kind in {"literal", "glob"} and "/" in arg.text))


def _lookup(args: tuple[Arg, ...]) -> Reads | None:
    return Reads() if args and args[0].literal and args[0].text in {"-v", "-V"} else None


def _nothing(args: tuple[Arg, ...]) -> Reads | None:
    return Reads() if not args else None


_PARSERS: Final[dict[str, Callable[[tuple[Arg, ...]], Reads | None]]] = {
    "find": _find,
    "sed": _sed,
    "jq": _jq,
    "date": _date,
    "set": _set,
    "cd": _cd,
    "test": _test,
    "command": _lookup,
    "hostname": _nothing,
    "time": _nothing,
}

_FILES: Final = ReadonlyProgram()
_TEXT: Final = ReadonlyProgram("text")
_GREP: Final = ReadonlyProgram("pattern", refused_short="R", refused_long=("--dereference-recursive",))
_PROGRAMS: Final[dict[str, ReadonlyProgram]] = {
    **dict.fromkeys(("cat", "head", "tail", "stat", "nl", "tac", "rev", "cut", "fold", "paste"), _FILES),
    **dict.fromkeys(
        ("comm", "cmp", "od", "hexdump", "strings", "realpath", "readlink", "cksum", "sum", "join"), _FILES
    ),
    **dict.fromkeys(("md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum", "b2sum"), _FILES),
    **dict.fromkeys(("echo", "true", "false", ":", "pwd", "basename", "dirname", "seq", "tr", "expr", "sleep"), _TEXT),
    **dict.fromkeys(("whoami", "id", "uname", "arch", "nproc", "uptime", "which", "type", "groups", "read"), _TEXT),
    **dict.fromkeys(("break", "continue", "exit", "return", "shift", "printf", "tty", "getconf", "locale"), _TEXT),
    **dict.fromkeys(("grep", "egrep", "fgrep"), _GREP),
    "rg": ReadonlyProgram(
        "pattern",
        refused_short="Lz",
        refused_long=("--pre", "--pre-glob", "--hostname-bin", "--follow", "--search-zip"),
    ),
    "wc": ReadonlyProgram(refused_long=("--files0-from",)),
    "ls": ReadonlyProgram(refused_short="LH", refused_long=("--dereference",)),
    "sort": ReadonlyProgram(
        refused_short="oT", refused_long=("--output", "--compress-program", "--temporary-dir", "--files0-from")
    ),
    "uniq": ReadonlyProgram(max_operands=1),
    "diff": ReadonlyProgram(refused_short="r", refused_long=("--recursive",)),
    "tree": ReadonlyProgram(refused_short="oRl", refused_long=("--output", "--fromfile")),
    "file": ReadonlyProgram(
        refused_short="CmfzZ", refused_long=("--compile", "--magic-file", "--files-from", "--uncompress")
    ),
    "du": ReadonlyProgram(refused_short="LDH", refused_long=("--dereference", "--dereference-args", "--files0-from")),
    "df": _FILES,
    "column": _FILES,
}
