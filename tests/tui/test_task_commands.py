"""Slash commands that send a prompt of their own, or remember something."""

from __future__ import annotations

import subprocess
from pathlib import Path

from holdfast.testing import text
from tests.tui.ui_harness import open_ui


async def test_a_plan_is_accepted_and_the_mode_changes(tmp_path: Path) -> None:
    async with open_ui(tmp_path, text("1. mend it"), text("Mended.")) as ui:
        await ui.send("/accept")
        await ui.until(lambda: ui.toasts)
        ui.app.controller.mode = "plan"
        await ui.send("mend the parser")
        await ui.shows("1. mend it")
        await ui.idle()
        await ui.send("/accept but keep the names")
        await ui.shows("Mended.")
        await ui.until(lambda: ui.app.controller.mode == "accept_edits")
        await ui.shows("accept edits")
        assert ui.has_text("The plan is accepted.")
        assert ui.has_text("but keep the names")


async def test_a_branch_is_reviewed_in_plan_mode_and_the_mode_stays(tmp_path: Path) -> None:
    async with open_ui(tmp_path, text("No findings.")) as ui:
        for words in (
            ("init", "-q", "-b", "main"),
            ("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-q", "--allow-empty", "-m", "the first"),
        ):
            subprocess.run(["git", *words], cwd=ui.server.work, check=True, capture_output=True)
        await ui.send("/review branch main")
        await ui.until(lambda: "there are no changes to review" in ui.toasts)
        await ui.send("/review commit HEAD")
        await ui.shows("No findings.")
        assert ui.has_text("Review the commit HEAD (")
        assert ui.app.controller.mode == "ask"


async def test_an_agent_is_chosen_before_the_first_prompt_and_in_a_session(tmp_path: Path) -> None:
    async with open_ui(tmp_path, text("one"), text("two"), size=(90, 30)) as ui:
        await ui.send("/agent nobody")
        await ui.until(lambda: any("there is no agent 'nobody'; agents: explore" in toast for toast in ui.toasts))
        await ui.send("/agent")
        await ui.shows("explore Only reads")
        await ui.press("down", "enter")
        await ui.until(lambda: ui.app.controller.shown_agent == "explore")
        await ui.shows("explore · ")
        await ui.send("look")
        await ui.shows("one")
        await ui.idle()
        assert ui.app.controller.shown_agent == "explore"
        await ui.send("/agent main")
        await ui.until(lambda: ui.app.controller.agent == "main")
        await ui.send("/agnet general")
        await ui.until(lambda: any("there is no command /agnet" in toast for toast in ui.toasts))
        assert ui.draft == "/agnet general"


async def test_something_is_remembered(tmp_path: Path) -> None:
    async with open_ui(tmp_path) as ui:
        await ui.send("/remember the tests need a database")
        await ui.until(lambda: any("remembered for this project" in toast for toast in ui.toasts))
        view = await ui.server.app.services.memory.view(ui.server.workspace_id or ui.app.link.workspace.id)  # type: ignore[union-attr]
        assert [entry.text for entry in view.items] == ["the tests need a database"]
        await ui.send("/remember")
        await ui.until(lambda: any("write it behind the command" in toast for toast in ui.toasts))
