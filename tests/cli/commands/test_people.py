"""`holdfast people`, with a real server, and the command line of somebody who may use one directory."""

import json
import os

import pytest

from tests.cli.cli_shell import CliShell


@pytest.mark.promise("W14")
def test_a_person_works_in_their_directory_with_their_token_and_sees_nothing_else(sh: CliShell) -> None:
    mine = sh.base / "api"
    mine.mkdir()
    sh.ok("run", "!say not for anna")
    assert "nobody has a token" in sh.ok("people")
    unclear = sh("people", "add", "anna", "--role", "drive")
    assert (unclear.status, "--all-workspaces" in unclear.err) == (2, True)
    added = sh.ok("people", "add", "anna", "--role", "drive", "--workspace", str(mine))
    assert f"anna may drive in {os.path.realpath(mine)}" in added
    refused = sh("people", "add", "Anna B", "--role", "drive", "--all-workspaces")
    assert (refused.status, "invalid request body" in refused.err) == (2, True)
    token = sh.ok("people", "token", "anna", "--label", "laptop").strip()
    (device,) = json.loads(sh.ok("devices", "--json"))["devices"]
    assert (device["person"], device["name"]) == ("anna", "laptop")
    sh.ok("stop")
    serving = sh.start("serve", "--listen", "127.0.0.1:0")
    serving.until("http://")
    address = next(line for line in serving.until("\n").splitlines() if line.startswith("http://"))
    anna = {"HOLDFAST_SERVER": address, "HOLDFAST_TOKEN": token}
    elsewhere = sh("run", "!say hello", env=anna)
    assert (elsewhere.status, "you may not work in" in elsewhere.err) == (1, True)
    assert "fine" in sh.ok("-C", str(mine), "run", "!say fine", env=anna)
    assert sh.ok("-C", str(mine), "sessions", "list", "--json", env=anna).count("ses_") == 1
    assert sh("people", env=anna).status == 1
    sh.ok("people", "change", "anna", "--role", "watch")
    assert "needs 'drive'" in sh("-C", str(mine), "run", "!say no", env=anna).err
    assert "all directories" in sh.ok("people", "change", "anna", "--all-workspaces")
    assert "anna was removed" in sh.ok("people", "remove", "anna")
    assert sh("status", env=anna).status != 0
    assert json.loads(sh.ok("people", "--json")) == {"people": []}
    sh.ok("stop")
    assert serving.end().status == 0
