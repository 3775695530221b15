"""`holdfast init`."""

from tests.cli.cli_shell import CliShell


def test_the_agent_writes_the_file_and_an_existing_one_is_only_improved_on_request(sh: CliShell) -> None:
    told = sh.ok("init", "!echo it")
    assert told.startswith("Write the file `AGENTS.md` for this repository")
    assert "The user asks especially: !echo it" in told
    sh.ok("init", "!write AGENTS.md")
    assert (sh.work / "AGENTS.md").exists()
    refused = sh("init")
    assert refused.status == 2
    assert "AGENTS.md exists already" in refused.err
    assert sh.ok("init", "--update", "!echo it").startswith("Improve the file `AGENTS.md`")
