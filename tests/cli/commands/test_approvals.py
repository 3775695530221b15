"""`holdfast approvals`."""

from tests.cli.cli_shell import CliShell


def test_approvals_are_answered_from_another_shell(sh: CliShell) -> None:
    assert sh.ok("approvals", "list") == "no approvals or questions are pending in this directory"
    done = sh("approvals", "answer", "apr_nobody", "once")
    assert (done.status, done.out) == (1, "")
