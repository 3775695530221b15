"""`holdfast gc`."""

import json
import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from tests.cli.cli_shell import CliShell, open_shell


def test_unused_sessions_are_deleted_only_if_asked_and_confirmed() -> None:
    with open_shell() as sh:
        sh.ok("run", "!say old " + "x" * 3000)
        old = sh.last_session()
        sh.ok("stop")
        _age(sh, old)
        sh.ok("run", "!say new")
        assert _session_count(sh) == 2
        assert "removed" in sh.ok("gc")
        assert _session_count(sh) == 2
        refused = sh("gc", "--sessions", "30")
        assert refused.status != 0
        assert "nothing was deleted" in refused.err
        assert "--yes" in refused.err
        assert _session_count(sh) == 2
        freed = json.loads(sh.ok("gc", "--sessions", "30", "--yes", "--json"))
        assert freed["sessions"] == 1
        assert sh.last_session() != old
        assert _session_count(sh) == 1


def test_old_outputs_and_unneeded_contents_are_removed_and_their_size_is_told() -> None:
    with open_shell() as sh:
        outputs = sh.locations.outputs_dir
        outputs.mkdir(parents=True)
        _write_old(outputs / "first.txt", size=10)
        sh.ok("run", "!say hello")
        _wait_for_log(sh, "removed 0 old file contents and 1 old outputs")  # the server does it itself once an hour
        _write_old(outputs / "old.txt", size=50_000)
        (outputs / "new.txt").write_bytes(b"x" * 1_000)
        freed = json.loads(sh.ok("gc", "--json"))["freed"]
        assert freed["outputs"] == 1
        assert freed["files_before"] - freed["files_after"] == 50_000
        assert freed["database_after"] <= freed["database_before"]
        assert [path.name for path in outputs.glob("*.txt")] == ["new.txt"]
        assert "nothing: all of it is still needed" in sh.ok("gc")
        assert sh.ok("run", "--continue", "!say on") == "on"


def _write_old(file: Path, *, size: int) -> None:
    file.write_bytes(b"x" * size)
    os.utime(file, (1, 1))


def _wait_for_log(sh: CliShell, words: str) -> None:
    while words not in "".join(log.read_text() for log in sh.locations.logs_dir.glob("*")):
        time.sleep(0.01)


def _session_count(sh: CliShell) -> int:
    return len(json.loads(sh.ok("sessions", "list", "--json"))["items"])


def _age(sh: CliShell, session_id: str) -> None:
    """As if nothing had happened in the session for years."""
    with closing(sqlite3.connect(sh.locations.database)) as connection, connection:
        connection.execute("UPDATE sessions SET updated_at = '2020-01-01T00:00:00.000Z' WHERE id = ?", (session_id,))
