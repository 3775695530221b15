"""`holdfast changes`, `undo` and `redo`."""

from tests.cli.cli_shell import CliShell


def test_changes_undo_and_redo(sh: CliShell) -> None:
    made = sh.work / "made.txt"
    sh.ok("run", "--mode", "accept_edits", "!write made.txt")
    assert made.read_text() == "this is made.txt\n"
    assert "+this is made.txt" in sh.ok("changes")
    heading, names = sh.ok("changes", "--names").splitlines()
    assert "!write made.txt" in heading
    assert names == sh.ok("changes", "--names", "--total") == "created   made.txt"
    assert sh("changes", "--json").json["items"][0]["state"] == "applied"
    assert "made.txt" in sh.ok("undo")
    assert not made.exists()
    assert "(undone)" in sh.ok("changes", "--names")
    assert sh("redo", "--json").json["state"] == "completed"
    assert made.exists()


def test_undo_asks_before_it_restores_what_changed_during_a_command(sh: CliShell) -> None:
    made = sh.work / "by-command.txt"
    sh.ok("run", "--mode", "auto", "!bash echo x >by-command.txt")
    assert "created*  by-command.txt" in sh.ok("changes", "--names")
    refused = sh("undo")
    assert refused.status == 0
    assert "may have been changed by you" in refused.err
    assert "--force" in refused.err
    assert made.exists()
    assert "Undone" in sh.ok("undo", "--force")
    assert not made.exists()
    sh.ok("redo")
    assert made.exists()
