"""The Textual app: owns the link, the controller and the screens, and routes between them."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import time
from collections.abc import Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.app import ScreenStackError, SystemCommand
from textual.color import Color
from textual.css.query import NoMatches
from textual.events import AppBlur, AppFocus
from textual.screen import Screen
from textual.worker import WorkerFailed

from holdfast.errors import HoldfastError
from holdfast.locations import Locations
from holdfast.tui.actions import check_keys
from holdfast.tui.chat_screen import ChatScreen
from holdfast.tui.composer import Composer
from holdfast.tui.exclusive_work import run_in_thread, run_newest
from holdfast.tui.local_files import LocalFiles, Look
from holdfast.tui.status_words import seconds_since, span
from holdfast.tui.terminal_driver import TerminalDriver
from holdfast.tui.terminal_signals import NotifyBy, ProgressState, notification, plain_text, set_progress, set_title
from holdfast.tui.themes import AUTOMATIC, DARK, LIGHT, theme_name
from holdfast.tui.tui_host import TuiHost
from holdfast.tui.tui_options import TuiOptions

if TYPE_CHECKING:
    from holdfast.schema.events import Event
    from holdfast.tui.event_notices import EventNotices
    from holdfast.tui.server_link import ServerLink

_logger = logging.getLogger(__name__)

_DRAW_SECONDS = 0.03
_RESTART_TOLD_SECONDS = 15.0


class TuiApp(TuiHost):
    """Routes only: what happens on the server goes to the screen, what the user chooses goes to the controller."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    * { scrollbar-color: $border; scrollbar-background: $background; }
    Toast { max-width: 80; }
    ToastRack { margin-bottom: 3; }
    """

    def __init__(self, options: TuiOptions, *, env: Mapping[str, str], locations: Locations) -> None:
        super().__init__(driver_class=TerminalDriver)
        self.options = options
        if options.reduced_motion or options.plain:
            self.animation_level = "none"
        self.files = LocalFiles(locations, options.directory)
        self.env = env
        self.chat = ChatScreen()
        self.configured_keys: dict[str, str] = {}
        self.failure: BaseException | None = None
        self.is_watched = True
        """The terminal has the focus, as far as it tells."""
        self._notify_by: NotifyBy = "terminal"
        self._drawing = False
        self._changed: set[str] = set()
        self._asked_for_setup = False
        self._restart_told_until = 0.0
        self._look = self.files.read_look()
        self._progress: ProgressState = "none"
        self._title = ""
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        self.theme = self._theme_to_use(self._look.theme)  # before the first frame, so that it is drawn once

    @cached_property
    def link(self) -> ServerLink:
        from holdfast.tui.server_link import ServerLink

        found = ServerLink(env=self.env, directory=self.options.directory, listener=self)
        found.session_id = self.options.session_id
        return found

    @property
    def main(self) -> ChatScreen:
        return self.chat

    @cached_property
    def _notices(self) -> EventNotices:
        from holdfast.tui.event_notices import EventNotices

        return EventNotices(self)

    def get_default_screen(self) -> Screen[Any]:
        return self.chat

    def get_css_variables(self) -> dict[str, str]:
        """Muted text as a colour: Textual's is a share of black or white, which some widgets draw at full strength."""
        variables = super().get_css_variables()
        if not self.current_theme.name.startswith("ansi"):
            background, foreground = Color.parse(variables["background"]), Color.parse(variables["foreground"])
            variables["text-muted"] = background.blend(foreground, 0.62).hex
        return variables

    def get_system_commands(self, screen: Screen[Any]) -> list[SystemCommand]:
        return []

    async def on_mount(self) -> None:
        for number in (signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, self.leave)
        self.app_resume_signal.subscribe(self, self._draw_again)
        self.run_worker(self._start(), name="start", group="link")

    async def _start(self) -> None:
        history = await asyncio.to_thread(self.files.read_history)
        await self.chat.mounted.wait()
        self._use_plain(self.options.plain or self._look.plain)
        self.chat.composer.history = type(self.chat.composer.history)(history)
        if self.chat.composer.draft:
            self.chat.keep_draft()
        if not self.options.resume:  # the session is not known yet; its draft follows with it
            await self.chat.load_draft()
        if self.options.prompt:
            self.chat.send_prompt(self.options.prompt)
        await self.link.run(choose_last=self.options.resume)

    # What the link reports.

    def link_changed(self) -> None:
        self._apply_config()
        self.draw_later({"connection"})
        if self.link.models is not None and not self._asked_for_setup and self.link.is_live:
            self._asked_for_setup = True
            if not self.controller.model_name:
                self._offer_setup()

    def _offer_setup(self) -> None:
        """Ask for a provider, unless something is being written: a list must not take its keys."""
        if self.chat.composer.draft or self.chat.sending:
            self.chat.tell("no model is configured; /key sets up a provider or the offline demo", warning=True)
            return
        from holdfast.tui.setup import start_setup

        start_setup(self)

    def view_changed(self, aspects: frozenset[str], event: Event | None) -> None:
        self.draw_later(set(aspects))
        if event is not None:
            self._notices.tell(event)

    def server_restarted(self) -> None:
        self._restart_told_until = time.monotonic() + _RESTART_TOLD_SECONDS

    def session_missing(self, session_id: str) -> None:
        self.chat.tell(f"there is no session {session_id!r}; this is a new one", warning=True)

    def link_words(self) -> str:
        """The state of the connection, if it is not live."""
        state = self.link.fold.connection.state
        if self.link.problem == "stopped":
            return "the server was stopped; your next prompt starts it again"
        if self.link.problem == "failed":
            return f"no server: {self.link.problem_text.splitlines()[0]}"
        if state == "lost":
            since = span(seconds_since(self.link.fold.connection.since, time.time()))
            return f"connection lost {since} ago, reconnecting"
        if state == "connecting":
            return "connecting"
        if self.link.read_only:
            return f"read-only, nothing can be stored: {plain_text(self.link.read_only)}"
        return "the server has restarted" if time.monotonic() < self._restart_told_until else ""

    def draw_later(self, aspects: set[str]) -> None:
        if aspects == {"blocks"} and not self._changed:
            if self.chat.has_draw_ahead:
                return
            if self.chat.is_drawn:
                self.chat.draw_blocks()  # the transcript collects its own changes
            return
        self._changed |= aspects
        if not self._drawing and self.is_running:
            self._drawing = True
            self.set_timer(_DRAW_SECONDS, self._draw_changed)

    def _draw_changed(self) -> None:
        self._drawing = False
        changed, self._changed = self._changed, set()
        chat = self.chat
        if not chat.is_drawn:
            return
        if "reset" in changed:
            chat.draw_all()
            run_newest(self, self._load_changes, group="changes")
            if not chat.composer.draft:
                run_newest(self, chat.load_draft, group="draft")
        elif changed & {"connection", "sessions"} and chat.has_class("-empty"):
            chat.show_session()
        if "blocks" in changed:
            chat.draw_blocks()
        if changed & {"queue", "active"}:
            chat.draw_queue()
        if "asks" in changed:
            chat.draw_ask()
        if changed & {"changes"}:
            run_newest(self, self._load_changes, group="changes")
        if changed - {"blocks"}:
            chat.draw_details()
        chat.draw_status()
        self._tell_terminal()

    async def _load_changes(self) -> None:
        if self.link.session_id is None or self.link.client is None:
            self.chat.changes = ()
            return
        try:
            self.chat.changes = (await self.link.client.changes(self.link.session_id)).items
        except HoldfastError:
            return  # the details show what they showed before
        if self.chat.is_drawn:
            self.chat.draw_details()

    # Configuration.

    def _apply_config(self) -> None:
        values = self.link.config.values.get("tui", {}) if self.link.config else {}
        keys, wrong = check_keys(values.get("keys") or {})
        if keys != self.configured_keys:
            self.configured_keys = keys
            self.set_keymap(keys)
            for message in wrong:
                self.chat.tell(message, warning=True)
        notify_by = values.get("notify", "terminal")
        self._notify_by = notify_by if notify_by in ("terminal", "bell", "off") else "terminal"
        if self.link.config is not None:
            self.use_theme(str(values.get("theme", "")))
            plain = bool(values.get("plain"))
            self._use_plain(self.options.plain or plain)
            look = Look(theme=str(values.get("theme", "")), plain=plain)
            if look != self._look:
                self._look = look
                run_in_thread(self, self.files.write_look, look)

    def _use_plain(self, plain: bool) -> None:  # noqa: FBT001 - a setting
        if plain == self.plain:
            return
        self.plain = plain
        self.chat.use_plain(plain)
        if plain:
            self._stop_motion()

    def _stop_motion(self) -> None:
        self.animation_level = "none"
        self.chat.composer.area.cursor_blink = False

    def use_theme(self, name: str, *, save: bool = False) -> None:
        """Apply a theme; ``auto`` follows the terminal. With ``save`` it is written to the configuration."""
        if name and name != AUTOMATIC and name not in self.available_themes:
            self.chat.tell(f"there is no theme {name!r}; /theme lists them", warning=True)
        chosen = self._theme_to_use(name)
        if self.theme != chosen:
            self.theme = chosen
        if save:
            self.chat.do(self._save_theme(name))

    def _theme_to_use(self, name: str) -> str:
        available = frozenset(self.available_themes)
        return theme_name(name, background=self.options.background, colours=self.options.colours, available=available)

    async def _save_theme(self, name: str) -> None:
        client = await self.link.ready()
        assert self.link.workspace is not None
        await client.change_config(self.link.workspace.id, {"tui.theme": name})

    def use_model(self, name: str) -> None:
        if name != self.controller.model_name:
            self.controller.effort = None  # the levels of another model may have other names
        self.controller.model = name
        self.chat.draw_all()

    def use_effort(self, effort: str | None) -> None:
        if effort is not None:
            self.controller.effort = effort or None
            self.chat.draw_all()

    async def trust_directory(self) -> None:
        client = await self.link.ready()
        assert self.link.workspace is not None
        await client.trust(self.link.workspace.id)
        await self.link.reload_settings()
        await self.link.load_surroundings()
        self.chat.tell("this directory is trusted; its settings are loaded")
        self.chat.draw_all()

    async def export_session(self, name: str) -> None:
        if self.link.session_id is None:
            return
        text = await (await self.link.ready()).export_markdown(self.link.session_id)
        path = Path(self.options.directory) / (name or f"{self.link.session_id}.md")
        try:
            await asyncio.to_thread(path.write_text, text, "utf-8")
            self.chat.tell(f"written to {path}")
        except OSError as error:
            self.chat.tell(f"cannot write {path}: {error.strerror}", warning=True)

    # Sessions.

    def show_session(self, session_id: str | None) -> None:
        """Show another session; its draft comes with it."""
        if session_id == self.link.session_id:
            return
        self.files_worker(self.link.session_id, self.chat.composer.draft)
        self.link.show(session_id)
        self.chat.composer.clear()
        self.chat.changes = ()
        self.chat.draw_all()
        run_newest(self, self.chat.load_draft, group="draft")

    def files_worker(self, session_id: str | None, draft: str) -> None:
        run_in_thread(self, self.files.write_draft, session_id, draft)

    # The terminal around the UI.

    def on_app_blur(self, event: AppBlur) -> None:
        self.is_watched = False

    def on_app_focus(self, event: AppFocus) -> None:
        self.is_watched = True

    def notify_outside(self, what: str, text: str) -> None:
        if not self.is_watched:
            self.write_to_terminal(notification(f"holdfast {what}", text, by=self._notify_by))

    def write_to_terminal(self, sequence: str) -> None:
        if self._driver is not None and not self.is_headless and not self.lends_terminal:
            self._driver.write(sequence)

    def _tell_terminal(self) -> None:
        session = self.link.fold.session(self.link.session_id) if self.link.session_id else None
        busy = self.controller.is_busy
        mark = "? " if self.chat.open_asks else "● " if busy else ""
        title = f"{mark}{(session.title if session else '') or Path(self.options.directory).name} – holdfast"
        if title != self._title:
            self._title = title
            self.write_to_terminal(set_title(title))
        progress: ProgressState = "waiting" if self.chat.open_asks else "busy" if busy else "none"
        if progress != self._progress:
            self._progress = progress
            self.write_to_terminal(set_progress(progress))

    def open_target(self, target: str) -> None:
        """Open a link in the browser, or a file at a line in the editor."""
        if target.startswith(("http://", "https://")):
            self.open_url(target)
            return
        from holdfast.tui.external_editor import editor_arguments

        path, _, line = target.partition(":")
        number = int(line.partition(":")[0]) if line.partition(":")[0].isdigit() else None
        arguments = editor_arguments(str(Path(self.options.directory) / path), number)
        run_newest(self, partial(self._edit_file, arguments), group="editor")

    def _draw_again(self, _: object) -> None:
        """The terminal was used by another program."""
        self.refresh(layout=True)

    async def _edit_file(self, arguments: list[str]) -> None:
        from holdfast.tui.external_editor import run_editor

        await run_editor(self, arguments)

    def leave(self) -> None:
        if self.chat.query(Composer):
            self.chat.keep_draft()
        self.exit()

    async def action_quit(self) -> None:
        """Textual's own key for leaving, which also works in lists and dialogs."""
        self.leave()

    def save_drafts(self) -> None:
        """Write the drafts that are not written yet, after the UI was closed."""
        for session_id, text in self.chat.unsaved_drafts.items():
            self.files.write_draft(session_id, text)

    def _handle_exception(self, error: Exception) -> None:
        if not self._running and is_missing_widget(error):
            return  # work that ended while the UI closed wanted to show something
        _logger.error("the terminal UI failed", exc_info=error)
        self.failure = error
        super()._handle_exception(error)

    def _print_error_renderables(self) -> None:
        """The traceback is in the log; the user gets one line after the terminal is restored."""
        self._exit_renderables.clear()


def is_missing_widget(error: BaseException) -> bool:
    """Whether the error is that a screen or a widget does not exist, in a worker or elsewhere."""
    cause = error.error if isinstance(error, WorkerFailed) else error
    return isinstance(cause, NoMatches | ScreenStackError)


def farewell(app: TuiApp) -> str:
    """What is printed after leaving: how to come back, and whether work goes on."""
    session_id = app.link.session_id
    if session_id is None:
        return ""
    fold = app.link.fold.transcript(session_id)
    lines = []
    if fold is not None and fold.active is not None:
        more = f", {fold.queued} queued" if fold.queued else ""
        lines.append(f"the work goes on{more}; 'holdfast cancel' ends it")
    return "\n".join((*lines, f"come back with: holdfast --session {session_id}")) + "\n"


def count_colours(env: Mapping[str, str]) -> int:
    term, wide = env.get("TERM", ""), env.get("COLORTERM", "").lower()
    if wide in ("truecolor", "24bit") or sys.platform == "win32":
        return 1 << 24
    if (
        "256color" in term
        or "direct" in term
        or term.startswith(("tmux", "screen.", "alacritty", "xterm-kitty", "foot"))
    ):
        return 256
    return 16
