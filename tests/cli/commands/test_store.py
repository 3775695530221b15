"""`holdfast store`."""

import json
from pathlib import Path

from tests.cli.cli_shell import open_shell


def test_sessions_move_to_postgresql_and_are_used_there(postgres_database: str) -> None:
    with open_shell() as sh:
        sh.ok("run", "!say first")
        running = sh("store", "copy", "sqlite:", postgres_database)
        assert running.status == 1
        assert "holdfast stop" in running.err
        sh.ok("stop")
        assert "SQLite: " in sh.ok("store")
        copied = json.loads(sh.ok("store", "copy", "sqlite:", postgres_database, "--json"))
        assert {each["table"]: each["rows"] for each in copied}["runs"] == 1
        secret = postgres_database.replace("postgres@", "postgres:hunter2-of-the-database@")
        sh.ok("config", "set", "store", secret)
        sh.ok("stop")  # a server that runs goes on with its store
        shown = sh.ok("store")
        assert shown.startswith("PostgreSQL: postgresql://postgres:(hidden)@")
        assert sh.ok("run", "--continue", "!say second") == "second"
        listed = json.loads(sh.ok("sessions", "list", "--json"))
        assert len(listed["items"]) == 1
        refused = sh("backup", "copy.db")
        assert (refused.status != 0, "pg_dump" in refused.err) == (True, True)
        assert "PostgreSQL" in sh("doctor").out
        assert "hunter2" not in sh("doctor").out
        sh.ok("stop")
        refused = sh("restore", "latest")
        assert (refused.status != 0, "PostgreSQL" in refused.err) == (True, True)
        assert "hunter2" not in "".join(log.read_text() for log in sh.locations.logs_dir.glob("*"))


def test_addresses_that_are_no_stores_are_refused() -> None:
    with open_shell() as sh:
        wrong = sh("store", "copy", "mysql://x", "sqlite:")
        assert (wrong.status, "use sqlite:" in wrong.err) == (2, True)
        same = sh("store", "copy", "sqlite:", "sqlite:other.db")
        assert (same.status, "holdfast backup" in same.err) == (2, True)
        missing = sh("store", "copy", "sqlite:none.db", "postgresql:///x?host=/nowhere")
        assert (missing.status, "there is no database" in missing.err) == (1, True)
        assert not Path("none.db").exists()


def test_the_password_is_stored_for_the_user_alone() -> None:
    with open_shell() as sh:
        assert sh.ok("store", "password", given="hunter2\n") == "stored; it is used when the server starts"
        secrets = sh.locations.secrets_file
        assert secrets.stat().st_mode & 0o077 == 0
        assert json.loads(secrets.read_text())["keys"] == {"postgresql": "hunter2"}
        assert sh.ok("store", "password", given="") == "removed"
