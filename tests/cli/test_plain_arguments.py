"""A plain command line is read as argparse reads it; all others are left to argparse."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.argument_parser import parse, parser_of
from holdfast.cli.command_table import all_commands
from holdfast.cli.plain_arguments import PlainArguments

PLAIN = [name for name, command in all_commands().items() if command.has_plain_arguments]


def _read(name: str, args: list[str]) -> dict[str, Any] | None:
    arguments = PlainArguments()
    all_commands()[name].configure_function()(arguments)
    return arguments.read(args)


def _parse(name: str, args: list[str]) -> dict[str, Any]:
    return vars(parse(parser_of(all_commands()[name]), args))


@pytest.mark.parametrize(
    "line",
    [
        "",
        "why",
        "why does it fail",
        "-",
        "-q fix --model a/b it",
        "--model=a/b --model c/d x",
        "--attach a.txt --attach=b.txt x",
        "--timeout 5m --max-cost $0.50 --max-steps 3 x",
        "--mode auto --output json --json x",
        "--json --output text x",
        "--session ses_1 --continue --verbose --detach --run-id r.1 x",
        "--debug -C /tmp x",
        "x -- --model -q --",
        "-- -x",
        "a=b --effort high",
    ],
)
def test_a_plain_line_is_read_as_argparse_reads_it(line: str) -> None:
    args = line.split()
    assert _read("run", args) == _parse("run", args)


@pytest.mark.parametrize(
    "args",
    [
        ["--help"],
        ["-h"],
        ["--mod", "a/b"],
        ["-qv"],
        ["-C=x"],
        ["-Cx"],
        ["--model"],
        ["--model", "--", "x"],
        ["--model", "-x"],
        ["--model", ""],
        ["--quiet=1"],
        ["--mode", "other"],
        ["--max-steps", "0"],
        ["--timeout=never"],
        ["--session", "a b"],
        ["- x"],
    ],
)
def test_mistakes_and_unusual_forms_are_left_to_argparse(args: list[str]) -> None:
    assert _read("run", ["hi", *args]) is None


@pytest.mark.parametrize(
    "line",
    [
        "",
        "--listen 127.0.0.1:0",
        "--listen=127.0.0.1:0 --idle-exit",
        "--token-file t --allow-remote --crush auto --listen [::1]:8000",
        "--debug -C /tmp --idle-exit",
    ],
)
def test_a_plain_line_of_a_command_without_words_is_read_as_argparse_reads_it(line: str) -> None:
    args = line.split()
    assert _read("serve", args) == _parse("serve", args)


@pytest.mark.parametrize("args", [["word"], ["-"], ["--"], ["--", "word"], ["--listen"], ["--lis", "x"], ["--help"]])
def test_words_are_left_to_argparse_by_a_command_without_words(args: list[str]) -> None:
    assert _read("serve", ["--idle-exit", *args]) is None


_OPTIONS = ["--model", "--mode", "--quiet", "-q", "--json", "--output", "--attach", "--timeout", "--max-steps", "-C"]
_OPTIONS += ["--listen", "--idle-exit", "--crush"]
_TEXTS = ["auto", "json", "5m", "3", "-1", "a b", "", "-", "--", "-x", "é", "x=y"]
_JOINED = st.tuples(st.sampled_from(_OPTIONS), st.sampled_from(_TEXTS)).map("=".join)


@given(name=st.sampled_from(PLAIN), args=st.lists(st.sampled_from(_OPTIONS + _TEXTS) | _JOINED, max_size=6))
def test_whatever_is_read_plainly_is_what_argparse_reads(name: str, args: list[str]) -> None:
    values = _read(name, args)
    assert values is None or values == _parse(name, args)
