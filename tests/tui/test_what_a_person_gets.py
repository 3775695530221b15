"""What a person gets besides the conversation: search, copies, lists, themes, notices, the editor, plain mode."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.css.query import NoMatches
from textual.worker import WorkerFailed

from holdfast.client.view_values import CallBlock, PromptBlock
from holdfast.errors import StoreUnwritable
from holdfast.locations import Locations
from holdfast.testing import Answer, Call, Gate, Say, calls, text
from holdfast.tui.picker import Picker
from holdfast.tui.session_picker import SessionPicker
from holdfast.tui.text_dialog import TextDialog
from holdfast.tui.tui_app import TuiApp, farewell, is_missing_widget
from holdfast.tui.tui_options import TuiOptions
from tests.support.running_server import answering, run_server
from tests.tui.ui_harness import Ui, open_ui

LONG = "\n\n".join(f"Paragraph {number}." for number in range(60))


# Start.


async def test_typing_works_before_there_is_a_server(tmp_path: Path) -> None:
    env = {**os.environ, "HOLDFAST_HOME": str(tmp_path / "home"), "HOLDFAST_SERVER": f"unix:{tmp_path / 'none'}"}
    app = TuiApp(TuiOptions(directory=str(tmp_path), typed="ea"), env=env, locations=Locations.from_env(env))
    async with app.run_test(size=(80, 24)) as pilot:
        ui = Ui(app, pilot, None)  # type: ignore[arg-type]
        await ui.until(lambda: ui.draft == "ea")
        await ui.type("rly")
        await ui.until(lambda: ui.draft == "early")
        await ui.shows("connecting")


async def test_without_a_model_the_setup_asks_for_a_key_that_is_never_shown_and_tries_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with answering(text("pong")) as provider:
        config = Locations.from_env({**os.environ, "HOLDFAST_HOME": str(home)}).config_file
        config.parent.mkdir(parents=True)
        config.write_text(f'[providers.anthropic]\nbase_url = "{provider.url("anthropic")}"\n')
        async with run_server(tmp_path) as server, open_ui(tmp_path, server=server) as ui:
            await ui.shows("which provider do you use?")
            await ui.type("anthropic")
            await ui.press("enter")
            await ui.until(lambda: isinstance(ui.app.screen, TextDialog))
            await ui.type("sk-very-secret-value")
            assert "secret" not in ui.screen_text
            await ui.press("enter")
            await ui.until(lambda: any("anthropic" in toast and "trying" not in toast for toast in ui.toasts))
            assert not any("sk-very" in toast for toast in ui.toasts)


async def test_the_setup_does_not_take_the_keys_of_a_prompt_that_is_being_written(tmp_path: Path) -> None:
    config = Locations.from_env({**os.environ, "HOLDFAST_HOME": str(tmp_path / "home")}).config_file
    config.parent.mkdir(parents=True)
    config.write_text("# no provider\n")
    async with run_server(tmp_path) as server, open_ui(tmp_path, server=server, typed="half a sen") as ui:
        await ui.until(lambda: any("no model is configured; /key" in toast for toast in ui.toasts))
        await ui.type("tence")
        await ui.until(lambda: ui.draft == "half a sentence")
        await ui.press("ctrl+c")
        await ui.send("/key")
        await ui.until(lambda: isinstance(ui.app.screen, Picker) and ui.app.screen.current is not None)
        await ui.type("offline")
        await ui.press("enter")
        await ui.until(lambda: ui.app.controller.model_name == "offline/demo")


# Transcript.


async def test_the_transcript_is_searched_copied_folded_and_walked_by_keys(tmp_path: Path) -> None:
    listing = calls(Call("bash", {"command": "printf 'one\\ntwo\\nthree\\nfour\\nfive\\nsix'"}))
    async with open_ui(tmp_path, text(LONG), listing, text("See `src/app.py:12` for it.")) as ui:
        ui.app.controller.mode = "auto"
        await ui.send("first")
        await ui.shows("Paragraph 59.")
        await ui.idle()
        await ui.send("second")
        await ui.until(lambda: ui.app.chat.open_asks or ui.has_text("for it."))
        if ui.app.chat.open_asks:
            await ui.until(lambda: ui.app.chat.ask_panel.is_armed)
            await ui.press("y")
        await ui.idle()
        view = ui.app.chat.view
        await ui.press("ctrl+t", "[", "[")
        await ui.until(lambda: isinstance(view.cursor_block, PromptBlock) and view.cursor_block.text == "first")
        assert not view.following
        await ui.press("/")
        await ui.type("Paragraph 30.")
        await ui.press("enter")
        await ui.shows("Paragraph 30.")
        await ui.press("escape")
        await ui.press("c")
        await ui.until(lambda: any("copied" in toast for toast in ui.toasts))
        view.state = view.state.with_cursor(next(b.id for b in ui.blocks if isinstance(b, CallBlock)))
        await ui.press("space")
        view.scroll_to_block(view.state.cursor)
        await ui.shows("│ six")
        opened: list[str] = []
        ui.app.open_target = opened.append  # type: ignore[method-assign]
        await ui.press("end", "j", "j", "k")
        view.state = view.state.with_cursor(next(b.id for b in ui.blocks if "for it." in str(getattr(b, "text", ""))))
        await ui.press("o")
        await ui.until(lambda: opened == ["src/app.py:12"])
        await ui.press("shift+up", "shift+up", "c")
        assert view.selected_text


async def test_new_blocks_below_are_counted_while_one_reads_above(tmp_path: Path) -> None:
    held = Answer(pieces=(Gate("gate"), Say("The end.")))
    async with open_ui(tmp_path, text(LONG), held) as ui:
        await ui.send("first")
        await ui.idle()
        await ui.send("second")
        await ui.until(lambda: ui.app.controller.is_busy)
        view = ui.app.chat.view
        view.focus()
        await ui.press("pageup", "pageup")
        await ui.until(lambda: not view.following and view.scroll_y == view.scroll_target_y)
        top = view.scroll_y
        ui.server.provider.open("gate")
        await ui.shows("new")
        assert view.scroll_y == top
        await ui.press("end")
        await ui.shows("The end.")


async def test_a_draw_does_not_undo_a_page_key(tmp_path: Path) -> None:
    async with open_ui(tmp_path, text(LONG)) as ui:
        await ui.send("first")
        await ui.idle()
        view = ui.app.chat.view
        await ui.until(lambda: view.max_scroll_y > view.size.height and not view.has_draw_ahead)
        end = view.scroll_y
        view.scroll_page_up()
        view.draw_now()  # as for an event that comes before the first step of the animation
        assert not view.following
        assert view.scroll_y == view.scroll_target_y == end - view.size.height
        view.scroll_page_up()
        view.scroll_to_end()
        assert view.following
        assert view.scroll_y == end


async def test_a_subagent_is_a_tree_that_can_be_entered_and_left(tmp_path: Path) -> None:
    start = calls(Call("agent", {"title": "look around", "prompt": "look"}))
    inner = calls(Call("ls", {"path": "."}))
    async with open_ui(tmp_path, start, inner, text("All seen."), text("It looked.")) as ui:
        await ui.send("explore")
        await ui.shows("It looked.")
        await ui.idle()
        await ui.shows("└ 1 call")
        parent = ui.app.link.session_id
        call = next(block for block in ui.blocks if isinstance(block, CallBlock))
        await ui.press("ctrl+t")
        ui.app.chat.view.state = ui.app.chat.view.state.with_cursor(call.id)
        await ui.press("right")
        await ui.shows("All seen.")
        assert ui.app.link.session_id == call.child_session_id
        await ui.press("left")
        await ui.until(lambda: ui.app.link.session_id == parent)
        await ui.shows("It looked.")


# Composer.


async def test_mentioned_lines_are_attached(tmp_path: Path) -> None:
    async with open_ui(tmp_path, text("Seen.")) as ui:
        (ui.server.work / "notes.txt").write_text("".join(f"line {number}\n" for number in range(1, 10)))
        await ui.send("explain @notes.txt:2-3 and @missing.txt:1-2 and @notes.txt")
        await ui.shows("+ notes.txt:2-3")
        await ui.idle()
        sent = [str(request.body) for request in ui.server.provider.requests]
        assert any("line 2\\nline 3" in body and "line 4" not in body for body in sent), sent


async def test_an_image_path_that_is_dropped_becomes_an_attachment(tmp_path: Path) -> None:
    from textual.events import Paste

    async with open_ui(tmp_path) as ui:
        image = ui.server.work / "a picture.png"
        image.write_bytes(b"\x89PNG\r\n\x1a\n\x00")
        ui.app.chat.composer.area.post_message(Paste(str(image).replace(" ", "\\ ")))
        await ui.shows("[a picture.png, 1 KB]")
        await ui.press("ctrl+backspace")
        await ui.until(lambda: not ui.app.chat.composer.attachments)


async def test_a_slash_lists_commands_also_those_of_the_server(tmp_path: Path) -> None:
    async with open_ui(tmp_path, text("Done.")) as ui:
        command = ui.server.app.open_workspaces.shared.locations.config_dir / "commands/deploy.md"
        command.parent.mkdir()
        command.write_text("---\ndescription: Deploy the shop\n---\nDeploy it.\n")
        await ui.app.link.reload_commands()
        await ui.type("/depl")
        await ui.shows("Deploy the shop")
        await ui.press("tab")
        await ui.until(lambda: ui.draft == "/deploy ")
        await ui.press("enter")
        await ui.until(lambda: ui.has_text("/deploy"))
        await ui.idle()
        await ui.press("ctrl+p")
        await ui.until(lambda: isinstance(ui.app.screen, Picker) and ui.app.screen.current is not None)
        await ui.press("ctrl+c")
        await ui.until(lambda: ui.app.screen is ui.app.chat)
        await ui.press("ctrl+p")
        await ui.until(lambda: isinstance(ui.app.screen, Picker) and ui.app.screen.current is not None)
        await ui.type("the shop")
        await ui.press("enter")
        await ui.until(lambda: ui.draft == "/deploy ")


async def test_the_ui_goes_on_while_the_editor_is_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    editor = tmp_path / "editor.sh"
    editor.write_text(
        f'#!/bin/sh\nwhile [ ! -e {tmp_path}/close ]; do sleep 0.02; done\necho "from the editor" > "$1"\n'
    )
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))
    monkeypatch.setattr(TuiApp, "suspend", _no_suspend)
    async with open_ui(tmp_path, text("Answered meanwhile.")) as ui:
        await ui.send("go")
        await ui.press("ctrl+g")
        await ui.until(lambda: ui.app.lends_terminal)
        await ui.until(lambda: ui.has_text("Answered meanwhile."))
        assert ui.app.lends_terminal
        (tmp_path / "close").touch()
        await ui.until(lambda: ui.draft == "from the editor")
        monkeypatch.setenv("VISUAL", str(tmp_path / "missing"))
        await ui.press("ctrl+g")
        await ui.until(lambda: any("cannot run the editor" in toast for toast in ui.toasts))
        assert ui.draft == "from the editor"
        assert not ui.app.lends_terminal


@contextmanager
def _no_suspend(_: TuiApp) -> Iterator[None]:
    yield


# Cancel and rewind.


@pytest.mark.parametrize("what", ["both", "files"])
async def test_rewind_takes_files_back_alone_or_with_the_conversation(tmp_path: Path, what: str) -> None:
    write = calls(Call("write", {"path": "new.txt", "content": "hello\n"}))
    async with open_ui(tmp_path, text("One."), write, text("Written.")) as ui:
        ui.app.controller.mode = "auto"
        await ui.send("first")
        await ui.idle()
        await ui.send("second")
        await ui.shows("Written.")
        await ui.idle()
        before = ui.app.link.session_id
        await ui.send("/rewind")
        await ui.until(lambda: isinstance(ui.app.screen, Picker) and ui.app.screen.current is not None)
        await ui.press("enter")
        await ui.until(lambda: isinstance(ui.app.screen, Picker) and ui.app.screen.heading == "what goes back?")
        await ui.until(lambda: ui.app.screen.current is not None)  # type: ignore[attr-defined]
        await ui.press(*(("enter",) if what == "both" else ("down", "down", "enter")))
        await ui.until(lambda: not (ui.server.work / "new.txt").exists())
        if what == "both":
            await ui.until(lambda: ui.app.link.session_id not in (None, before) and ui.draft == "second")
        else:
            await ui.idle()
            assert ui.app.link.session_id == before


async def test_a_cancel_tells_what_it_stopped(tmp_path: Path) -> None:
    async with open_ui(tmp_path, calls(Call("bash", {"command": "sleep 300"}))) as ui:
        ui.app.controller.mode = "auto"
        await ui.send("wait")
        await ui.until(lambda: ui.app.chat.open_asks or "sleep 300, " in ui.screen_text)
        if ui.app.chat.open_asks:
            await ui.until(lambda: ui.app.chat.ask_panel.is_armed)
            await ui.press("y")
            await ui.shows("sleep 300, ")
        await ui.press("escape")
        await ui.until(lambda: any("stopped" in toast for toast in ui.toasts))
        await ui.shows("cancelled by you")


# Lists.


async def test_sessions_are_found_by_content_and_forked(tmp_path: Path) -> None:
    async with open_ui(tmp_path, text("The kestrel is a falcon.")) as ui:
        await ui.send("birds")
        await ui.idle()
        before = ui.app.link.session_id
        await ui.press("ctrl+n", "ctrl+s")
        await ui.until(lambda: isinstance(ui.app.screen, SessionPicker) and ui.app.screen.current is not None)
        await ui.press("ctrl+w")
        await ui.type("kestrel")
        await ui.shows("is a falcon")
        await ui.press("ctrl+f")
        await ui.until(lambda: ui.app.link.session_id not in (None, before))
        await ui.until(lambda: ui.has_text("kestrel"))


async def test_the_palette_finds_commands_and_the_theme_list_changes_and_saves_the_colours(tmp_path: Path) -> None:
    async with open_ui(tmp_path) as ui:
        await ui.press("ctrl+p")
        await ui.until(lambda: isinstance(ui.app.screen, Picker) and ui.app.screen.heading == "commands")
        await ui.type("colours")
        await ui.press("enter")
        await ui.until(lambda: isinstance(ui.app.screen, Picker) and ui.app.screen.heading == "themes")
        await ui.type("nord")
        await ui.press("enter")
        await ui.until(lambda: ui.app.theme == "nord")
        await ui.until(lambda: ui.app.link.config and ui.app.link.config.values["tui"]["theme"] == "nord")


# Status, looks and notices.


async def test_the_status_line_says_what_is_wrong_with_the_connection_and_the_disk(tmp_path: Path) -> None:
    async with open_ui(tmp_path, text("One.")) as ui:
        ui.app.chat.tell_error(StoreUnwritable("the disk is full"))
        await ui.shows("read-only, nothing can be stored: the disk is full")
        await ui.send("go")
        await ui.until(lambda: "read-only" not in ui.screen_text)
        await ui.idle()
        ui.app.server_restarted()
        ui.app.chat.draw_status()
        await ui.shows("the server has restarted")
        ui.server.stop()
        await ui.shows("ago, reconnecting")


@pytest.mark.parametrize(
    ("options", "theme"),
    [
        ({"background": "light"}, "holdfast-light"),
        ({"background": "dark"}, "holdfast-dark"),
        ({"colours": 16}, "ansi-dark"),
        ({"colours": 16, "background": "light"}, "ansi-light"),
    ],
)
async def test_colours_follow_the_terminal(tmp_path: Path, options: dict[str, Any], theme: str) -> None:
    env = {**os.environ, "HOLDFAST_HOME": str(tmp_path / "home"), "HOLDFAST_SERVER": f"unix:{tmp_path / 'none'}"}
    app = TuiApp(TuiOptions(directory=str(tmp_path), **options), env=env, locations=Locations.from_env(env))
    async with app.run_test(size=(60, 20)) as pilot:
        await Ui(app, pilot, None).until(lambda: app.theme == theme)  # type: ignore[arg-type]


async def test_reduced_motion_stops_the_blinking_cursor_and_animations(tmp_path: Path) -> None:
    env = {**os.environ, "HOLDFAST_HOME": str(tmp_path / "home"), "HOLDFAST_SERVER": f"unix:{tmp_path / 'none'}"}
    options = TuiOptions(directory=str(tmp_path), reduced_motion=True)
    app = TuiApp(options, env=env, locations=Locations.from_env(env))
    async with app.run_test(size=(60, 20)) as pilot:
        await Ui(app, pilot, None).until(app.chat.mounted.is_set)  # type: ignore[arg-type]
        assert app.animation_level == "none"
        assert not app.chat.composer.area.cursor_blink


async def test_no_color_draws_without_colours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with open_ui(tmp_path, text("An answer with `code`.")) as ui:
        await ui.send("go")
        await ui.shows("An answer")
        await ui.idle()
        colours = {
            segment.style.color.get_truecolor()
            for strip in ui.app.screen._compositor.render_strips()
            for segment in strip
            if segment.style is not None and segment.style.color is not None
        }
        assert all(colour.red == colour.green == colour.blue for colour in colours), colours


async def test_plain_mode_has_words_instead_of_symbols(tmp_path: Path) -> None:
    async with open_ui(tmp_path, calls(Call("ls", {"path": "."})), text("Done."), size=(130, 30)) as ui:
        client, workspace = await ui.app.link.ready(), ui.app.link.workspace
        assert workspace is not None
        await client.change_config(workspace.id, {"tui.plain": True})
        await ui.until(lambda: ui.app.plain)
        await ui.send("list it")
        await ui.shows("Done.")
        await ui.idle()
        await ui.shows("You: list it")
        await ui.shows("Tool done: ls")
        assert "Prompt:" in ui.screen_text
        assert not ui.app.chat.details_shown
        assert not set("▌│└✓●─▸›") & set(ui.screen_text)


async def test_a_user_who_looks_elsewhere_is_told_by_the_terminal(tmp_path: Path) -> None:
    written: list[str] = []
    held = Answer(pieces=(Say("Starting."), Gate("gate"), Say(" Finished.")))
    async with open_ui(tmp_path, held) as ui:
        ui.app.write_to_terminal = written.append  # type: ignore[method-assign]
        await ui.send("go")
        await ui.shows("Starting.")
        await ui.until(lambda: any("\x1b]9;4;3" in sequence for sequence in written))  # progress: busy
        await ui.until(lambda: any(sequence.startswith("\x1b]2;● ") for sequence in written))  # title
        ui.app.is_watched = False
        ui.server.provider.open("gate")
        await ui.until(lambda: any("\x1b]777;notify;holdfast completed" in sequence for sequence in written))
        await ui.until(lambda: any("\x1b]9;4;0" in sequence for sequence in written))
        ui.app._notify_by = "bell"
        ui.app.notify_outside("needs your answer", "x")
        assert written[-1] == "\x07"


async def test_leaving_says_how_to_come_back_and_whether_work_goes_on(tmp_path: Path) -> None:
    held = Answer(pieces=(Say("Starting."), Gate("gate")))
    async with open_ui(tmp_path, held) as ui:
        await ui.send("go")
        await ui.shows("Starting.")
        await ui.until(lambda: ui.app.controller.is_busy)
        back = f"come back with: holdfast --session {ui.app.link.session_id}\n"
        assert farewell(ui.app) == f"the work goes on; 'holdfast cancel' ends it\n{back}"
        await ui.press("escape")
        await ui.idle()
        assert "goes on" not in farewell(ui.app)


async def test_work_that_ends_while_the_interface_closes_is_no_failure(tmp_path: Path) -> None:
    async with open_ui(tmp_path) as ui:
        app = ui.app
    app._handle_exception(WorkerFailed(NoMatches("no composer any more")))
    assert app.failure is None
    assert not is_missing_widget(ValueError("a real failure"))
