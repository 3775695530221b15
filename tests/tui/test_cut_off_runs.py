"""A run that was interrupted can be continued or repeated, with or without an undo of its changes."""

from pathlib import Path

from holdfast.schema.messages import File
from holdfast.testing import Answer, Call, Gate, Say, calls, text
from tests.tui.ui_harness import Ui, open_ui

CHOICES = "interrupted   enter continue"


async def interrupt(ui: Ui) -> None:
    """Close the workspace, as a stop of the server does, and open it again."""
    client, workspace = await ui.app.link.ready(), ui.app.link.workspace
    assert workspace is not None
    await client.close_workspace(workspace.id)
    await ui.shows(CHOICES)


async def test_an_interrupted_run_is_continued_with_enter_or_sent_again(tmp_path: Path) -> None:
    held = Answer(pieces=(Say("Half an ans"), Gate("never")))
    async with open_ui(tmp_path, held, text("The rest."), text("Again.")) as ui:
        await ui.send("/retry")
        await ui.until(lambda: any("was not cut off" in toast for toast in ui.toasts))
        ui.app.chat.composer.attach(File("notes.txt", "text/plain", text="attached words"))
        await ui.send("explain it")
        await ui.shows("Half an ans")
        await interrupt(ui)
        await ui.press("f7")
        await ui.shows("The rest.")
        await ui.idle()
        await ui.until(lambda: CHOICES not in ui.screen_text)
        sent = [str(request.body) for request in ui.server.provider.requests if "title" not in str(request.body)[:400]]
        assert sent[-1].count("explain it") == 2
        assert sent[-1].count("attached words") == 2


async def test_enter_continues_and_the_changes_can_be_undone_first(tmp_path: Path) -> None:
    write = calls(Call("write", {"path": "new.txt", "content": "hello\n"}))
    held = Answer(pieces=(Say("Half an ans"), Gate("never")))
    async with open_ui(tmp_path, held, write, held, text("Done without the file.")) as ui:
        ui.app.controller.mode = "auto"
        await ui.send("explain it")
        await ui.shows("Half an ans")
        await interrupt(ui)
        await ui.press("enter")
        await ui.until(lambda: ui.has_text("Continue where you were cut off."))
        await ui.until((ui.server.work / "new.txt").exists)
        await ui.until(lambda: ui.screen_text.count("Half an ans") == 2)
        await interrupt(ui)
        await ui.press("f8")
        await ui.shows("Done without the file.")
        assert not (ui.server.work / "new.txt").exists()
