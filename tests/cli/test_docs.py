"""The documents about the command line match the code."""

import re
from pathlib import Path

from holdfast.cli.command_table import all_commands
from holdfast.cli.exit_status import ADVICE, Exit
from holdfast.cli.run_result import VERSION, ResultUsage, RunResult
from holdfast.config.provider_catalogue import PROVIDERS

_ROOT = Path(__file__).parents[2]
_CLI = (_ROOT / "docs" / "cli.md").read_text("utf-8")
_README = (_ROOT / "README.md").read_text("utf-8")


def _first_cells(heading: str) -> list[str]:
    section = _CLI.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| (?!-|status |field |variable )(.*?) \|", section, re.MULTILINE)


def test_the_docs_list_every_exit_status() -> None:
    assert [int(cell) for cell in _first_cells("Exit statuses")] == [int(status) for status in Exit]


def test_the_docs_list_every_field_of_the_result() -> None:
    named = [name for cell in _first_cells("What programs read") for name in re.findall(r"`(\w+)`", cell)]
    assert named == ["kind", *RunResult.__struct_fields__]
    assert f"| `version` | {VERSION} |" in _CLI
    (usage,) = re.findall(r"^\| `usage` \| (.*) \|$", _CLI, re.MULTILINE)
    assert re.findall(r"`(\w+)`", usage) == list(ResultUsage.__struct_fields__)


def test_the_readme_names_every_command() -> None:
    table = _README.partition("## Commands\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"`(?:holdfast )?([a-z]+)(?: PROMPT…)?`", table)) == set(all_commands())


def test_the_links_of_the_readme_exist() -> None:
    assert [target for target in re.findall(r"\]\(([^)]+)\)", _README) if not (_ROOT / target).exists()] == []


def test_every_model_of_a_built_in_provider_that_is_named_to_users_exists() -> None:
    sources = [*(_ROOT / "src" / "holdfast" / "cli").rglob("*.py"), _ROOT / "README.md", *(_ROOT / "docs").glob("*.md")]
    named = {
        (provider, model.rstrip("."))
        for source in sources
        for provider, model in re.findall(
            r"\b([a-z]+)/([a-z0-9][a-z0-9.:-]+)(?![*a-z0-9.:-])", source.read_text("utf-8")
        )
        if provider in PROVIDERS and not PROVIDERS[provider].any_model
    }
    assert ("anthropic", "claude-sonnet-4-5") in named
    assert {pair for pair in named if pair[1] not in {model.id for model in PROVIDERS[pair[0]].models}} == set()


def test_every_command_named_in_an_advice_exists() -> None:
    advised = {name for text in ADVICE.values() for name in re.findall(r"'holdfast ([a-z]+)", text)}
    assert advised - set(all_commands()) == set()
