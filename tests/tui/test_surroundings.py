"""What is shown beside a session: the repository, and the extensions with their states."""

import subprocess
from pathlib import Path

from holdfast.schema.api.response_bodies import RepositoryView
from holdfast.schema.extensions import ExtensionStatus
from holdfast.testing import text
from holdfast.tui.extension_picker import ExtensionPicker
from tests.tui.ui_harness import Ui, open_ui


async def announce(ui: Ui, status: ExtensionStatus) -> None:
    assert ui.app.link.workspace is not None
    await (await ui.server.app.open_workspaces.live(ui.app.link.workspace.id)).announce_extension(status)


async def test_the_start_screen_shows_branch_and_changed_files_of_a_trusted_directory(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    subprocess.run(["git", "init", "-q", "-b", "feature"], cwd=work, check=True)
    (work / "AGENTS.md").write_text("# how we work\n")
    async with open_ui(tmp_path, text("Improved."), size=(240, 30)) as ui:
        await ui.shows("work (feature)")
        assert ui.app.link.repository == RepositoryView("feature", None)
        await ui.send("/trust")
        await ui.shows("work (feature, 1 changed file)")
        await ui.send("/init mention the release days")
        await ui.shows("Improved.")
        assert ui.has_text("Improve the file `AGENTS.md`")
        assert ui.has_text("especially: mention the release days")


async def test_servers_are_listed_with_their_states_and_follow_the_events(tmp_path: Path) -> None:
    async with open_ui(tmp_path, size=(130, 30)) as ui:
        await ui.press("f3")
        await ui.shows("Nothing is configured.")
        await ui.press("escape")
        for status in (
            ExtensionStatus("mcp", "linear", "starting", source="~/.config/holdfast/config.toml"),
            ExtensionStatus("lsp", "basedpyright", "ready", detail="3 warnings"),
            ExtensionStatus("skill", "release", "ready"),
            ExtensionStatus("hook", "format", "failed", detail="the program does not exist"),
        ):
            await announce(ui, status)
        await ui.shows("lsp  ● basedpyright")
        await ui.shows("mcp  ◐ linear  starting")
        await ui.shows("hook ✗ format  failed")
        assert "release" not in ui.screen_text
        await ui.press("f3")
        await ui.until(lambda: isinstance(ui.app.screen, ExtensionPicker) and ui.app.screen.current is not None)
        await ui.type("linear")
        await ui.shows("configured in ~/.config")
        login = ExtensionStatus("mcp", "linear", "needs_auth", detail="run: holdfast mcp login linear")
        await announce(ui, login)
        await ui.shows("holdfast mcp login linear")
