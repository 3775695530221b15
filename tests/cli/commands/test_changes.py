"""`holdfast changes`, `undo` and `redo`."""

import os
import signal
import time

from tests.cli.cli_shell import CliShell, open_shell


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


def test_what_a_command_changed_before_the_server_was_killed_can_be_undone() -> None:
    with open_shell() as sh:
        kept = sh.work / "kept.txt"
        kept.write_text("old\n")
        active = sh.start("run", "--mode", "auto", "!bash echo new >kept.txt; sleep 1000")
        while kept.read_text() != "new\n":
            time.sleep(0.01)
        os.kill(sh.server_pid(), signal.SIGKILL)
        active.end()
        assert "modified* kept.txt" in sh.ok("changes", "--names")
        assert "Undone" in sh.ok("undo", "--force")
        assert kept.read_text() == "old\n"
