"""`holdfast key`."""

import re

import pytest

from holdfast.cli.commands.key import key_problem
from tests.cli.cli_shell import CliShell


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("", "no key"),
        ("sk-one\nsk-two", "several lines"),
        ("x", "too short"),
        ("sk-tes\u0442-key", "characters"),
        ("sk-a b-key", "characters"),
        ("k" * 5000, "longer"),
    ],
)
def test_an_invalid_key_is_refused_with_a_reason(key: str, why: str) -> None:
    found = key_problem(key)
    assert found is not None
    assert why in found
    assert not key or key not in found.split()


def test_a_key_with_several_lines_is_refused(sh: CliShell) -> None:
    assert key_problem("sk-0123456789") is None
    done = sh("key", "set", "openai", given="sk-one-0123\nsk-two-0123\n")
    assert (done.status, "several lines" in done.err) == (2, True)


def test_a_provider_without_a_key_cannot_be_tested(sh: CliShell) -> None:
    done = sh("key", "test", "openai")
    assert done.status == 3
    assert "'openai' has no key" in done.err
    assert "again" in done.err


def test_models_and_keys(sh: CliShell) -> None:
    assert re.search(r"^\* +test/test-model", sh.ok("models"), re.MULTILINE)
    assert "holdfast key set anthropic" in sh.ok("models", "--all")
    assert sh("models", "--json").json["large"] == "test/test-model"
    assert sh("key", "test", "anthropic").status == 3
    assert "stored" in sh.ok("key", "set", "anthropic", given="sk-secret-never-shown\n")
    output = sh("models", "--all").out + sh("models", "--json").out + sh("doctor").out + sh("doctor", "--json").out
    assert "key from" in output
    assert "sk-secret-never-shown" not in output
    assert sh.ok("key", "forget", "anthropic") == "removed"
    assert "holdfast key set anthropic" in sh.ok("models", "--all")
    assert "test/test-model answered" in sh.ok("key", "test", "test")
    assert sh("key", "set", "anthropic", given="").status == 2
