"""`holdfast accept`."""

from tests.cli.cli_shell import CliShell


def test_an_accepted_plan_is_carried_out_in_another_mode(sh: CliShell) -> None:
    planned = sh("run", "--mode", "plan", "--json", "!say 1. write it").json
    assert planned["text"] == "1. write it"
    sh.ok("accept", "please", "!write accepted.txt")
    assert (sh.work / "accepted.txt").exists()
    refused = sh("accept")
    assert refused.status == 1
    assert "has not ended with a plan" in refused.err


def test_a_plan_can_be_accepted_from_a_script(sh: CliShell) -> None:
    planned = sh("run", "--mode", "plan", "--json", "!say 1. wait").json
    done = sh("accept", "--session", planned["session_id"], "--mode", "auto", "--json", "!say carried out").json
    assert (done["state"], done["text"], done["session_id"]) == ("completed", "carried out", planned["session_id"])
