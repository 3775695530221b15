"""The commands and their help."""

import re
import shlex
from collections.abc import Iterator

import pytest

from holdfast import __version__
from holdfast.cli.argument_parser import parse, parser_of
from holdfast.cli.command_table import EXAMPLES, all_commands
from tests.cli.cli_shell import CliShell


def test_the_version_and_the_help_need_no_server(sh: CliShell) -> None:
    assert sh.ok("--version") == f"holdfast {__version__}"
    help_text = sh.ok("--help")
    assert [name for name in all_commands() if not re.search(rf"^  {name} ", help_text, re.MULTILINE)] == []
    assert "examples:" in help_text
    assert sh.ok("help", "run") == sh.ok("run", "--help")


@pytest.mark.parametrize("name", sorted(all_commands()))
def test_each_command_has_a_description_and_an_example(name: str) -> None:
    parser = parser_of(all_commands()[name])
    help_text = parser.format_help()
    assert help_text.startswith(f"usage: holdfast {name}")
    assert parser.description
    assert parser.description in help_text
    assert "examples:" in help_text


def _examples(text: str) -> Iterator[str]:
    """The calls of `holdfast` in a list of examples, without pipes and meanings."""
    for line in text.splitlines()[1:]:
        command_line = re.split(r"  +", line.strip())[0]
        yield from (found.strip() for found in re.findall(r"holdfast ([^|>;)]+)", command_line))


_ALL_EXAMPLES = [
    *_examples(EXAMPLES),
    *(call for command in all_commands().values() for call in _examples(parser_of(command).epilog or "")),
]


@pytest.mark.parametrize("call", _ALL_EXAMPLES)
def test_each_example_in_a_help_text_is_valid(call: str) -> None:
    if call.startswith('"'):
        return  # a prompt without a command
    name, *args = shlex.split(call.replace("_…", "_1").replace("$id", "run_1").replace("…", ""))
    parsed = parse(parser_of(all_commands()[name]), args)
    assert callable(parsed.run)
