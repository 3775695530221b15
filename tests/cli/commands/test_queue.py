"""`holdfast queue`, `pause`, `resume` and `cancel`."""

from tests.cli.cli_shell import CliShell


def test_a_queue_is_listed_changed_paused_and_resumed(sh: CliShell) -> None:
    session = sh("run", "--detach", "--output", "json", "!gate queue").json["run"]["session_id"]
    first, second, third = (sh.ok("run", "--detach", "--session", session, f"!say {n}") for n in ("1", "2", "3"))
    listed = sh.ok("queue", "list", session)
    assert [line.split()[0] for line in listed.splitlines()[1:]] == [first, second, third]
    assert sh.ok("queue", "edit", second, "!say", "two") == f"{second}  !say two"
    assert sh.ok("queue", "move", third, "1").splitlines()[1].startswith(third)
    assert "cancelled" in sh.ok("queue", "remove", first)
    assert sh.ok("pause", session) == "the queue is paused by the user"
    assert "paused by the user" in sh.ok("queue", "list", session)
    sh.open("queue")
    assert sh.ok("resume", session).startswith("resumed")
    assert [sh.ok("wait", run) for run in (third, second)] == ["3", "two"]
    assert sh("wait", first).status == 130
    assert sh.ok("queue", "list", session) == "no run is active or queued"
    assert sh("queue", "list", session, "--json").json["run_ids"] == []


def test_cancel_takes_a_session_a_run_or_the_active_run(sh: CliShell) -> None:
    session = sh("run", "--detach", "--output", "json", "!hang").json["run"]["session_id"]
    behind = sh.ok("run", "--detach", "--session", session, "!say behind")
    assert "was active" in sh.ok("cancel", session, "--active")
    assert sh.ok("wait", behind) == "behind"
    hanging = sh.ok("run", "--detach", "--session", session, "--run-id", "my-own-name", "!hang")
    assert [run["run_id"] for run in sh("cancel", hanging, "--json").json["runs"]] == ["my-own-name"]
    sh.ok("run", "--detach", "--session", session, "!hang")
    assert "cancelled" in sh.ok("cancel")
    assert sh.ok("cancel") == "no runs were active or queued"
    assert sh("cancel", "run_nobody").status == 1
