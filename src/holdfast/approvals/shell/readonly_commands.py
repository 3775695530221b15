"""Commands that only read, and which of their words are files.

A command with a program, an option or a word that is not understood exactly is not read-only and needs approval. The
words are those that the program gets: globs are already replaced by the names that they match.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from holdfast.approvals.shell.git_reads import parse_git_read
from holdfast.approvals.shell.option_parser import NotUnderstood, parse_options
from holdfast.approvals.shell.readonly_programs import PROGRAMS, ReadonlyProgram
from holdfast.approvals.shell.shell_commands import Argv
from holdfast.approvals.shell.shell_words import Arg, Assign
from holdfast.approvals.shell.wrapper_commands import known_name
from holdfast.schema.base import Value


class Reads(Value, frozen=True):
    """The command only reads."""

    files: Argv = ()
    """The words that name files."""
    directories_too: bool = True
    """Whether it reads no more of a directory than its names. Otherwise a directory needs approval."""


_WHOLE: Final = NotUnderstood(-1)
"""No single word is the reason."""


def parse_read(argv: Argv, assigns: tuple[Assign, ...]) -> Reads | NotUnderstood:
    """The files that a command reads, or the position of the word because of which it may do more."""
    if not argv[0].literal or not all(assign.harmless for assign in assigns):
        return NotUnderstood(0)
    name, args = known_name(argv[0].text), argv[1:]
    if name is None:
        return NotUnderstood(0)
    if name == "git":
        found: Reads | NotUnderstood | None = _git(args)
    elif parser := _PARSERS.get(name):
        found = parser(args)
    elif program := PROGRAMS.get(name):
        found = _plain(program, args)
    else:
        found = None
    if isinstance(found, NotUnderstood):
        return NotUnderstood(found.position + 1)
    return found or NotUnderstood(0)


def _git(args: Argv) -> Reads | NotUnderstood:
    found = parse_git_read(args)
    return found if isinstance(found, NotUnderstood) else Reads(found)


def _plain(program: ReadonlyProgram, args: Argv) -> Reads | NotUnderstood:
    if program.operands == "any":
        return Reads()
    parsed = parse_options(args, program.options)
    if isinstance(parsed, NotUnderstood):
        return parsed
    if program.option_files and any(arg.text.startswith("@") for arg in args):
        return _WHOLE
    operands = parsed.operands
    match program.operands:
        case "files":
            pass
        case "plain files":
            return Reads((*parsed.files, *operands), directories_too=False)
        case "one file":
            if len(operands) > 1:
                return _refuse(args, operands[1])
            if operands and operands[0] != args[-1]:
                return _WHOLE
        case "pattern":
            if not parsed.has(*program.pattern_options):
                operands = operands[1:]
        case "words":
            operands = ()
        case "none":
            if operands:
                return _refuse(args, operands[0])
    if any(arg.text.startswith("@") for arg in operands):
        return _WHOLE
    return Reads((*parsed.files, *operands))


def _refuse(args: Argv, word: Arg) -> NotUnderstood:
    return NotUnderstood(args.index(word))


_FIND_TESTS: Final = {
    **dict.fromkeys(("-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename", "-regex", "-iregex"), "text"),
    **dict.fromkeys(("-regextype", "-type", "-xtype", "-size", "-perm", "-atime", "-ctime", "-mtime", "-amin"), "text"),
    **dict.fromkeys(("-cmin", "-mmin", "-printf", "-maxdepth", "-mindepth", "-user", "-group", "-uid", "-gid"), "text"),
    **dict.fromkeys(("-links", "-inum", "-lname", "-ilname", "-newermt", "-newerat", "-newerct", "-used"), "text"),
    **dict.fromkeys(("-newer", "-anewer", "-cnewer", "-samefile"), "file"),
    **dict.fromkeys(("-print", "-print0", "-ls", "-prune", "-quit", "-empty", "-true", "-false", "-depth"), "nothing"),
    **dict.fromkeys(("-mount", "-xdev", "-daystart", "-readable", "-writable", "-executable", "-nouser"), "nothing"),
    **dict.fromkeys(("-nogroup", "-and", "-or", "-not", "-a", "-o", "!", "(", ")", ",", "-P"), "nothing"),
    **dict.fromkeys(("-noleaf", "-ignore_readdir_race", "-noignore_readdir_race", "-nowarn"), "nothing"),
}


def _find(args: Argv) -> Reads | NotUnderstood:
    files: list[Arg] = []
    position, in_expression = 0, False
    while position < len(args):
        arg = args[position]
        if not arg.literal:
            return NotUnderstood(position)
        if not in_expression and not arg.text.startswith(("-", "(", "!", ")", ",")):
            files.append(arg)
            position += 1
            continue
        in_expression = in_expression or arg.text != "-P"
        takes = _FIND_TESTS.get(arg.text)
        if takes is None:
            return NotUnderstood(position)
        position += 1
        if takes != "nothing":
            if position == len(args) or not args[position].literal:
                return NotUnderstood(position - 1)
            if takes == "file":
                files.append(args[position])
            position += 1
    return Reads(tuple(files))


_SED_CLASS: Final = r"\[(?!\^?\])(?:[^\]\[/|#,\\\n]|\[:[a-z]+:\])+\]"
"""A delimiter in brackets ends the pattern in some versions and not in others, so there is none."""
_ADDRESS: Final = rf"(?:\d+|\$|/(?:[^/\\\n\[]|{_SED_CLASS})*/)"
_SED_COMMAND: Final = re.compile(
    rf"(?:{_ADDRESS}(?:,(?:{_ADDRESS}|\+\d+))?)?[ \t]*!?[ \t]*"
    rf"(?:[pdq=]|s([/|#,])(?:(?!\1)[^\\\n\[]|{_SED_CLASS})*\1(?:(?!\1)[^\\\n])*\1[gpiI\d]*)"
)
_SED_OPTIONS: Final = "-nErsz -e: --quiet --silent --regexp-extended --expression: --posix --sandbox --separate"


def _sed(args: Argv) -> Reads | NotUnderstood:
    """Accept `sed` if its scripts only print. A script can also write files or run commands."""
    parsed = parse_options(args, _SED_OPTIONS)
    if isinstance(parsed, NotUnderstood):
        return parsed
    scripts = [text for name, text in parsed.options if name in {"-e", "--expression"}]
    operands = parsed.operands
    if not scripts:
        if not operands or not operands[0].literal:
            return _WHOLE
        scripts, operands = [operands[0].text], operands[1:]
    return Reads(operands) if all(_only_prints(script) for script in scripts) else _WHOLE


def _only_prints(script: str) -> bool:
    return all(_SED_COMMAND.fullmatch(part.strip(" \t")) for part in script.split(";") if part.strip(" \t"))


_JQ: Final = ReadonlyProgram(
    "-acCejMnrRsSj --compact-output --color-output --monochrome-output --null-input --raw-output --raw-input --slurp"
    " --sort-keys --join-output --tab --exit-status --stream --ascii-output --indent:",
    "pattern",
)
_JQ_REFUSED: Final = re.compile(r"\b(?:env|ENV|import|include|input_filename|modulemeta|get_search_list)\b|__prog")


def _jq(args: Argv) -> Reads | NotUnderstood:
    """Accept `jq` if its filter reads neither other files nor the environment."""
    if any(_JQ_REFUSED.search(arg.text) for arg in args):
        return _WHOLE
    return _plain(_JQ, args)


_DATE_WORD: Final = re.compile(
    r"\+.*|-u|--utc|-I(?:date|hours|minutes|seconds|ns)?|--iso-8601(?:=\w+)?|-R|--rfc-3339=\w+", re.DOTALL
)


def _date(args: Argv) -> Reads | NotUnderstood:
    return _all_match(args, _DATE_WORD)


def _set(args: Argv) -> Reads | NotUnderstood:
    """Only the options that stop a script at an error or show its commands. Without words, `set` shows variables."""
    return _all_match(args, re.compile(r"[-+][eux]*o?|pipefail|errexit|nounset|xtrace")) if args else _WHOLE


def _all_match(args: Argv, harmless: re.Pattern[str]) -> Reads | NotUnderstood:
    for at, arg in enumerate(args):
        if not (arg.literal and harmless.fullmatch(arg.text)):
            return NotUnderstood(at)
    return Reads()


def _cd(args: Argv) -> Reads | NotUnderstood:
    """The judge follows `cd` itself, so the word is no file here."""
    if len(args) == 1 and args[0].literal and args[0].text and not args[0].text.startswith("-"):
        return Reads()
    return _WHOLE


def _read(args: Argv) -> Reads | NotUnderstood:
    """The parser accepts only plain names."""
    return _all_match(args, re.compile(r"-r|[a-z_][a-z0-9_]*"))


_ASSIGNING_FORMAT: Final = re.compile(r"%[^A-Za-z%]*[hlLjzt]*n")


def _printf(args: Argv) -> Reads | NotUnderstood:
    """The format is known and has no ``%n``, which assigns a variable."""
    words = args[1:] if args and args[0].literal and args[0].text == "--" else args
    if not words or not words[0].literal or words[0].text.startswith("-") or _ASSIGNING_FORMAT.search(words[0].text):
        return _WHOLE
    return Reads()


_FILE_TESTS: Final = frozenset({f"-{letter}" for letter in "abcdefghkprsuwxGLNOS"} - {"-a"})
_TEXT_TESTS: Final = frozenset({"-z", "-n", "-t"})
_FILE_COMPARISONS: Final = frozenset({"-nt", "-ot", "-ef"})
_COMPARISONS: Final = frozenset({"=", "==", "!=", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge"})


def _test(args: Argv) -> Reads | NotUnderstood:
    """One condition with a literal operator. An unknown word could be an operator that evaluates its operand."""
    words = args[1:] if args and args[0].literal and args[0].text == "!" else args
    texts = [word.text if word.literal else "" for word in words]
    if not all(word.literal or word.one_word for word in words):
        return _WHOLE
    match len(words):
        case 0 | 1:
            return Reads()
        case 2 if texts[0] in _TEXT_TESTS:
            return Reads()
        case 2 if texts[0] in _FILE_TESTS:
            return Reads(words[1:])
        case 3 if texts[1] in _COMPARISONS:
            return Reads()
        case 3 if texts[1] in _FILE_COMPARISONS:
            return Reads((words[0], words[2]))
        case _:
            return _WHOLE


def _double_test(args: Argv) -> Reads | NotUnderstood:
    """``[[ … ]]``: the parser has found the operators, so no word can become one."""
    files: list[Arg] = []
    for at, arg in enumerate(args):
        before = args[at - 1].text if at else ""
        after = args[at + 1].text if at + 1 < len(args) else ""
        is_file = before in _FILE_TESTS or before == "-a" or {before, after} & _FILE_COMPARISONS
        if is_file and arg.text not in _FILE_TESTS | _FILE_COMPARISONS:
            files.append(arg)
    return Reads(tuple(files))


def _lookup(args: Argv) -> Reads | NotUnderstood:
    return Reads() if args and args[0].literal and args[0].text in {"-v", "-V"} else _WHOLE


def _nothing(args: Argv) -> Reads | NotUnderstood:
    return _WHOLE if args else Reads()


_PARSERS: Final[dict[str, Callable[[Argv], Reads | NotUnderstood]]] = {
    "find": _find,
    "sed": _sed,
    "jq": _jq,
    "date": _date,
    "set": _set,
    "cd": _cd,
    "read": _read,
    "printf": _printf,
    "test": _test,
    "[[": _double_test,
    "command": _lookup,
    "time": _nothing,
}
