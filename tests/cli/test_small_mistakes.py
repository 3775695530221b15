"""Values that cannot be: a sentence that says so, before anybody is asked."""

import pytest

from holdfast.cli.commands.key import key_problem
from holdfast.cli.exit_status import message_and_advice
from holdfast.errors import ConfigError
from tests.cli.cli_shell import CliShell


@pytest.mark.parametrize(
    "words",
    [
        ("wait", "a/b"),
        ("cancel", "no such run"),
        ("attach", "../x"),
        ("sessions", "show", "?"),
        ("queue", "remove", "run\n1"),
        ("run", "--session", "a b", "hi"),
        ("approvals", "answer", "a/b", "once"),
    ],
)
def test_an_id_that_cannot_be_one_is_a_usage_error(sh: CliShell, words: tuple[str, ...]) -> None:
    done = sh(*words, env={"HOLDFAST_SERVER": "http://127.0.0.1:9"})  # nobody is asked
    assert (done.status, len(done.err.splitlines())) == (2, 2)
    assert "is not an id" in done.err


def test_a_place_in_the_queue_says_its_range(sh: CliShell) -> None:
    done = sh("queue", "move", "run_1", "0")
    assert done.status == 2
    assert "'0' is not a position in a queue; 1 starts next" in done.err
    assert "holdfast queue move run_… 1" in sh.ok("queue", "--help")


@pytest.mark.parametrize("listen", ["nonsense", "127.0.0.1:99999", "0.0.0.0:0"])
def test_an_address_that_cannot_be_listened_at_is_a_usage_error(sh: CliShell, listen: str) -> None:
    done = sh("serve", "--listen", listen)
    assert (done.status, done.out) == (2, "")
    assert "config edit" not in done.err


def test_only_a_file_of_settings_is_to_be_edited() -> None:
    assert (
        "config edit"
        in message_and_advice(ConfigError("unknown key 'modles'", detail={"file": "/home/u/config.toml"}))[1]
    )
    assert "config edit" not in message_and_advice(ConfigError("HOLDFAST_HOME must be an absolute path, got 'x'"))[1]


def test_a_setting_that_is_known_and_not_set_says_so(sh: CliShell) -> None:
    assert sh.ok("config", "get", "models.small") == "(not set)"
    assert sh.ok("config", "get", "models.small", "--json") == "null"
    assert sh.ok("config", "get", "providers.openai.base_url") == "(not set)"
    done = sh("config", "get", "limits.max_costs")
    assert (done.status, "unknown setting" in done.err) == (3, True)


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
def test_what_cannot_be_a_key_is_refused_with_a_sentence(key: str, why: str) -> None:
    found = key_problem(key)
    assert found is not None
    assert why in found
    assert not key or key not in found.split()


def test_a_key_is_read_whole(sh: CliShell) -> None:
    assert key_problem("sk-0123456789") is None
    done = sh("key", "set", "openai", given="sk-one-0123\nsk-two-0123\n")
    assert (done.status, "several lines" in done.err) == (2, True)


def test_a_provider_without_a_key_cannot_be_tried(sh: CliShell) -> None:
    done = sh("key", "test", "openai")
    assert done.status == 3
    assert "'openai' has no key" in done.err
    assert "again" in done.err


def test_a_retry_in_a_pipe_says_when(sh: CliShell) -> None:
    done = sh("run", "!retry in a pipe")
    assert (done.status, done.out) == (0, "at last\n")
    assert "retrying in 1 s" in done.err
