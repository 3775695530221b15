"""What a person does on the main screen, against a real server."""

from pathlib import Path

import pytest

from holdfast.client.view_values import CallBlock, TurnEndBlock
from holdfast.testing import Answer, Call, Gate, Say, calls, text
from holdfast.tui.ask_panel import AskPanel
from holdfast.tui.picker import Picker
from holdfast.tui.queue_list import QueueList
from tests.support.mcp_peers import plain_command
from tests.tui.ui_harness import Ui, open_ui

HELD = Answer(pieces=(Say("Starting."), Gate("gate"), Say(" Finished.")))
"""An answer that waits for the test."""


async def test_typing_works_and_a_prompt_is_answered(tmp_path: Path) -> None:
    async with open_ui(tmp_path, text("Hello to you.")) as ui:
        await ui.type("hi there")
        assert ui.draft == "hi there"
        await ui.press("enter")
        await ui.shows("Hello to you.")
        assert ui.draft == ""
        await ui.idle()
        assert isinstance(ui.blocks[-1], TurnEndBlock)


async def test_keys_that_arrive_at_once_are_handled_in_their_order(tmp_path: Path) -> None:
    async with open_ui(tmp_path, text("One."), text("Two.")) as ui:
        ui.press_at_once(
            *"wy?", "left", "left", "h", "end", "ctrl+j", *"os", "left", "backspace", "right", "o", "enter", *"next"
        )
        await ui.until(lambda: ui.has_text("why?\nso"))
        await ui.until(lambda: ui.draft == "next")


async def test_while_a_run_is_active_enter_queues_and_tab_steers(tmp_path: Path) -> None:
    async with open_ui(tmp_path, HELD, text("Second."), text("Third.")) as ui:
        await ui.send("first")
        await ui.shows("Starting.")
        await ui.until(lambda: ui.app.controller.is_busy)
        await ui.send("queued one")
        await ui.shows("queued one")
        await ui.send("steered one", "tab")
        await ui.shows("steers")
        ui.server.provider.open("gate")
        await ui.until(lambda: ui.has_text("queued one") and ui.has_text("steered one"))
        await ui.idle()


async def test_escape_cancels_the_run_and_says_so_at_once(tmp_path: Path) -> None:
    async with open_ui(tmp_path, HELD) as ui:
        await ui.send("first")
        await ui.shows("Starting.")
        await ui.until(lambda: ui.app.controller.is_busy)
        await ui.press("escape")
        await ui.idle()
        end = ui.blocks[-1]
        assert isinstance(end, TurnEndBlock)
        assert end.state == "cancelled"


async def test_escape_holds_the_queue_and_enter_resumes_it(tmp_path: Path) -> None:
    async with open_ui(tmp_path, HELD, text("Second.")) as ui:
        await ui.send("first")
        await ui.shows("Starting.")
        await ui.until(lambda: ui.app.controller.is_busy)
        await ui.send("second")
        await ui.until(lambda: queue(ui).prompts)
        await ui.press("escape")
        await ui.until(lambda: not ui.app.controller.is_busy and queue(ui).paused == "user")
        await ui.shows("held")
        await ui.press("enter")
        await ui.until(lambda: ui.has_text("Second."))


async def test_a_second_escape_puts_the_held_prompts_back_into_the_composer(tmp_path: Path) -> None:
    async with open_ui(tmp_path, HELD) as ui:
        await ui.send("first")
        await ui.shows("Starting.")
        await ui.until(lambda: ui.app.controller.is_busy)
        await ui.send("second")
        await ui.until(lambda: queue(ui).prompts)
        await ui.press("escape")
        await ui.until(lambda: not ui.app.controller.is_busy and queue(ui).paused == "user")
        await ui.press("escape")
        await ui.until(lambda: ui.draft == "second")


async def test_a_queued_prompt_can_be_moved_edited_and_removed_and_the_queue_paused(tmp_path: Path) -> None:
    async with open_ui(tmp_path, HELD) as ui:
        await ui.send("first")
        await ui.shows("Starting.")
        await ui.until(lambda: ui.app.controller.is_busy)
        for prompt in ("alpha", "beta", "gamma"):
            await ui.send(prompt)
        await ui.until(lambda: prompts(ui) == ["alpha", "beta", "gamma"])
        await ui.press("ctrl+l", "p")
        await ui.until(lambda: queue(ui).paused == "user")
        await ui.press("p")
        await ui.until(lambda: queue(ui).paused is None)
        await ui.press("J")
        await ui.until(lambda: prompts(ui) == ["beta", "alpha", "gamma"])
        await ui.press("x")
        await ui.until(lambda: len(prompts(ui)) == 2)
        queue(ui).highlighted = 0
        await ui.press("e")
        await ui.until(lambda: ui.draft == "beta")
        await ui.send("")
        ui.server.provider.open("gate")


async def test_prompts_that_are_sent_at_once_are_queued_in_their_order_in_one_session(tmp_path: Path) -> None:
    names = [f"prompt {number}" for number in range(8)]
    async with open_ui(tmp_path, HELD) as ui:
        for name in names:
            ui.app.chat.send_prompt(name)
        await ui.until(lambda: prompts(ui) == names[1:])
        workspace = ui.app.link.workspace
        assert workspace is not None
        client = await ui.app.link.ready()
        assert len((await client.sessions(workspace.id)).items) == 1
        ui.server.provider.open("gate")


async def test_a_command_that_is_typed_faster_than_its_completions_is_run(tmp_path: Path) -> None:
    async with open_ui(tmp_path) as ui:
        await ui.type("/them")
        await ui.until(lambda: ui.app.chat.composer.area.completing)
        ui.press_at_once("e", "enter")
        await ui.until(lambda: isinstance(ui.app.screen, Picker) and ui.app.screen.heading == "themes")
        assert ui.draft == ""
        await ui.until(lambda: ui.app.screen.current is not None)  # type: ignore[attr-defined]


async def test_an_approval_takes_the_composers_place_and_a_key_allows_it(tmp_path: Path) -> None:
    async with open_ui(tmp_path, calls(Call("bash", {"command": "touch made"})), text("Done.")) as ui:
        await ui.send("make it")
        await ui.shows("touch made")
        panel = ui.app.chat.ask_panel
        await ui.until(lambda: panel.is_armed)
        await ui.press("y")
        await ui.shows("Done.")
        assert (ui.server.work / "made").exists()
        await ui.until(lambda: ui.app.chat.composer.area.has_focus)


async def test_keys_before_the_pause_go_into_the_draft_and_answer_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.tui.ask_panel.GRACE_SECONDS", 1e9)
    async with open_ui(tmp_path, calls(Call("bash", {"command": "touch made"})), text("Done.")) as ui:
        await ui.send("make it")
        await ui.shows("touch made")
        await ui.until(lambda: ui.app.chat.ask_panel.has_focus)
        await ui.type("yes")
        await ui.until(lambda: ui.draft == "yes")
        assert not (ui.server.work / "made").exists()
        assert len(ui.app.chat.open_asks) == 1


async def test_a_word_that_begins_with_no_answer_goes_into_the_draft_and_answers_nothing(tmp_path: Path) -> None:
    empty = calls(Call("write", {"path": "empty.txt", "content": ""}))
    async with open_ui(tmp_path, empty, text("Done.")) as ui:
        await ui.send("make it")
        await ui.until(lambda: ui.app.chat.ask_panel.is_armed)
        await ui.type("half a yes")
        await ui.until(lambda: ui.draft == "half a yes")
        assert len(ui.app.chat.open_asks) == 1
        await ui.until(lambda: ui.app.chat.ask_panel.is_armed)
        await ui.press("y")
        await ui.shows("Done.")
        await ui.idle()
        await ui.press("ctrl+r")
        await ui.shows("(no text to show)")
        assert (ui.server.work / "empty.txt").read_text() == ""


async def test_a_denial_carries_what_was_written(tmp_path: Path) -> None:
    async with open_ui(tmp_path, calls(Call("bash", {"command": "touch made"})), text("I see.")) as ui:
        await ui.send("make it")
        await ui.until(lambda: ui.app.chat.ask_panel.is_armed)
        await ui.press("n")
        await ui.type("use git")
        await ui.press("enter")
        await ui.shows("I see.")
        call = next(block for block in ui.blocks if isinstance(block, CallBlock))
        assert call.state == "denied"
        assert "use git" in call.output


async def test_an_approval_answered_elsewhere_disappears_with_a_note(tmp_path: Path) -> None:
    async with open_ui(tmp_path, calls(Call("bash", {"command": "touch made"})), text("Done.")) as ui:
        await ui.send("make it")
        await ui.until(lambda: ui.app.chat.open_asks)
        ask = ui.app.chat.open_asks[0]
        await ui.server.http.named("phone/1 me").post(f"/v1/approvals/{ask.id}", {"decision": "once"})
        await ui.until(lambda: not ui.app.chat.query_one(AskPanel).has_class("-shown"))
        await ui.until(lambda: any("by phone" in toast for toast in ui.toasts))


async def test_a_question_is_answered_with_a_number(tmp_path: Path) -> None:
    item = {"text": "Which colour?", "kind": "single", "options": ["red", "blue"]}
    async with open_ui(tmp_path, calls(Call("ask", {"questions": [item]})), text("Blue it is.")) as ui:
        await ui.send("paint it")
        await ui.shows("Which colour?")
        await ui.until(lambda: ui.app.chat.ask_panel.is_armed)
        await ui.press("2")
        await ui.shows("Blue it is.")


async def test_the_mode_changes_with_one_key_and_auto_is_written_in_capitals(tmp_path: Path) -> None:
    async with open_ui(tmp_path) as ui:
        for shown in ("accept edits", "plan", "AUTO", "ask"):
            await ui.press("shift+tab")
            await ui.shows(shown)


async def test_a_shell_line_runs_the_users_own_command(tmp_path: Path) -> None:
    async with open_ui(tmp_path) as ui:
        await ui.send("!echo from-the-shell")
        await ui.shows("from-the-shell")
        await ui.idle()


async def test_the_history_keeps_the_draft(tmp_path: Path) -> None:
    async with open_ui(tmp_path, text("One."), text("Two.")) as ui:
        await ui.send("first prompt")
        await ui.idle()
        await ui.type("my draft")
        await ui.press("up")
        await ui.until(lambda: ui.draft == "first prompt")
        await ui.press("down")
        await ui.until(lambda: ui.draft == "my draft")


async def test_an_at_sign_completes_files(tmp_path: Path) -> None:
    async with open_ui(tmp_path) as ui:
        (ui.server.work / "readme_file.md").write_text("x")
        await ui.type("see @readme")
        await ui.until(lambda: ui.app.chat.composer.area.completing)
        await ui.press("tab")
        await ui.until(lambda: ui.draft == "see @readme_file.md ")


async def test_an_at_sign_completes_resources_of_mcp_servers(tmp_path: Path) -> None:
    async with open_ui(tmp_path, text("Read."), size=(120, 30)) as ui:
        assert ui.app.link.workspace is not None
        workspace_id, services = ui.app.link.workspace.id, ui.server.app.services
        await services.settings.change({"mcp.peer.command": list(plain_command())}, workspace_id=workspace_id)
        await services.extensions.list_statuses(workspace_id, wait=30)
        await ui.type("see @peer:no")
        await ui.shows("@peer:note://day/")
        await ui.press("tab")
        await ui.until(lambda: ui.draft == "see @peer:note://a ")
        await ui.press("enter")
        await ui.shows("Read.")


async def test_a_long_paste_becomes_an_attachment(tmp_path: Path) -> None:
    from textual.events import Paste

    async with open_ui(tmp_path, text("Read.")) as ui:
        ui.app.chat.composer.area.post_message(Paste("line\n" * 50))
        await ui.until(lambda: ui.app.chat.composer.attachments)
        await ui.shows("pasted-1.txt")
        await ui.send("what is this?")
        await ui.shows("Read.")


async def test_a_draft_survives_the_ui(tmp_path: Path) -> None:
    async with open_ui(tmp_path) as ui:
        await ui.type("half a thought")
        drafts = tmp_path / "home" / "state" / "tui"
        await ui.until(lambda: [file.read_text() for file in drafts.glob("*.draft")] == ["half a thought"])
        async with open_ui(tmp_path, server=ui.server) as second:
            await second.until(lambda: second.draft == "half a thought")


async def test_a_prompt_that_is_refused_returns_to_the_composer(tmp_path: Path) -> None:
    async with open_ui(tmp_path, text("One.")) as ui:
        await ui.send("first")
        await ui.idle()
        ui.app.controller.model = "nobody/nothing"
        await ui.send("second")
        await ui.until(lambda: any("'nobody/nothing' is not configured" in toast for toast in ui.toasts))
        assert ui.draft == "second"
        assert not ui.has_text("second")
        assert not ui.app.chat.sending


async def test_leaving_and_coming_back_shows_the_same(tmp_path: Path) -> None:
    async with open_ui(tmp_path, text("Hello to you.")) as ui:
        await ui.send("hi")
        await ui.idle()
        session_id = ui.app.link.session_id
        async with open_ui(tmp_path, server=ui.server, session_id=session_id) as second:
            await second.shows("Hello to you.")
            assert second.blocks == ui.blocks
        async with open_ui(tmp_path, server=ui.server, resume=True) as third:
            await third.shows("Hello to you.")
            assert third.app.link.session_id == session_id


def queue(ui: Ui) -> QueueList:
    return ui.app.chat.query_one(QueueList)


def prompts(ui: Ui) -> list[str]:
    return [prompt.prompt for prompt in queue(ui).prompts]
