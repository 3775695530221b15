"""What docs/security.md says is true of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdfast.approvals.decision import Approver
from holdfast.approvals.rules import Rules
from holdfast.approvals.workspace_paths import WorkspacePaths
from holdfast.config import Settings
from holdfast.config.redaction import MARK
from holdfast.config.secret_forms import MIN_LENGTH
from holdfast.extend import instructions
from holdfast.schema.approvals import Subject
from holdfast.schema.runs import Mode
from holdfast.schema.sessions import WorkspaceView
from holdfast.tools.process.command_process import CommandLauncher
from holdfast.tools.process.sandbox_limits import _CACHES
from holdfast.tools.registry import ToolRegistry

_TEXT = (Path(__file__).parents[2] / "docs" / "security.md").read_text()


def test_the_document_names_every_tool_that_writes_files() -> None:
    registry = ToolRegistry(CommandLauncher())
    for name in registry.names:
        if registry.get(name).effect == "writes":
            assert f"`{name}`" in _TEXT, name


def test_the_document_names_the_settings_and_limits_of_the_code() -> None:
    assert f"`{MARK}`" in _TEXT
    assert f"fewer than {MIN_LENGTH} characters" in _TEXT
    assert Settings().tools.mask_secrets, "the document says: by default"
    assert not Settings().tools.fetch_private
    for name in (*instructions._NAMES, instructions._RULES_FOLDER, "tools.mask_secrets", "tools.fetch_private"):
        assert f"`{name}`" in _TEXT, name
    for field in ("instructions", "ignored_instructions"):
        assert field in WorkspaceView.__struct_fields__
        assert f"`{field}`" in _TEXT


_ROWS = re.findall(
    r"^\| ([^|`]*(?:\(`escalate`\))?[^|`]*)`([^`]+)` \| (\w+) \| (\w+) \| (\w+) \| (\w+) \|$", _TEXT, re.MULTILINE
)
_MODES: tuple[Mode, ...] = ("ask", "accept_edits", "plan", "auto")
_WORDS = {"Allow": "runs", "Ask": "asks", "Deny": "denied"}


def _subject(what: str, example: str, workspace: Path) -> Subject:
    tool = what.rstrip().rpartition(": ")[2]
    if tool == "fetch":
        return Subject(tool="fetch", effect="network", title=example, url=example)
    if tool in ("view", "write"):
        effect = "reads" if tool == "view" else "writes"
        return Subject(tool=tool, effect=effect, title=example, paths=(str(workspace / example),))
    escalation = "unconfined" if "escalate" in what else None
    return Subject(
        tool="bash", effect="runs", title=example, command=example, cwd=str(workspace), escalation=escalation
    )


def test_the_table_of_approvals_has_all_rows() -> None:
    assert len(_ROWS) == 12


@pytest.mark.parametrize("row", _ROWS, ids=lambda row: row[1])
def test_the_table_of_approvals_is_what_is_decided(row: tuple[str, ...], tmp_path: Path) -> None:
    what, example, *told = row
    (tmp_path / "README.md").touch()
    (tmp_path / ".git").mkdir()
    approver = Approver(WorkspacePaths(root=str(tmp_path), home=str(tmp_path / "home")))
    decided = [
        approver.decide(_subject(what, example, tmp_path), mode=mode, rules=Rules(), trusted=True, interactive=True)
        for mode in _MODES
    ]
    assert [_WORDS[type(verdict).__name__] for verdict in decided] == told, (what, decided)


def test_the_document_names_every_cache() -> None:
    named = _TEXT.partition("The caches of ")[2].partition(" are writable")[0]
    assert {name for _, _, programs in _CACHES for name in programs} - {"pip3"} == set(re.findall(r"\w+", named)) - {
        "and"
    }
