"""`holdfast models`, and the help for users without a model."""

import socket
from collections.abc import Iterator

import pytest

from tests.cli.cli_shell import CliShell, open_shell


@pytest.fixture(scope="module")
def fresh() -> Iterator[CliShell]:
    """Nothing is configured, and no local model server is where one usually is."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        closed = taken.getsockname()[1]
    with open_shell(provider=False) as made:
        made.env["OLLAMA_HOST"] = f"127.0.0.1:{closed}"
        yield made


def test_run_without_a_key_prints_how_to_set_one(fresh: CliShell) -> None:
    before = fresh("sessions", "list", "--json").json["items"]
    done = fresh("run", "hello")
    assert (done.status, done.out) == (3, "")
    assert "export ANTHROPIC_API_KEY=" in done.err
    assert "holdfast key set anthropic" in done.err
    assert "--model offline/demo" in done.err
    assert fresh("sessions", "list", "--json").json["items"] == before


def test_the_offline_model_needs_no_configuration(fresh: CliShell) -> None:
    assert fresh.ok("run", "--model", "offline/demo", "hello").endswith("hello")
    assert fresh("doctor").status == 1
    assert "offline/demo" in fresh.ok("models")


def test_a_running_local_model_server_is_listed(sh: CliShell) -> None:
    assert sh.provider is not None
    with open_shell(provider=False) as fresh:
        fresh.env["OLLAMA_HOST"] = sh.provider.url().removesuffix("/v1")
        done = fresh("run", "--model", "anthropic/claude-sonnet-4-5", "hello")
        assert (done.status, "ANTHROPIC_API_KEY" in done.err) == (3, True)
        output = fresh.ok("models")
        assert "ollama/test-model" in output


def test_an_idle_server_is_restarted_to_use_a_new_key(sh: CliShell) -> None:
    assert sh.provider is not None
    with open_shell(provider=False) as fresh:
        fresh.locations.config_dir.mkdir(parents=True)
        fresh.locations.config_file.write_text(f'[providers.anthropic]\nbase_url = "{sh.provider.url("anthropic")}"\n')
        assert fresh("run", "hello").status == 3
        first = fresh.server_pid()
        done = fresh("run", "!say with a key", env={"ANTHROPIC_API_KEY": "sk-ant-0123456789"})
        assert (done.status, done.out) == (0, "with a key\n")
        assert "started without ANTHROPIC_API_KEY" in done.err
        assert fresh.server_pid() != first
        assert fresh.ok("run", "!say and after that without it here") == "and after that without it here"


def test_a_busy_server_is_not_restarted_for_a_new_key(sh: CliShell) -> None:
    run_id = sh.ok("run", "--detach", "!gate busy")
    pid = sh.server_pid()
    done = sh("run", "--model", "anthropic/claude-sonnet-4-5", "hello", env={"ANTHROPIC_API_KEY": "sk-ant-0123456789"})
    assert (done.status, sh.server_pid()) == (3, pid)
    assert "is busy; run 'holdfast stop'" in done.err
    sh.open("busy")
    assert sh.ok("wait", run_id) == "before the gate, after the gate"
