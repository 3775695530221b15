"""Approvals, jobs, models, retries and the context, as a person sees them, against a real server."""

from pathlib import Path

import pytest
from textual.widgets import Input

from holdfast.testing import Answer, Call, TokenCounts, calls, text
from holdfast.tui.jobs_screen import JobsScreen
from holdfast.tui.model_picker import EffortPicker, ModelPicker
from holdfast.tui.text_dialog import ConfirmDialog, TextDialog
from tests.tui.ui_harness import Ui, open_ui

TOUCH = Call("bash", {"command": "touch made"})


async def test_several_approvals_are_counted_and_answered_one_by_one(tmp_path: Path) -> None:
    both = calls(*(Call("fetch", {"url": f"http://127.0.0.1:1/{name}"}) for name in "ab"))
    async with open_ui(tmp_path, both, text("Done.")) as ui:
        await ui.send("fetch them")
        await ui.shows("1 of 2 waiting")
        await allow(ui)
        await ui.until(lambda: len(ui.app.chat.open_asks) == 1 and "1 of 2 waiting" not in ui.screen_text)
        await allow(ui)
        await ui.shows("Done.")


async def test_the_rule_of_always_is_edited_and_saved_for_this_project_or_for_all(tmp_path: Path) -> None:
    other = calls(Call("bash", {"command": "mkdir deep"}))
    async with open_ui(tmp_path, calls(TOUCH), other, text("Done.")) as ui:
        client, workspace = await ui.app.link.ready(), ui.app.link.workspace
        assert workspace is not None
        await ui.send("make it")
        await ui.until(lambda: ui.app.chat.ask_panel.is_armed)
        await ui.shows("a always: bash: touch *")
        await ui.press("e")
        await ui.until(lambda: ui.app.chat.ask_panel.is_writing)
        ui.app.chat.query_one("#ask-input", Input).value = "bash: touch ma*"
        await ui.press("enter")
        await ui.shows("a always: bash: touch ma*")
        await ui.press("a")
        await ui.shows("Run this command?")
        await ui.shows("bash: mkdir *")
        assert [grant.rule for grant in (await client.grants(workspace.id)).items] == ["bash: touch ma*"]
        await ui.until(lambda: ui.app.chat.ask_panel.is_armed)
        await ui.press("A")
        await ui.shows("Done.")
        config = await client.config(workspace.id)
        assert "bash: mkdir *" in config.values["approvals"]["allow"]


async def test_a_deadline_counts_down_in_the_approval(tmp_path: Path) -> None:
    async with open_ui(tmp_path, calls(TOUCH), text("I see.")) as ui:
        client, workspace = await ui.app.link.ready(), ui.app.link.workspace
        assert workspace is not None
        await client.change_config(workspace.id, {"approvals.deadline": "30m"})
        await ui.send("make it")
        await ui.shows("counts as denied in")
        await ui.press("escape")
        await ui.idle()


async def test_the_approval_of_an_edit_shows_the_diff_in_two_columns_if_there_is_room(tmp_path: Path) -> None:
    edit = calls(Call("edit", {"path": "a.txt", "old_text": "old line", "new_text": "new line"}))
    async with open_ui(tmp_path, calls(Call("view", {"path": "a.txt"})), edit, text("Done."), size=(170, 40)) as ui:
        (ui.server.work / "a.txt").write_text("old line\n")
        await ui.send("change it")
        await ui.shows("Change this file?")
        await ui.until(lambda: any("old line" in row and "new line" in row for row in ui.screen_text.split("\n")))
        assert "@@" not in ui.screen_text


async def test_a_call_that_was_allowed_on_the_phone_says_so_also_after_coming_back(tmp_path: Path) -> None:
    async with open_ui(tmp_path, calls(TOUCH), text("Done.")) as ui:
        await ui.send("make it")
        await ui.until(lambda: ui.app.chat.open_asks)
        ask = ui.app.chat.open_asks[0]
        await ui.server.http.named("phone/1 me").post(f"/v1/approvals/{ask.id}", {"decision": "once"})
        await ui.shows("allowed once, by phone")
        await ui.idle()
        async with open_ui(tmp_path, server=ui.server, session_id=ui.app.link.session_id) as second:
            await second.shows("allowed once, by phone")


async def test_a_retry_is_counted_down_in_the_status_line(tmp_path: Path) -> None:
    refused = Answer(status=429, headers={"retry-after": "400"})
    async with open_ui(tmp_path, refused) as ui:
        await ui.send("go")
        await ui.shows("trying again in ")
        await ui.press("escape")
        await ui.idle()


async def test_a_job_shows_its_output_as_it_grows_and_can_be_killed(tmp_path: Path) -> None:
    command = "echo first line; while [ ! -e go ]; do sleep 0.05; done; echo second line; sleep 300"
    start = calls(Call("bash", {"command": command, "background": True}))
    async with open_ui(tmp_path, start, text("Started."), size=(140, 40)) as ui:
        ui.app.controller.mode = "auto"
        await ui.send("start it")
        await ui.until(lambda: ui.app.chat.open_asks or ui.has_text("Started."))
        if ui.app.chat.open_asks:
            await allow(ui)
        await ui.idle()
        await ui.shows("│ first line")  # in the details
        await ui.press("f2")
        await ui.until(lambda: isinstance(ui.app.screen, JobsScreen))
        await ui.shows("first line")
        (ui.server.work / "go").touch()
        await ui.shows("second line")
        await ui.press("x")
        await ui.until(lambda: isinstance(ui.app.screen, ConfirmDialog))
        await ui.press("y")
        await ui.shows("killed")


async def test_the_details_say_what_the_context_consists_of(tmp_path: Path) -> None:
    async with open_ui(tmp_path, text("A short answer.", usage=TokenCounts(input=9000)), size=(140, 40)) as ui:
        await ui.send("a question")
        await ui.idle()
        await ui.shows("instructions and tools")


async def test_the_list_of_models_sets_the_default_the_small_model_and_keys(tmp_path: Path) -> None:
    async with open_ui(tmp_path) as ui:
        await ui.press("ctrl+o")
        await ui.until(lambda: isinstance(ui.app.screen, ModelPicker) and ui.app.screen.current is not None)
        await ui.until(lambda: ui.screen_text.count("add a key") >= 5)  # no row is wrapped
        await ui.type("offline")
        await ui.until(lambda: ui.app.screen.current.value == "offline/demo")  # type: ignore[attr-defined]
        await ui.press("ctrl+t")
        await ui.until(lambda: ui.app.link.models and ui.app.link.models.small == "offline/demo")
        await ui.press("ctrl+d")
        await ui.until(lambda: ui.app.link.models and ui.app.link.models.large == "offline/demo")
        assert ui.app.controller.model_name == "offline/demo"
        await ui.press("ctrl+k")
        await ui.until(lambda: isinstance(ui.app.screen, TextDialog))


async def test_the_effort_is_chosen_from_the_levels_that_the_model_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_ui(tmp_path, text("One."), text("Two.")) as ui:
        await ui.send("/effort high")
        await ui.until(lambda: any("has no levels of effort" in toast for toast in ui.toasts))
        monkeypatch.setattr("holdfast.tui.model_picker.efforts_of", lambda _: ("low", "high"))
        await ui.send("/effort extreme")
        await ui.until(lambda: any("has no effort 'extreme'; use one of low, high" in toast for toast in ui.toasts))
        await ui.send("/effort")
        await ui.until(lambda: isinstance(ui.app.screen, EffortPicker) and ui.app.screen.current is not None)
        await ui.press("down", "down", "enter")
        await ui.until(lambda: ui.app.controller.effort == "high")


async def allow(ui: Ui) -> None:
    await ui.until(lambda: ui.app.chat.ask_panel.is_armed)
    await ui.press("y")
