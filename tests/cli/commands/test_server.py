"""`holdfast status`, `stop`, `logs` and `backup`."""

from holdfast import __version__
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
