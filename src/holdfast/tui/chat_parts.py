"""The parts of the main screen that its first frame does not show.

Importing and mounting them takes longer than the rest of the start, so both happen behind the first frame, in steps
between which keys are handled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from textual.screen import Screen
from textual.widget import Widget

if TYPE_CHECKING:
    from textual.widgets import Input, Static

    from holdfast.client.transcript_fold import TranscriptFold
    from holdfast.client.view_values import Block
    from holdfast.tui.ask_panel import AskPanel
    from holdfast.tui.details_panel import DetailsPanel
    from holdfast.tui.queue_list import QueueList
    from holdfast.tui.session_transcript import SessionTranscriptView

_MODULES = (
    "holdfast.schema.events",
    "holdfast.client.view_fold",
    "holdfast.client.async_client",
    "holdfast.client.local_server",
    "holdfast.tui.server_link",
    "holdfast.tui.session_controller",
    "holdfast.tui.transcript.markdown_rows",
    "holdfast.tui.transcript.diff_rows",
    "holdfast.tui.transcript.block_rows",
    "holdfast.tui.session_transcript",
    "holdfast.tui.queue_list",
    "holdfast.tui.ask_panel",
    "holdfast.tui.details_panel",
)
_PAUSE_SECONDS = 0.002
"""Between two steps. Keys that have arrived are handled in it."""


class ChatParts(NamedTuple):
    view: SessionTranscriptView
    search: Input
    cut_off: Static
    queue: QueueList
    ask_panel: AskPanel
    details: DetailsPanel

    @property
    def are_attached(self) -> bool:
        """Not any more while the interface closes."""
        return all(part.is_attached for part in self)


async def mount_parts(
    screen: Screen[None], *, no_session: Callable[[], TranscriptFold], subagent: Callable[[str], Sequence[Block]]
) -> ChatParts:
    """Import, make and mount the parts. ``no_session`` is what the transcript shows first."""
    for name in _MODULES:
        import_module(name)
        await asyncio.sleep(_PAUSE_SECONDS)
    parts = _make_parts(no_session(), subagent)
    main, left = screen.query_one("#main"), screen.query_one("#left")
    await _mount(parts.view, parent=left, before="#rule")
    await _mount(parts.search, parent=left, before="#rule")
    await _mount(parts.cut_off, parts.queue, parts.ask_panel, parent=left, before="#composer")
    await _mount(parts.details, parent=main, before=None)
    return parts


def _make_parts(no_session: TranscriptFold, subagent: Callable[[str], Sequence[Block]]) -> ChatParts:
    from textual.widgets import Input, Static

    from holdfast.tui.ask_panel import AskPanel
    from holdfast.tui.details_panel import DetailsPanel
    from holdfast.tui.queue_list import QueueList
    from holdfast.tui.session_transcript import SessionTranscriptView

    return ChatParts(
        view=SessionTranscriptView(no_session, subagent=subagent),
        search=Input(id="search", placeholder="search · enter next · esc closes", select_on_focus=False),
        cut_off=Static("", id="cut-off", markup=False),
        queue=QueueList(),
        ask_panel=AskPanel(),
        details=DetailsPanel(),
    )


async def _mount(*widgets: Widget, parent: Widget, before: str | None) -> None:
    await parent.mount(*widgets, before=before)
    await asyncio.sleep(_PAUSE_SECONDS)
