"""`holdfast changes`, `undo` and `redo`."""

from tests.cli.cli_shell import CliShell


def test_changes_undo_and_redo(sh: CliShell) -> None:
    made = sh.work / "made.txt"
    sh.ok("run", "--mode", "accept_edits", "!write made.txt")
    assert made.read_text() == "this is made.txt\n"
    assert "+this is made.txt" in sh.ok("changes")
    assert sh.ok("changes", "--names") == "created   made.txt"
    assert sh("changes", "--json").json["items"][0]["state"] == "applied"
    assert "made.txt" in sh.ok("undo")
    assert not made.exists()
    assert "(undone)" in sh.ok("changes", "--names")
    assert sh("redo", "--json").json["state"] == "completed"
    assert made.exists()
