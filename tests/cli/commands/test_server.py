"""`holdfast status`, `stop`, `logs` and `backup`."""

from pathlib import Path

from holdfast import __version__
from holdfast.locations import Locations
from tests.cli.cli_shell import CliShell


def test_status_stop_and_logs(sh: CliShell) -> None:
    sh.ok("run", "!say hello")
    assert "running at unix:" in sh.ok("status")
    output = sh("status", "--json").json
    assert output["server"]["version"] == __version__
    assert [workspace["path"] for workspace in output["workspaces"]] == [str(sh.work)]
    assert "listening at unix:" in sh.ok("logs")
    assert len(sh.ok("logs", "-n", "1").splitlines()) == 1
    assert sh.ok("stop", "--if-idle") == "stopped"
    assert sh.ok("stop") == "no server is running"
    assert sh("status").status == 1
    assert not sh.locations.socket.exists()


def test_logs_can_be_followed(sh: CliShell) -> None:
    sh.ok("run", "!say hello")
    following = sh.start("logs", "-f", "-n", "1")
    following.until("\n")
    sh.ok("stop")
    following.until("stopped")
    following.signal()
    assert following.end().status == 130


def test_backup_copies_the_database_of_a_running_server(sh: CliShell) -> None:
    sh.ok("run", "!say hello")
    target = sh.base / "copy.db"
    assert sh("backup", str(target), "--json").json["size"] == target.stat().st_size
    assert sh("backup", str(target)).status == 2
    assert target.read_bytes().startswith(b"SQLite format 3")


def test_a_log_that_cannot_be_read_is_named(sh: CliShell, tmp_path: Path) -> None:
    env = {"HOLDFAST_HOME": str(tmp_path)}
    (Locations.from_env(env).logs_dir / "server.log").mkdir(parents=True)
    done = sh("logs", env=env)
    assert done.status == 1
    assert "server.log' cannot be read: Is a directory" in done.err
