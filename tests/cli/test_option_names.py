"""Options have the same names and values in all commands."""

import argparse
from collections import defaultdict
from collections.abc import Iterator

from holdfast.cli.argument_parser import Parser, parser_of
from holdfast.cli.command_table import all_commands

WITHOUT_JSON = {
    "attach": "follows a session as text; 'run --output jsonl' and the event stream are for programs",
    "completion": "prints a script",
    "config edit": "opens an editor",
    "config path": "prints a path",
    "config schema": "prints JSON anyway",
    "demo": "shows a session",
    "logs": "prints lines of a file",
    "mcp serve": "speaks a protocol on stdout",
    "serve": "runs until it is stopped",
    "acp": "speaks a protocol of its own on stdout",
    "stop": "prints one word",
    "store password": "prints one line",
}


def _leaves(name: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not below:
        yield name, parser
    for action in below:
        for subcommand, subparser in action.choices.items():
            yield from _leaves(f"{name} {subcommand}", subparser)


LEAVES = {name: parser for top, command in all_commands().items() for name, parser in _leaves(top, parser_of(command))}


def _options(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    return {option: action for action in parser._actions for option in action.option_strings}


def test_every_command_that_prints_data_prints_json() -> None:
    assert {name for name, parser in LEAVES.items() if "--json" not in _options(parser)} == set(WITHOUT_JSON)


def test_every_command_with_an_optional_session_takes_the_option_too() -> None:
    with_session = [
        name
        for name, parser in LEAVES.items()
        if any(action.metavar == "SESSION" and action.nargs == "?" for action in parser._actions)
    ]
    assert len(with_session) > 8
    assert [name for name in with_session if "--session" not in _options(LEAVES[name])] == []


def test_an_option_takes_the_same_value_everywhere() -> None:
    values: dict[str, set[tuple[object, ...]]] = defaultdict(set)
    for parser in LEAVES.values():
        for option, action in _options(parser).items():
            values[option].add((action.metavar, action.nargs))
    assert {option: found for option, found in values.items() if len(found) > 1} == {}


def test_a_short_option_stands_for_the_same_long_one_everywhere() -> None:
    meanings: dict[str, set[str]] = defaultdict(set)
    for parser in LEAVES.values():
        for option, action in _options(parser).items():
            if not option.startswith("--"):
                meanings[option].add(next((one for one in action.option_strings if one.startswith("--")), option))
    assert {option: found for option, found in meanings.items() if len(found) > 1} == {}


def test_commands_with_subcommands_do_something_without_one() -> None:
    parsers = [parser_of(command) for command in all_commands().values()]
    groups = [parser for parser in parsers if isinstance(parser, Parser) and parser.subcommands]
    assert {"holdfast sessions", "holdfast queue", "holdfast jobs"} <= {parser.prog for parser in groups}
    assert [parser.prog for parser in groups if parser.default_subcommand not in parser.subcommands] == []
