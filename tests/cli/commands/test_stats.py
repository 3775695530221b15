"""`holdfast stats`."""

import re

from tests.cli.cli_shell import CliShell


def test_stats_prints_bars_by_model_and_tool(sh: CliShell) -> None:
    sh.ok("run", "!bash echo counted")
    output = sh.ok("stats", "--days", "7")
    assert re.search(r"test/test-model +█+", output)
    assert re.search(r"bash +█+", output)
    assert "by day" in output
    assert sh("stats", "--json").json["models"][0]["model"] == "test/test-model"
