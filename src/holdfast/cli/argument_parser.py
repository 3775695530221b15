"""Argument parsers with examples in their help and errors of two lines."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, NoReturn

from holdfast.cli.argument_values import identifier
from holdfast.cli.command_table import CliCommand
from holdfast.cli.exit_status import Exit
from holdfast.cli.screen import write_stderr

if TYPE_CHECKING:
    from _typeshed import SupportsWrite


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Finds the width without `shutil`, which argparse would import for every parser."""

    def __init__(self, prog: str) -> None:
        try:
            columns = int(os.environ.get("COLUMNS") or os.get_terminal_size().columns)
        except (OSError, ValueError):
            columns = 0
        super().__init__(prog, max_help_position=30, width=min(columns or 100, 120) - 2)


class Parser(argparse.ArgumentParser):
    def __init__(self, prog: str, **_: object) -> None:
        super().__init__(prog=prog, formatter_class=_Formatter, allow_abbrev=False)
        self.words_argument: str | None = None
        """The argument that collects all words; options may be between them."""
        self.default_subcommand: str | None = None
        """What the command does without a subcommand."""
        self.subcommands: tuple[str, ...] = ()

    def explain(self, description: str, *, examples: Sequence[tuple[str, str]] = ()) -> None:
        """Set the description and the examples, each a command line and its meaning."""
        self.description = description
        width = max((len(line) for line, _ in examples), default=0)
        shown = [f"  {line:<{width}}  {meaning}".rstrip() for line, meaning in examples]
        self.epilog = "\n".join(["examples:", *shown]) if shown else None

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        """Raise if the help cannot be written; argparse ignores that."""
        if file is not None:
            file.write(message)

    def error(self, message: str) -> NoReturn:
        write_stderr(f"{self.prog}: {message}\n{' ' * len(self.prog)}  '{self.prog} --help' shows the usage\n")
        raise SystemExit(Exit.USAGE)


def parser_of(command: CliCommand) -> Parser:
    """The parser of a command. Imports the command's module."""
    parser = Parser(f"holdfast {command.name}")
    command.configure_function()(parser)
    _add_common(parser, default=None)
    return parser


def _add_common(parser: Parser, *, default: str | None) -> None:
    parser.add_argument("--debug", action="store_true", default=default, help=argparse.SUPPRESS)
    parser.add_argument("-C", dest="directory", metavar="DIR", default=default, help=argparse.SUPPRESS)


def add_subcommands(parser: Parser, *, default: str) -> Callable[[str, str], Parser]:
    """Returns a function that adds a subcommand with its own help. Without a subcommand, ``default`` is meant."""
    actions = parser.add_subparsers(
        dest="subcommand", required=True, metavar="COMMAND", parser_class=Parser, description=f"without one: {default}"
    )
    parser.default_subcommand = default

    def add(name: str, summary: str) -> Parser:
        parser.subcommands += (name,)
        subparser = actions.add_parser(name, help=summary)
        subparser.description = summary[:1].upper() + summary[1:] + "."
        _add_common(subparser, default=argparse.SUPPRESS)  # keep the value given before the subcommand
        return subparser

    return add


def add_session_argument(parser: Parser) -> None:
    parser.add_argument(
        "session", type=identifier, nargs="?", metavar="SESSION", help="the last one of this directory by default"
    )
    add_session_option(parser)


def add_session_option(parser: Parser) -> None:
    """``--session ID``, as in `holdfast run`, besides the argument `session`."""
    parser.add_argument("--session", dest="session_option", type=identifier, metavar="ID", help="the same as SESSION")


def add_json_argument(parser: Parser) -> None:
    parser.add_argument("--json", action="store_true", help="print the server's answer as JSON")


def parse(parser: Parser, args: Sequence[str]) -> argparse.Namespace:
    if parser.default_subcommand and _has_no_subcommand(args, parser.subcommands):
        args = [parser.default_subcommand, *args]
    if parser.words_argument is None:
        return _with_session_option(parser, parser.parse_args(args))
    end = args.index("--") if "--" in args else len(args)
    parsed = parser.parse_intermixed_args(args[:end])
    getattr(parsed, parser.words_argument).extend(args[end + 1 :])
    return parsed


def _has_no_subcommand(args: Sequence[str], known: Collection[str]) -> bool:
    """Whether there are only options. A first word that is no subcommand is a mistake, and is reported as one."""
    is_option = not args or (args[0].startswith("-") and args[0] not in ("-h", "--help"))
    return is_option and not set(args) & set(known)


def _with_session_option(parser: Parser, parsed: argparse.Namespace) -> argparse.Namespace:
    if named := getattr(parsed, "session_option", None):
        if parsed.session:
            parser.error("a session was given twice: as an argument and with --session")
        parsed.session = named
    return parsed
