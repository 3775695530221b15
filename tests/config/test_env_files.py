"""Secrets of .env files are found; ordinary values stay readable."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.config.env_files import env_secrets, find_env_files, is_env_file, read_env_secrets


def secrets(text: str) -> set[str]:
    return {secret.reveal() for secret in env_secrets(text)}


def test_values_of_secret_names_and_random_values_are_secrets() -> None:
    text = """
# a comment
API_KEY=abcdefgh
export DB_PASSWORD='with space # and hash'
PLAIN_TOKEN = "quoted-token" # comment
OPAQUE=9f8e7d6c5b4a39281706f5e4d3c2b1a0
DATABASE_URL=postgres://user:hunter2hunter2@db.test/app
PRIVATE_KEY="-----BEGIN X-----
line two
-----END X-----"
"""
    assert secrets(text) == {
        "abcdefgh",
        "with space # and hash",
        "quoted-token",
        "9f8e7d6c5b4a39281706f5e4d3c2b1a0",
        "hunter2hunter2",
        "-----BEGIN X-----\nline two\n-----END X-----",
    }


def test_ordinary_values_are_not_secrets() -> None:
    text = """
NODE_ENV=production
PORT=8000
DEBUG=true
BASE_URL=https://example.test/a/long/path/v1/2024/01/02
GREETING=hello wide world of many words
API_KEY=your-key-here
OTHER_KEY=<fill in>
SHORT_KEY=abc
NAME=a-package-with-a-long-name
broken line
"""
    assert secrets(text) == set()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (".env", True),
        (".env.local", True),
        (".env.production.local", True),
        (".envrc", True),
        (".env.example", False),
        (".env.local.sample", False),
        ("env", False),
        (".environment", False),
    ],
)
def test_names_of_env_files(name: str, expected: bool) -> None:
    assert is_env_file(name) is expected


def test_env_files_are_found_two_levels_down_and_links_to_directories_are_not_followed(tmp_path: Path) -> None:
    for folder in ("", "apps/web", "node_modules/x", "a/b/c", ".hidden"):
        (tmp_path / "ws" / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / "ws" / folder / ".env").write_text("A_TOKEN=abcdefgh-" + folder)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / ".env").write_text("A_TOKEN=from-elsewhere")
    (tmp_path / "ws" / "link").symlink_to(tmp_path / "other")
    found = find_env_files(tmp_path / "ws")
    assert sorted(str(path.relative_to(tmp_path / "ws")) for path in found) == [".env", "apps/web/.env"]
    assert {secret.reveal() for secret in read_env_secrets(found)} == {"abcdefgh-", "abcdefgh-apps/web"}
    assert read_env_secrets((tmp_path / "missing",)) == frozenset()
