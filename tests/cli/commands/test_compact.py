"""`holdfast compact`."""

from tests.cli.cli_shell import CliShell


def test_compact_prints_the_summary_and_passes_the_instruction(sh: CliShell) -> None:
    sh.ok("run", "!say a long story")
    told = sh.ok("compact", "please", "!say a short story")
    assert told.startswith("a short story")
    assert "## The last prompts before, word for word\n!say a long story" in told
    result = sh("compact", "--json").json
    assert (result["state"], result["text"]) == ("completed", "There is nothing to compact yet.")
