"""An edit changes one key and nothing else."""

from __future__ import annotations

import os
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.config.config_edit import edit_config
from holdfast.errors import ConfigError

PLANTED = "sk-planted-0123456789abcdef"
FILE = """# my settings
[limits]            # how far it may go
max_steps = 50      # enough
# the other settings are at their defaults

[tui]
keys = { cancel = "escape" }  # inline
[providers.local]
wire = "openai-chat"
base_url = "http://127.0.0.1:1"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(FILE)
    return path


def test_a_value_changes_and_the_comments_stay(file: Path) -> None:
    edit_config(file, {"limits.max_steps": 7})
    assert file.read_text() == FILE.replace("max_steps = 50 ", "max_steps = 7 ")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("models.large", "anthropic/x"),
        ("limits.first_token", "5s"),
        ("tui.keys.quit", "q"),
        ("approvals.allow", ["view", "ls"]),
        ('providers.local.models."gpt-5.5".price.input', 1.5),
        ("agents.reviewer.prompt", "Two\nlines with \"quotes\" and 'more'"),
        ("providers.local.headers", {"X-Team": "a"}),
        ("mcp.docs", {"command": ["x", "-y"]}),
    ],
)
def test_any_key_can_be_set_also_in_a_table_that_does_not_exist_yet(file: Path, key: str, value: Any) -> None:
    edit_config(file, {key: value})
    found: Any = tomllib.loads(file.read_text())
    for part in tomllib_path(key):
        found = found[part]
    assert found == value
    assert "# my settings" in file.read_text()


def tomllib_path(key: str) -> list[str]:
    parts = []
    found: Any = tomllib.loads(f"{key} = 0")
    while isinstance(found, dict):
        [(part, found)] = found.items()
        parts.append(part)
    return parts


def test_a_key_can_be_removed_and_removing_it_again_changes_nothing(file: Path) -> None:
    edit_config(file, {"limits.max_steps": None})
    once = file.read_text()
    assert "max_steps" not in once
    assert "# how far it may go" in once
    edit_config(file, {"limits.max_steps": None, "nothing.there": None})
    assert file.read_text() == once


def test_a_new_file_is_private(tmp_path: Path) -> None:
    path = tmp_path / "new" / "config.toml"
    edit_config(path, {"models.large": "a/b"})
    assert tomllib.loads(path.read_text()) == {"models": {"large": "a/b"}}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_several_changes_are_made_together_or_not_at_all(file: Path) -> None:
    edit_config(file, {"providers.b.wire": "gemini", "providers.b.base_url": "http://127.0.0.1:2"})
    before = file.read_text()
    with pytest.raises(ConfigError):
        edit_config(file, {"limits.max_steps": 9, "limits.tool_parallel": 0})
    assert file.read_text() == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"limits.max_stepz": 1}, "unknown key 'max_stepz'; did you mean 'max_steps'?"),
        ({"limits.max_steps": "many"}, "expected a whole number, got text"),
        ({"limits": 3}, "expected a table"),
        ({"limits.max_steps.more": 3}, "cannot be changed without other changes"),
        ({"providers.x.wire": "gemini"}, "'base_url' is missing"),
        ({"a..b": 3}, "is not a key"),
        ({"providers.anthropic.api_key": f"env:{PLANTED}"}, "expected a variable's name after 'env:'"),
    ],
)
def test_a_change_that_would_break_the_file_is_refused_and_the_file_is_untouched(
    file: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        edit_config(file, changes)
    assert message in caught.value.message
    assert PLANTED not in caught.value.message
    assert file.read_text() == FILE


def test_a_file_that_is_broken_already_is_named_and_untouched(file: Path) -> None:
    file.write_text("not toml at all")
    with pytest.raises(ConfigError, match=r"config\.toml:1: is not valid TOML"):
        edit_config(file, {"limits.max_steps": 1})
    assert file.read_text() == "not toml at all"


def test_a_link_stays_a_link_and_permissions_stay(file: Path, tmp_path: Path) -> None:
    file.chmod(0o644)
    link = tmp_path / "link.toml"
    link.symlink_to(file)
    edit_config(link, {"limits.max_steps": 8})
    assert link.is_symlink()
    assert "max_steps = 8" in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert sorted(os.listdir(tmp_path)) == ["config.toml", "link.toml"]


names = st.text("abc-_. é\"'", min_size=1, max_size=4).filter(str.strip)


@given(
    before=st.dictionaries(names, st.dictionaries(names, st.text(max_size=5), max_size=3), max_size=3),
    action=names,
    value=st.text(max_size=10).filter(lambda text: text.isprintable()),
)
@settings(max_examples=40)
def test_only_the_requested_key_of_a_file_changes(
    tmp_path_factory: pytest.TempPathFactory, before: dict[str, dict[str, str]], action: str, value: str
) -> None:
    path = tmp_path_factory.mktemp("edit") / "config.toml"
    keys = {f"{name}/{key}": text for name, table in before.items() for key, text in table.items()}
    edit_config(path, {"tui.keys": {name: text for name, text in keys.items() if text.isprintable()}} if keys else {})
    expected = tomllib.loads(path.read_text()) if path.exists() else {}
    edit_config(path, {f"tui.keys.{quoted(action)}": value})
    expected.setdefault("tui", {}).setdefault("keys", {})[action] = value
    assert tomllib.loads(path.read_text()) == expected


def quoted(part: str) -> str:
    return '"' + part.replace("\\", "\\\\").replace('"', '\\"') + '"'


def test_the_last_table_below_a_header_can_be_removed(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("[limits]\nmax_steps = 7\n")
    edit_config(path, {"mcp.docs": {"command": ["docs"]}})
    assert "[mcp.docs]" in path.read_text()
    edit_config(path, {"mcp.docs": None})
    assert tomllib.loads(path.read_text()) == {"limits": {"max_steps": 7}}
