"""Pickers, the details, the help, changes and setup, against a real server."""

from pathlib import Path

import pytest

from holdfast.testing import Call, calls, text
from holdfast.tui.changes_screen import ChangesScreen
from holdfast.tui.help_screen import HelpScreen
from holdfast.tui.picker import Picker, PickerRow
from holdfast.tui.session_picker import SessionPicker
from holdfast.tui.text_dialog import ConfirmDialog, TextDialog
from tests.tui.ui_harness import Ui, open_ui


async def test_sessions_are_switched_renamed_archived_and_deleted(tmp_path: Path) -> None:
    async with open_ui(tmp_path, text("One."), text("Two.")) as ui:
        await ui.send("first")
        await ui.idle()
        first = ui.app.link.session_id
        await ui.press("ctrl+n")
        await ui.until(lambda: ui.app.link.session_id is None)
        await ui.send("second")
        await ui.shows("Two.")
        await ui.idle()
        await ui.press("ctrl+s")
        await ui.until(lambda: len(shown_sessions(ui)) == 2)
        await ui.press("down", "enter")
        await ui.until(lambda: ui.app.link.session_id == first)
        await ui.shows("One.")
        await ui.press("ctrl+s")
        await ui.until(lambda: len(shown_sessions(ui)) == 2 and ui.app.screen.current.value == first)
        await ui.press("ctrl+e")
        await ui.until(lambda: isinstance(ui.app.screen, TextDialog))
        await ui.type(" renamed")
        await ui.press("enter")
        await ui.until(lambda: any("renamed" in row.title for row in shown_sessions(ui)))
        await ui.press("ctrl+x")
        await ui.until(lambda: any("archived" in row.notes for row in shown_sessions(ui)))
        await ui.press("ctrl+x")  # the undo of it
        await ui.until(lambda: not any("archived" in row.notes for row in shown_sessions(ui)))
        await ui.press("ctrl+d")
        await ui.until(lambda: isinstance(ui.app.screen, ConfirmDialog))
        await ui.press("y")
        await ui.until(lambda: ui.app.link.session_id is None)


def shown_sessions(ui: Ui) -> tuple[PickerRow, ...]:
    """The rows of the list of sessions, once it takes keys."""
    screen = ui.app.screen
    return screen.rows if isinstance(screen, SessionPicker) and screen.is_mounted and screen.current else ()


async def test_the_model_picker_sets_the_model_of_the_next_prompts(tmp_path: Path) -> None:
    async with open_ui(tmp_path) as ui:
        await ui.press("ctrl+o")
        await ui.until(lambda: isinstance(ui.app.screen, Picker))
        await ui.type("demo")
        await ui.press("enter")
        await ui.until(lambda: ui.app.controller.model_name == "offline/demo")


async def test_help_lists_every_key_and_a_question_mark_opens_it(tmp_path: Path) -> None:
    async with open_ui(tmp_path) as ui:
        await ui.press("?")
        await ui.until(lambda: isinstance(ui.app.screen, HelpScreen))
        await ui.shows("Cancel the active run")
        await ui.press("escape")
        await ui.until(lambda: ui.app.screen is ui.app.chat)
        await ui.type("why")
        await ui.press("?")
        await ui.until(lambda: ui.draft == "why?")


async def test_changes_show_diffs_and_undo_restores_the_file(tmp_path: Path) -> None:
    write = calls(Call("write", {"path": "new.txt", "content": "hello\n"}))
    async with open_ui(tmp_path, write, text("Written.")) as ui:
        ui.app.controller.mode = "auto"
        await ui.send("write it")
        await ui.shows("Written.")
        await ui.idle()
        assert (ui.server.work / "new.txt").exists()
        await ui.press("ctrl+r")
        await ui.until(lambda: isinstance(ui.app.screen, ChangesScreen))
        await ui.shows("+ hello")
        await ui.press("u")
        await ui.until(lambda: not (ui.server.work / "new.txt").exists())
        await ui.shows("undone")


async def test_undo_asks_about_files_that_changed_while_a_command_ran(tmp_path: Path) -> None:
    touch = calls(Call("bash", {"command": "echo hello >new.txt"}))
    async with open_ui(tmp_path, touch, text("Written.")) as ui:
        ui.app.controller.mode = "auto"
        await ui.send("write it")
        await ui.shows("Written.")
        await ui.idle()
        await ui.press("ctrl+r")
        await ui.until(lambda: isinstance(ui.app.screen, ChangesScreen))
        await ui.shows("by a command")
        await ui.shows("confirmation")
        await ui.press("u")
        await ui.shows("Restore them too?")
        assert (ui.server.work / "new.txt").exists()
        await ui.press("y")
        await ui.until(lambda: not (ui.server.work / "new.txt").exists())
        await ui.press("r")
        await ui.until((ui.server.work / "new.txt").exists)


async def test_details_are_beside_a_wide_screen_and_over_a_narrow_one(tmp_path: Path) -> None:
    async with open_ui(tmp_path, text("One."), size=(130, 30)) as ui:
        assert ui.app.chat.details_shown
        await ui.pilot.resize_terminal(80, 30)
        await ui.until(lambda: not ui.app.chat.details_shown)
        await ui.press("ctrl+b")
        await ui.until(lambda: ui.app.chat.details_shown)
        await ui.shows("new session")


@pytest.mark.parametrize("size", [(40, 20), (80, 20), (200, 60)])
async def test_every_size_shows_answer_composer_and_mode(tmp_path: Path, size: tuple[int, int]) -> None:
    async with open_ui(tmp_path, text("A short answer."), size=size) as ui:
        await ui.send("hi")
        await ui.shows("A short answer.")
        await ui.idle()
        assert "›" in ui.screen_text
        assert "ask" in ui.screen_text


async def test_rewind_takes_the_conversation_back_and_the_prompt_into_the_composer(tmp_path: Path) -> None:
    async with open_ui(tmp_path, text("One."), text("Two.")) as ui:
        for prompt, answer in (("first", "One."), ("second", "Two.")):
            await ui.send(prompt)
            await ui.shows(answer)
            await ui.idle()
        before = ui.app.link.session_id
        await ui.send("/rewind")
        await ui.until(lambda: isinstance(ui.app.screen, Picker))
        await ui.press("enter")
        await ui.until(lambda: isinstance(ui.app.screen, Picker) and ui.app.screen.heading == "what goes back?")
        await ui.press("down", "enter")
        await ui.until(lambda: ui.draft == "second" and ui.app.link.session_id not in (None, before))
        await ui.until(lambda: ui.has_text("One."))
        assert not ui.has_text("Two.")


async def test_a_configured_key_replaces_the_default(tmp_path: Path) -> None:
    async with open_ui(tmp_path) as ui:
        client, workspace = await ui.app.link.ready(), ui.app.link.workspace
        assert workspace is not None
        await client.change_config(workspace.id, {"tui.keys": {"cycle_mode": "f5"}})
        await ui.until(lambda: ui.app.configured_keys == {"cycle_mode": "f5"})
        await ui.press("f5")
        await ui.shows("accept edits")


async def test_a_project_that_is_not_trusted_says_what_is_not_loaded(tmp_path: Path) -> None:
    project = tmp_path / "work" / ".holdfast"
    project.mkdir(parents=True)
    (project / "config.toml").write_text('[approvals]\nmode = "plan"\n')
    async with open_ui(tmp_path) as ui:
        await ui.shows("not trusted")
        await ui.send("/trust")
        await ui.until(lambda: ui.app.controller.mode == "plan")


async def test_the_chosen_row_stays_chosen_when_the_window_changes(tmp_path: Path) -> None:
    async with open_ui(tmp_path) as ui:
        await ui.send("/theme")
        await ui.until(lambda: isinstance(ui.app.screen, Picker) and ui.app.screen.current is not None)
        picker = ui.app.screen
        assert isinstance(picker, Picker)
        await ui.press("down", "down")
        chosen = picker.current
        await ui.pilot.resize_terminal(70, 24)
        await ui.until(lambda: 0 < picker._width < 70)
        assert picker.current == chosen
