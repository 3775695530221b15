"""What docs/security.md says about content is true of the code."""

from __future__ import annotations

from pathlib import Path

from holdfast.config import Settings
from holdfast.config.redaction import MARK
from holdfast.config.secret_forms import MIN_LENGTH
from holdfast.extend import instructions
from holdfast.schema.sessions import WorkspaceView
from holdfast.tools.process.command_process import CommandLauncher
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
