"""`holdfast completion`."""

import os
import subprocess
from collections.abc import Callable

import pytest

from holdfast.cli.argument_parser import parser_of
from holdfast.cli.command_table import all_commands
from holdfast.cli.commands.completion import Completions, bash, completions_of, fish, zsh
from tests.cli.cli_shell import CliShell


@pytest.mark.parametrize("make", [bash, zsh, fish])
def test_completion_scripts_contain_every_command(make: Callable[[dict[str, Completions]], str]) -> None:
    commands = {name: completions_of(parser_of(command), command.summary) for name, command in all_commands().items()}
    script = make(commands)
    assert [command for command in commands if command not in script] == []
    assert "output-schema" in script


def test_bash_completes_options(sh: CliShell) -> None:
    script = sh.ok("completion", "bash")
    program = f"{script}\nCOMP_WORDS=(holdfast run --out); COMP_CWORD=2; _holdfast; echo ${{COMPREPLY[*]}}"
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout.split() == ["--output", "--output-schema"]


@pytest.mark.parametrize("make", [zsh, fish])
def test_quotes_in_a_summary_are_escaped(make: Callable[[dict[str, Completions]], str]) -> None:
    script = make({"pause": Completions("pause a session's queue", (), (), {})})
    assert "pause a session'\\''s queue'" in script
