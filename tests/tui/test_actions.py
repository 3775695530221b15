"""The table of actions: its keys are unique in their scope, and docs/tui.md shows it."""

import os
from pathlib import Path

from holdfast.tui.actions import ACTIONS, SCOPE_TITLES, actions_in, check_keys, key_table, slash_commands
from holdfast.tui.slash_commands import _COMMANDS

DOCUMENT = Path(__file__).parents[2] / "docs" / "tui.md"
BEGIN, END = "<!-- generated: actions -->\n", "<!-- end of generated -->"


def test_the_document_shows_the_table() -> None:
    text = DOCUMENT.read_text()
    head, rest = text.split(BEGIN)
    expected = f"{head}{BEGIN}\n{key_table()}\n\n{END}{rest.split(END)[1]}"
    if os.environ.get("HOLDFAST_TEST_UPDATE"):
        DOCUMENT.write_text(expected)
    assert text == expected, "run HOLDFAST_TEST_UPDATE=1 .venv/bin/pytest tests/tui/test_actions.py"


def test_no_key_has_two_meanings_in_one_scope() -> None:
    for scope in SCOPE_TITLES:
        keys = [key for action in actions_in(scope) for key in action.keys.split(",")]
        assert len(keys) == len(set(keys)), scope


def test_action_names_are_unique() -> None:
    names = [action.name for action in ACTIONS]
    assert len(names) == len(set(names))


def test_every_slash_command_in_the_table_exists() -> None:
    assert {name for name, _ in slash_commands()} <= _COMMANDS.keys()


def test_a_configured_key_of_an_unknown_action_is_told() -> None:
    keys, wrong = check_keys({"cancel": "ctrl+x", "fly": "f"})
    assert keys == {"cancel": "ctrl+x"}
    assert wrong == ["tui.keys.fly: there is no action 'fly'; /help lists the actions"]
