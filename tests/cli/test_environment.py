"""Runs behave as in the shell in which they were typed, whichever shell started the server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.cli_shell import CliShell, open_shell


@pytest.fixture(scope="module")
def sh() -> Iterator[CliShell]:
    """The server is started by a shell of its own."""
    with open_shell() as made:
        made.ok("run", "!say started", env={"VIRTUAL_ENV": "/starter", "HOLDFAST_MODEL": "offline/demo"})
        yield made


@pytest.mark.promise("R15")
def test_a_command_has_the_variables_of_its_own_shell(sh: CliShell) -> None:
    show = ("run", "--mode", "auto", "!bash echo [$VIRTUAL_ENV][$NODE_ENV][$CONDA_TOKEN]")
    assert "[/mine][test][]" in sh.ok(*show, env={"VIRTUAL_ENV": "/mine", "NODE_ENV": "test", "CONDA_TOKEN": "x"})
    assert "[][][]" in sh.ok(*show)


@pytest.mark.promise("R15")
def test_the_model_of_the_shell_counts_only_there(sh: CliShell) -> None:
    here = {"HOLDFAST_MODEL": "offline/demo"}
    assert "offline demo" in sh.ok("run", "!say mine", env=here)
    assert sh.ok("run", "!say mine") == "mine"
    assert sh("run", "--model", "test/test-model", "!say mine", env=here).out == "mine\n"
    assert sh("models", "--json", env=here).json["large"] == "offline/demo"
    assert sh("models", "--json").json["large"] == "test/test-model"
    assert "default model: offline/demo" in sh("doctor", env=here).out
    origin = sh.ok("config", "get", "models.large", "--origin", env=here)
    assert origin.split() == ["models.large", "offline/demo", "environment", "(HOLDFAST_MODEL)"]
    wrong = sh("run", "!say mine", env={"HOLDFAST_MODEL": "no/such"})
    assert (wrong.status, len(wrong.err.splitlines())) == (3, 2)
    assert "'no/such'" in wrong.err


@pytest.mark.promise("R15")
def test_another_configuration_restarts_an_idle_server_and_is_refused_by_a_busy_one(sh: CliShell) -> None:
    (sh.work / "extra.toml").write_text('[models]\nlarge = "offline/demo"\n')
    there = {"HOLDFAST_CONFIG": "extra.toml"}
    busy = sh.ok("run", "--detach", "!hang")
    refused = sh("run", "!say mine", env=there)
    assert (refused.status, len(refused.err.splitlines())) == (1, 2)
    assert f"HOLDFAST_CONFIG is {str(sh.work / 'extra.toml')!r} in this shell" in refused.err
    assert "which the server does not use" in sh("config", env=there).err
    assert "HOLDFAST_CONFIG" not in sh("config").err
    sh("cancel", busy)
    pid = sh.server_pid()
    missing = sh("run", "!say mine", env={"HOLDFAST_CONFIG": "absent.toml"})
    assert (missing.status, "'absent.toml', which is not a file" in missing.err) == (3, True)
    assert sh.server_pid() == pid
    assert "offline demo" in sh.ok("run", "!say mine", env=there)
    assert sh.server_pid() != pid
    assert "HOLDFAST_CONFIG" not in sh("config", env=there).err
    assert "offline demo" in sh.ok("run", "!say mine", env=there)
    sh.ok("stop")
    assert sh.ok("run", "!say mine") == "mine"


@pytest.mark.promise("R15")
def test_a_server_elsewhere_gets_no_variables_and_refuses_a_configuration(sh: CliShell, tmp_path: Path) -> None:
    sh.ok("stop")
    token = "a-token-of-this-test"
    serving = sh.start("serve", "--listen", "127.0.0.1:0", env={"HOLDFAST_TOKEN": token, "NODE_ENV": "server"})
    serving.until("http://")
    address = next(line for line in serving.until("\n").splitlines() if line.startswith("http://"))
    remote = {"HOLDFAST_SERVER": address, "HOLDFAST_TOKEN": token, "NODE_ENV": "client"}
    assert "[server]" in sh.ok("run", "--mode", "auto", "!bash echo [$NODE_ENV]", env=remote)
    assert "offline demo" in sh.ok("run", "!say x", env={**remote, "HOLDFAST_MODEL": "offline/demo"})
    refused = sh("run", "!say x", env={**remote, "HOLDFAST_CONFIG": str(tmp_path / "x.toml")})
    assert (refused.status, "has a configuration of its own" in refused.err) == (3, True)
    sh.ok("stop")
    assert serving.end().status == 0
