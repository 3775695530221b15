"""`holdfast context`."""

from tests.cli.cli_shell import CliShell


def test_the_context_is_shown_with_what_was_cut(sh: CliShell) -> None:
    (sh.work / "AGENTS.md").write_text("x" * 40_000 + "\n@long.md\n")
    (sh.work / "long.md").write_text("y" * 20_000)
    found = sh("context", "--json").json
    parts = {part["name"].removeprefix(f"{sh.work}/"): part for part in found["parts"]}
    assert list(parts) == ["system prompt", "surroundings", "AGENTS.md", "long.md", "tools"]
    assert parts["AGENTS.md"].get("cut", 0) == 0
    assert parts["long.md"]["characters"] + parts["long.md"]["cut"] == 20_000
    assert sum(part["characters"] for part in parts.values() if part["kind"] == "instructions") == 48_000
    assert all(part["tokens"] > 0 for part in parts.values())
    output = sh.ok("context")
    assert "characters are cut; all instruction files together have 48,000" in output
    assert "total" in output
