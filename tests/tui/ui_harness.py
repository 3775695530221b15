"""The terminal UI against a real server in this process, with a scripted provider."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from textual.events import Key
from textual.keys import _character_to_key
from textual.pilot import Pilot, WaitForScreenTimeout

from holdfast.client.view_values import Block
from holdfast.locations import Locations
from holdfast.testing import Answer
from holdfast.tui.tui_app import TuiApp
from holdfast.tui.tui_options import TuiOptions
from tests.support.running_server import RunningServer, answering, run_server


class Ui:
    """A running UI and shortcuts for tests. Every `until` waits for what the test asserts."""

    def __init__(self, app: TuiApp, pilot: Pilot[None], server: RunningServer) -> None:
        self.app = app
        self.pilot = pilot
        self.server = server
        self._frames = 0
        self._seen: tuple[object, str] = (None, "")
        app.post_display_hook = self._count_frame  # type: ignore[method-assign]

    def _count_frame(self) -> None:
        self._frames += 1

    async def until(self, holds: Callable[[], Any]) -> None:
        """Wait until the condition holds. The test's time-out is the limit."""
        try:
            while not holds():
                await asyncio.sleep(0.01)
                assert self.app._exception is None, self.app._exception
        except BaseException:
            print(self.screen_text, *self.toasts, sep="\n")  # shown if the test fails
            raise

    def press_at_once(self, *keys: str) -> None:
        """Press keys as a slow connection delivers them: all in one piece."""
        assert self.app._driver is not None
        for key in keys:
            named = key if len(key) > 1 or key.isalnum() else _character_to_key(key)
            character = key if len(key) == 1 else " " if key == "space" else None
            event = Key(named, character)
            event.set_sender(self.app)
            self.app._driver.send_message(event)

    async def press(self, *keys: str) -> None:
        """Press keys, each when the one before it was handled.

        Textual's own `press` waits until the process uses no CPU, which takes a second where a server works beside it.
        """
        for key in keys:
            self.press_at_once(key)
            await self.settled()

    async def settled(self) -> None:
        """Everything that was in the queues of the widgets is handled, also what followed from it.

        The wait is bounded, because a widget that is removed meanwhile never handles its queue. What a test asserts is
        waited for with `until`.
        """
        for _ in range(3):
            with suppress(WaitForScreenTimeout):
                await self.pilot._wait_for_screen(timeout=1)

    async def type(self, text: str) -> None:
        self.press_at_once(*("space" if character == " " else character for character in text))
        await self.settled()

    async def send(self, text: str, key: str = "enter") -> None:
        self.app.chat.composer.set_draft(text)
        await self.press(key)

    @property
    def draft(self) -> str:
        return self.app.chat.composer.draft

    @property
    def blocks(self) -> list[Block]:
        fold = self.app.controller.transcript
        return [] if fold is None else [block for entry in fold.entries for block in entry.blocks]

    def has_text(self, text: str) -> bool:
        return any(text in str(getattr(block, "text", "")) for block in self.blocks)

    @property
    def screen_text(self) -> str:
        """Everything that is on the screen, as text. It is read again when a frame was drawn."""
        frame = (self.app.screen, self._frames)
        if self._seen[0] != frame:
            lines = self.app.screen._compositor.render_strips()
            self._seen = (frame, "\n".join("".join(segment.text for segment in strip) for strip in lines))
        return self._seen[1]

    async def shows(self, text: str) -> None:
        await self.until(lambda: text in self.screen_text)

    async def idle(self) -> None:
        await self.until(lambda: self.app.link.session_id is not None and self.app.controller.transcript is not None)
        await self.until(lambda: not self.app.controller.is_busy and not self.app.chat.sending)

    @property
    def toasts(self) -> list[str]:
        return [notification.message for notification in self.app._notifications]


@asynccontextmanager
async def open_ui(
    directory: Path,
    *answers: Answer,
    size: tuple[int, int] = (100, 30),
    server: RunningServer | None = None,
    live: bool = True,
    **options: Any,
) -> AsyncIterator[Ui]:
    """Run the UI; without ``server``, on a server of its own. With ``live``, wait until it is connected."""
    if server is None:
        async with (
            run_server(directory, answering(*answers)) as own,
            open_ui(directory, size=size, server=own, live=live, **options) as ui,
        ):
            yield ui
        return
    env = {**os.environ, "HOLDFAST_HOME": str(directory / "home")}
    locations = Locations.from_env(env)
    env["HOLDFAST_SERVER"] = f"unix:{locations.socket}"
    app = TuiApp(TuiOptions(directory=str(server.work), **options), env=env, locations=locations)
    async with app.run_test(size=size) as pilot:
        ui = Ui(app, pilot, server)
        if live:
            await ui.until(lambda: app.chat.mounted.is_set() and app.link.is_live)
        yield ui
