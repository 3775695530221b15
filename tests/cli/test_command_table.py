"""The commands and their help."""

import re

import pytest

from holdfast import __version__
from holdfast.cli.argument_parser import parser_of
from holdfast.cli.command_table import all_commands
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
