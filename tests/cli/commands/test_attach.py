"""`holdfast attach`."""

from tests.cli.cli_shell import CliShell


def test_attach_until_idle_prints_an_idle_session_and_exits(sh: CliShell) -> None:
    session = sh("run", "--output", "json", "!bash echo attached").json["session_id"]
    done = sh("attach", session, "--until-idle", "--all")
    assert (done.status, done.out.startswith("I begin.")) == (0, True)
    assert "> !bash echo attached" in done.err
    assert "✓ bash echo attached" in done.err
