"""The first five minutes: no key, perhaps a local model server, and the model that needs neither."""

import socket
from collections.abc import Iterator

import pytest

from tests.cli.shell import Shell, shell


@pytest.fixture(scope="module")
def fresh() -> Iterator[Shell]:
    """Nothing is configured, and no local model server is where one usually is."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        closed = taken.getsockname()[1]
    with shell(provider=False) as made:
        made.env["OLLAMA_HOST"] = f"127.0.0.1:{closed}"
        yield made


def test_without_a_key_it_says_how_to_set_one(fresh: Shell) -> None:
    done = fresh("run", "hello")
    assert (done.status, done.out) == (3, "")
    assert "export ANTHROPIC_API_KEY=" in done.err
    assert "holdfast key set anthropic" in done.err
    assert "--model offline/demo" in done.err
    assert fresh("sessions", "list", "--json").json == []


def test_the_offline_model_works_at_once(fresh: Shell) -> None:
    assert fresh.ok("run", "--model", "offline/demo", "hello").endswith("hello")
    assert fresh("doctor").status == 1
    assert "offline/demo" in fresh.ok("models")


def test_a_local_model_server_that_answers_is_named(sh: Shell) -> None:
    assert sh.provider is not None
    with shell(provider=False) as fresh:
        fresh.env["OLLAMA_HOST"] = sh.provider.url().removesuffix("/v1")
        done = fresh("run", "--model", "anthropic/claude-sonnet-4-5", "hello")
        assert (done.status, "ANTHROPIC_API_KEY" in done.err) == (3, True)
        told = fresh.ok("models")
        assert "ollama/test-model" in told
