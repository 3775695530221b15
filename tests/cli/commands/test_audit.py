"""`holdfast audit`, with a real server."""

import json

import pytest

from tests.cli.cli_shell import CliShell


@pytest.mark.promise("W15")
def test_changes_are_listed_filtered_and_followed(sh: CliShell) -> None:
    run = json.loads(sh.ok("run", "--output", "json", "!say hello"))
    sh.ok("people", "add", "anna", "--role", "watch", "--all-workspaces")
    assert sh("people", "add", "anna", "--role", "watch", "--all-workspaces").status == 1
    lines = sh.ok("audit").splitlines()
    assert lines[-1].endswith("POST /v1/people  409 person_exists")
    assert "  local (cli/" in lines[-2]
    assert any(f"→ {run['run_id']}  202" in line for line in lines)
    (about,) = [json.loads(line) for line in sh.ok("audit", "--json", "--target", run["run_id"]).splitlines()]
    assert (about["person"], about["made"], about["status"]) == (None, run["run_id"], 202)
    assert len(sh.ok("audit", "--failed").splitlines()) == 1
    assert "no change was recorded" in sh.ok("audit", "--person", "anna")
    following = sh.start("audit", "--follow", "--limit", "1")
    following.until("person_exists")
    sh.ok("people", "change", "anna", "--role", "drive")
    following.until("PATCH /v1/people/anna")
    following.signal()
    assert following.end().status in (0, 130)
