"""Follows a command that a session's lane queues like a prompt: an undo, a redo, a compaction."""

from __future__ import annotations

from holdfast.cli.exit_status import exit_of_run
from holdfast.cli.formatting import json_text
from holdfast.cli.run_follower import RunFollower
from holdfast.cli.run_result import make_result, print_failure
from holdfast.cli.screen import Screen, plain
from holdfast.client.sync_client import SyncClient
from holdfast.schema.runs import Accepted


def wait_and_print(client: SyncClient, accepted: Accepted, *, as_json: bool) -> int:
    """Wait until it has run, which may be after the active run, and print its text. Returns the exit status."""
    screen = Screen()
    screen.status("queued" if accepted.decision == "queued" else "working")
    run = RunFollower(client, accepted.run, screen=screen).wait_for_end()
    screen.finish()
    status = int(exit_of_run(run))
    if as_json:
        screen.line(json_text(make_result(run, exit_code=status, decision=accepted.decision)))
    elif run.text:
        screen.line(plain(run.text))
    print_failure(run, screen)
    return status
