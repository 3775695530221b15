"""Invalid values are refused with a message, without a request to the server."""

import pytest

from tests.cli.cli_shell import CliShell


@pytest.mark.parametrize(
    "words",
    [
        ("wait", "a/b"),
        ("cancel", "no such run"),
        ("attach", "../x"),
        ("sessions", "show", "?"),
        ("queue", "remove", "run\n1"),
        ("run", "--session", "a b", "hi"),
        ("approvals", "answer", "a/b", "once"),
    ],
)
def test_an_invalid_id_is_a_usage_error(sh: CliShell, words: tuple[str, ...]) -> None:
    done = sh(*words, env={"HOLDFAST_SERVER": "http://127.0.0.1:9"})  # no request is sent
    assert (done.status, len(done.err.splitlines())) == (2, 2)
    assert "is not an id" in done.err


def test_an_invalid_queue_position_is_a_usage_error(sh: CliShell) -> None:
    done = sh("queue", "move", "run_1", "0")
    assert done.status == 2
    assert "'0' is not a position in a queue; 1 starts next" in done.err
    assert "holdfast queue move run_… 1" in sh.ok("queue", "--help")
