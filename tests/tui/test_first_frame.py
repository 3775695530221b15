"""The first frame comes before the client and most widgets; what is typed then is kept."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.testing import text
from holdfast.tui import chat_parts
from tests.tui.ui_harness import open_ui

LATER = ("holdfast.client", "holdfast.schema.events", "holdfast.tui.ask_panel", "holdfast.tui.details_panel")
PROGRAM = "import sys; from holdfast.tui.tui_app import TuiApp; print(*sys.modules)"


def test_the_first_frame_imports_neither_the_client_nor_the_transcript() -> None:
    loaded = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout.split()
    rows = "holdfast.tui.transcript."
    assert not [name for name in loaded if name.startswith(LATER) or (name.startswith(rows) and name != f"{rows}cells")]


async def test_what_is_typed_and_sent_before_all_widgets_exist_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_mount, mount_parts = asyncio.Event(), chat_parts.mount_parts

    async def mount_later(*arguments: Any, **options: Any) -> chat_parts.ChatParts:
        await may_mount.wait()
        return await mount_parts(*arguments, **options)

    monkeypatch.setattr(chat_parts, "mount_parts", mount_later)
    async with open_ui(tmp_path, text("An answer."), live=False, typed="sent ") as ui:
        await ui.until(lambda: "sent " in ui.screen_text)
        assert not ui.app.chat.is_drawn
        await ui.press("escape", "ctrl+s", "ctrl+b", "f2")  # keys of widgets that do not exist yet do nothing
        await ui.type("early")
        await ui.shows("sent early")
        await ui.press("enter")
        await ui.until(lambda: not ui.draft)
        await ui.type("a draft")
        await ui.shows("a draft")
        may_mount.set()
        await ui.shows("An answer.")
        await ui.idle()
        assert ui.has_text("sent early")
        assert ui.draft == "a draft"
        drafts = tmp_path / "home" / "state" / "tui"
        await ui.until(lambda: [file.read_text() for file in drafts.glob("*.draft")] == ["a draft"])


def test_screens_are_drawn_120_times_a_second_unless_the_user_says_otherwise() -> None:
    """A key that misses a frame waits for the next one."""
    program = """
import sys
from holdfast.tui.open_tui import draw_more_often
draw_more_often({} if sys.argv[1] == "default" else {"TEXTUAL_FPS": "30"})
from textual.screen import UPDATE_PERIOD
print(round(1 / UPDATE_PERIOD))
"""
    for choice, frames in (("default", "120"), ("own", "30")):
        env = {**os.environ, "TEXTUAL_FPS": "30"} if choice == "own" else os.environ
        done = subprocess.run(
            [sys.executable, "-c", program, choice], env=env, check=True, capture_output=True, text=True
        )
        assert done.stdout.strip() == frames
