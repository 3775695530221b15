"""`holdfast hooks`, and what `holdfast run` shows of hooks."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.cli_shell import CliShell

DOCS = Path(__file__).parents[3] / "docs" / "extensions.md"


@pytest.fixture
def add_config(sh: CliShell) -> Iterator[Callable[[str], object]]:
    """Adds to the settings for one test, which may add settings of the project, too."""
    file = sh.locations.config_file
    before = file.read_text()
    yield lambda text: file.write_text(f"{before}\n{text}")
    file.write_text(before)
    shutil.rmtree(sh.work / ".claude", ignore_errors=True)


def test_the_example_in_the_documentation_denies_a_push(
    sh: CliShell, tmp_path: Path, add_config: Callable[[str], object]
) -> None:
    text = DOCS.read_text().partition("\n## Hooks\n")[2]
    program = tmp_path / "no-push.py"
    program.write_text(text.partition("```python\n")[2].partition("```")[0])
    config = text.partition("```toml\n")[2].partition("```")[0]
    assert "~/.config/holdfast/no-push.py" in config
    add_config(config.replace("~/.config/holdfast/no-push.py", str(program)))
    shown = sh("run", "--verbose", "--mode", "auto", "!bash git push origin main")
    assert "hook no-push: pushing is for people; say what should be pushed" in shown.err
    assert "hook no-push (before_tool) denied in " in shown.err
    assert "hook no-push (before_tool) ok in " in sh("run", "--verbose", "--mode", "auto", "!bash echo fine").err
    assert "no-push" not in sh("run", "--mode", "auto", "!bash echo fine").err
    listed = sh("hooks", "--json").json
    assert [(item["name"], item["state"]) for item in listed] == [("no-push", "ready")]


def test_hooks_are_listed_with_what_is_not_used(sh: CliShell, add_config: Callable[[str], object]) -> None:
    assert "there are no hooks" in sh.ok("hooks")
    add_config('[hooks.broken]\nevents = ["before_tool"]\ncommand = ["false"]\n')
    (sh.work / ".claude").mkdir()
    entry = [{"hooks": [{"type": "command", "command": "true"}]}]
    document = {"hooks": {"PreToolUse": entry, "SessionEnd": entry}}
    (sh.work / ".claude" / "settings.json").write_text(json.dumps(document))
    output = sh.ok("hooks")
    assert "broken  ready" in output
    assert "before_tool: false" in output
    assert "not used: this directory is not trusted" in output
    assert "not used: sessions do not end here" in output
    done = sh("run", "--mode", "auto", "!bash echo fine")
    assert "hook broken (before_tool) failed in " in done.err
    assert "hook broken: failed" in sh.ok("doctor")
