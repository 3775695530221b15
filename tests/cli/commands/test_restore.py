"""`holdfast restore`."""

import json

from tests.cli.cli_shell import open_shell


def test_a_damaged_database_is_restored_from_a_backup() -> None:
    with open_shell() as sh:
        assert sh.ok("restore") == "there are no automatic backups yet; the server makes one each day"
        sh.ok("run", "!say first")
        sh.ok("backup", "copy.db")
        running = sh("restore", "copy.db")
        assert running.status == 1
        assert "the server is running" in running.err
        assert "run 'holdfast stop', then restore again" in running.err
        sh.ok("stop")
        sh.locations.database.write_bytes(b"rubbish" * 10_000)
        refused = sh("run", "!say second")
        assert refused.status != 0
        assert "is damaged" in refused.err
        assert "holdfast restore" in refused.err
        none = sh("restore", "latest")
        assert (none.status, "there is no backup in" in none.err) == (1, True)
        found = json.loads(sh.ok("restore", "copy.db", "--json"))
        assert (found["sessions"], found["runs"]) == (1, 1)
        assert sh.ok("run", "--continue", "!say third") == "third"
        listed = json.loads(sh.ok("sessions", "list", "--json"))
        assert len(listed["items"]) == 1


def test_the_newest_automatic_backup_is_restored_as_latest() -> None:
    with open_shell() as sh:
        sh.ok("run", "!say first")
        backups = sh.locations.backups_dir
        backups.mkdir(mode=0o700)
        sh.ok("backup", str(backups / "holdfast-2026-11-16.db"))
        sh.ok("stop")
        assert sh.ok("restore").endswith("holdfast-2026-11-16.db")
        assert "1 sessions, 1 runs" in sh.ok("restore", "latest")
        assert sh.ok("run", "--continue", "!say second") == "second"
