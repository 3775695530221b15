"""What screens, pickers and commands use of the app and of the main screen."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from textual.app import App
from textual.screen import Screen

from holdfast.tui.composer import Composer
from holdfast.tui.local_files import LocalFiles
from holdfast.tui.tui_options import TuiOptions

if TYPE_CHECKING:
    from holdfast.client.view_values import OpenAsk
    from holdfast.schema.approvals import Approval, Question
    from holdfast.tui.server_link import ServerLink
    from holdfast.tui.session_controller import SessionController


class ChatHost(Screen[None]):
    """The main screen, as the others see it."""

    @property
    def tui(self) -> TuiHost:
        return cast("TuiHost", self.app)

    @property
    def composer(self) -> Composer:
        return self.query_one(Composer)

    @property
    def open_asks(self) -> tuple[OpenAsk, ...]:
        raise NotImplementedError

    def do(self, work: Awaitable[Any]) -> None:
        """Call the server in the background; an error is shown."""
        raise NotImplementedError

    def tell(self, text: str, *, warning: bool = False) -> None:
        raise NotImplementedError

    def draw_all(self) -> None:
        raise NotImplementedError

    def draw_status(self) -> None:
        raise NotImplementedError

    def tell_resolved(self, ask: Approval | Question) -> None:
        """Another client, a deadline or a cancel closed it."""
        raise NotImplementedError

    def action_help(self) -> None:
        raise NotImplementedError

    def action_details(self) -> None:
        raise NotImplementedError

    def action_focus_queue(self) -> None:
        raise NotImplementedError

    def action_cycle_mode(self) -> None:
        raise NotImplementedError


class TuiHost(App[None]):
    """The app, as the others see it."""

    options: TuiOptions
    files: LocalFiles
    plain: bool = False
    """For screen readers: words instead of symbols, and nothing beside the text."""
    lends_terminal: bool = False
    """Another program, such as an editor, has the terminal: nothing may be written to it."""

    @cached_property
    def link(self) -> ServerLink:
        """Made when it is first used, not before the first frame: its modules take long to import."""
        raise NotImplementedError

    @cached_property
    def controller(self) -> SessionController:
        from holdfast.tui.session_controller import SessionController

        return SessionController(self.link)

    @property
    def main(self) -> ChatHost:
        raise NotImplementedError

    def draw_later(self, aspects: set[str]) -> None:
        """Draw what changed soon, many changes at once."""
        raise NotImplementedError

    def notify_outside(self, what: str, text: str) -> None:
        """Tell a user who looks elsewhere."""
        raise NotImplementedError

    def link_words(self) -> str:
        raise NotImplementedError

    def show_session(self, session_id: str | None) -> None:
        raise NotImplementedError

    def use_model(self, name: str) -> None:
        raise NotImplementedError

    def use_effort(self, effort: str | None) -> None:
        """Set the effort of the next prompts; an empty text leaves it to the provider, ``None`` changes nothing."""
        raise NotImplementedError

    def use_theme(self, name: str, *, save: bool = False) -> None:
        raise NotImplementedError

    async def trust_directory(self) -> None:
        raise NotImplementedError

    async def export_session(self, name: str) -> None:
        raise NotImplementedError

    def open_target(self, target: str) -> None:
        raise NotImplementedError

    def leave(self) -> None:
        raise NotImplementedError
