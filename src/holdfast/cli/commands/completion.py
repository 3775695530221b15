"""`holdfast completion`: completion scripts, generated from the argument parsers."""

from __future__ import annotations

import argparse
from typing import NamedTuple

from holdfast.cli.argument_parser import Parser, parser_of
from holdfast.cli.command_table import all_commands
from holdfast.cli.exit_status import Exit


class Completions(NamedTuple):
    """What can follow a command."""

    summary: str
    options: tuple[str, ...]
    values: tuple[str, ...]
    choices: dict[str, tuple[str, ...]]
    """The choices of each option."""


def configure(parser: Parser) -> None:
    parser.explain(
        "Print a completion script for your shell.",
        examples=(
            ("holdfast completion bash > ~/.local/share/bash-completion/completions/holdfast", ""),
            ("holdfast completion zsh > ~/.zfunc/_holdfast", "with ~/.zfunc in $fpath"),
            ("holdfast completion fish > ~/.config/fish/completions/holdfast.fish", ""),
        ),
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    commands = {name: completions_of(parser_of(command), command.summary) for name, command in all_commands().items()}
    make = {"bash": bash, "zsh": zsh, "fish": fish}[args.shell]
    print(make(commands))
    return Exit.COMPLETED


def completions_of(parser: argparse.ArgumentParser, summary: str) -> Completions:
    options: list[str] = []
    values: list[str] = []
    choices: dict[str, tuple[str, ...]] = {}
    for action in parser._actions:  # noqa: SLF001 - argparse has no public way to list them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - as above
            values += list(action.choices)
        elif action.help is not argparse.SUPPRESS:
            options += [option for option in action.option_strings if option.startswith("--")]
            given = tuple(str(choice) for choice in action.choices or ())
            choices |= {option: given for option in action.option_strings if given and option.startswith("--")}
            if not action.option_strings:
                values += list(given)
    return Completions(summary, tuple(options), tuple(values), choices)


def bash(commands: dict[str, Completions]) -> str:
    cases = []
    for name, found in commands.items():
        cases.append(f"    {name}) words='{' '.join((*found.values, *found.options))}' ;;")
    choices = {option: " ".join(given) for found in commands.values() for option, given in found.choices.items()}
    options = [
        f"    {option}) COMPREPLY=($(compgen -W '{given}' -- \"$cur\")); return ;;" for option, given in choices.items()
    ]
    return "\n".join(
        [
            "_holdfast() {",
            '  local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" words=""',
            '  case "$prev" in',
            *options,
            "  esac",
            '  case "${COMP_WORDS[1]}" in',
            *cases,
            "  esac",
            f"  [ \"$COMP_CWORD\" -eq 1 ] && words='{' '.join(commands)} --help --version'",
            '  COMPREPLY=($(compgen -W "$words" -- "$cur"))',
            "}",
            "complete -o default -F _holdfast holdfast",
        ]
    )


def zsh(commands: dict[str, Completions]) -> str:
    listed = [f"    {_quote(f'{name}:{found.summary}')}" for name, found in commands.items()]
    cases = [
        f"      {name}) compadd -- {' '.join((*found.values, *found.options))}; _files ;;"
        for name, found in commands.items()
    ]
    return "\n".join(
        [
            "#compdef holdfast",
            "_holdfast() {",
            "  local -a commands=(",
            *listed,
            "  )",
            "  if (( CURRENT == 2 )); then",
            "    _describe command commands",
            "  else",
            '    case "$words[2]" in',
            *cases,
            "    esac",
            "  fi",
            "}",
            'if [ "$funcstack[1]" = "_holdfast" ]; then _holdfast "$@"; else compdef _holdfast holdfast; fi',
        ]
    )


def fish(commands: dict[str, Completions]) -> str:
    lines = ["complete -c holdfast -f"]
    for name, found in commands.items():
        lines.append(f"complete -c holdfast -n __fish_use_subcommand -a {name} -d {_quote(found.summary)}")
        within = f"-n '__fish_seen_subcommand_from {name}'"
        lines += [f"complete -c holdfast {within} -a '{value}'" for value in found.values]
        for option in found.options:
            given = f" -xa '{' '.join(found.choices[option])}'" if option in found.choices else ""
            lines.append(f"complete -c holdfast {within} -l {option.removeprefix('--')}{given}")
    return "\n".join(lines)


def _quote(text: str) -> str:
    """Single quotes in a form that bash, zsh and fish understand."""
    return "'" + text.replace("'", "'\\''") + "'"
