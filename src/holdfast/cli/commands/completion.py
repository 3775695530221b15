"""`holdfast completion`: scripts for shells, made from the commands themselves."""

from __future__ import annotations

import argparse
from typing import NamedTuple

from holdfast.cli.argument_parser import Parser, parser_of
from holdfast.cli.command_table import all_commands
from holdfast.cli.exit_status import Exit


class Words(NamedTuple):
    """What can follow a command."""

    summary: str
    options: tuple[str, ...]
    inner: tuple[str, ...]
    choices: dict[str, tuple[str, ...]]
    """By option."""


def configure(parser: Parser) -> None:
    parser.explain(
        "Print a completion script.",
        examples=(
            ("holdfast completion bash > ~/.local/share/bash-completion/completions/holdfast", ""),
            ("holdfast completion zsh > ~/.zfunc/_holdfast", "with ~/.zfunc in $fpath"),
            ("holdfast completion fish > ~/.config/fish/completions/holdfast.fish", ""),
        ),
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    commands = {name: words_of(parser_of(command), command.summary) for name, command in all_commands().items()}
    make = {"bash": bash, "zsh": zsh, "fish": fish}[args.shell]
    print(make(commands))
    return Exit.COMPLETED


def words_of(parser: argparse.ArgumentParser, summary: str) -> Words:
    options: list[str] = []
    inner: list[str] = []
    choices: dict[str, tuple[str, ...]] = {}
    for action in parser._actions:  # noqa: SLF001 - argparse offers no other way to ask
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - as above
            inner += list(action.choices)
        elif action.help is not argparse.SUPPRESS:
            options += [option for option in action.option_strings if option.startswith("--")]
            given = tuple(str(choice) for choice in action.choices or ())
            choices |= {option: given for option in action.option_strings if given and option.startswith("--")}
            if not action.option_strings:
                inner += list(given)
    return Words(summary, tuple(options), tuple(inner), choices)


def bash(commands: dict[str, Words]) -> str:
    cases = []
    for name, words in commands.items():
        cases.append(f"    {name}) words='{' '.join((*words.inner, *words.options))}' ;;")
    values = {option: " ".join(given) for words in commands.values() for option, given in words.choices.items()}
    options = [
        f"    {option}) COMPREPLY=($(compgen -W '{given}' -- \"$cur\")); return ;;" for option, given in values.items()
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


def zsh(commands: dict[str, Words]) -> str:
    listed = [f"    '{name}:{words.summary}'" for name, words in commands.items()]
    cases = [
        f"      {name}) compadd -- {' '.join((*words.inner, *words.options))}; _files ;;"
        for name, words in commands.items()
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


def fish(commands: dict[str, Words]) -> str:
    lines = ["complete -c holdfast -f"]
    for name, words in commands.items():
        lines.append(f"complete -c holdfast -n __fish_use_subcommand -a {name} -d '{words.summary}'")
        within = f"-n '__fish_seen_subcommand_from {name}'"
        lines += [f"complete -c holdfast {within} -a '{inner}'" for inner in words.inner]
        for option in words.options:
            given = f" -xa '{' '.join(words.choices[option])}'" if option in words.choices else ""
            lines.append(f"complete -c holdfast {within} -l {option.removeprefix('--')}{given}")
    return "\n".join(lines)
