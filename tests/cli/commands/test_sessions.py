"""`holdfast sessions`."""

import json

from tests.cli.cli_shell import CliShell


def test_sessions_are_listed_shown_renamed_searched_exported_forked_and_deleted(sh: CliShell) -> None:
    session = sh("run", "--output", "json", "!say a needle in the hay").json["session_id"]
    assert session in sh.ok("sessions", "list")
    assert sh.ok("sessions", "list", "-n", "1", "--json").count('"id"') == 1
    shown = sh.ok("sessions", "show", session)
    assert "> !say a needle in the hay" in shown
    assert sh("sessions", "show", "--json").json["session"]["id"] == session
    assert sh.ok("sessions", "rename", session, "Another", "title") == f"{session}  Another title"
    assert "needle" in sh.ok("sessions", "search", "needle")
    assert sh("sessions", "search", "needle", "--everywhere", "--json").json["items"][0]["session_id"] == session
    assert sh.ok("sessions", "export", session).startswith("# Another title")
    target = sh.base / "exported.json"
    sh.ok("sessions", "export", session, "--format", "json", "-o", str(target))
    assert json.loads(target.read_text())["session"]["id"] == session
    assert sh("sessions", "export", session, "-o", str(target)).status == 2
    fork = sh.ok("sessions", "fork", session)
    assert sh("sessions", "show", fork, "--json").json["session"]["forked_from"] == session
    assert sh("sessions", "delete", fork).status == 2
    assert sh.ok("sessions", "delete", fork, "--yes") == f"deleted {fork}"
    assert sh("sessions", "show", fork).status == 1
