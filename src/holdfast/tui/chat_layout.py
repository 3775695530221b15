"""The main screen, drawn: transcript, queue, composer or ask, status line, details.

What keys and messages do is in `ChatScreen`; the widgets hold no truth.
"""

from __future__ import annotations

import asyncio
import gc
import time
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.events import Resize
from textual.widgets import Static

from holdfast.errors import HoldfastError
from holdfast.tui.actions import slash_commands
from holdfast.tui.bindings import bindings_for, hints, key_of
from holdfast.tui.composer import Composer
from holdfast.tui.exclusive_work import run_newest
from holdfast.tui.garbage_collection import collect_if_due, collect_in_pauses
from holdfast.tui.start_text import StartFacts, draw_start
from holdfast.tui.status_line import StatusFacts, StatusLine
from holdfast.tui.status_words import activity, money
from holdfast.tui.tui_host import ChatHost

if TYPE_CHECKING:  # the first frame is drawn before they are imported, see `chat_parts`
    from holdfast.client.transcript_fold import TranscriptFold
    from holdfast.client.view_values import Block, OpenAsk
    from holdfast.schema.commands import OfferedMention
    from holdfast.schema.sessions import FileChange
    from holdfast.tui.ask_panel import AskPanel
    from holdfast.tui.chat_parts import ChatParts
    from holdfast.tui.details_panel import DetailFacts
    from holdfast.tui.queue_list import QueueList
    from holdfast.tui.session_transcript import SessionTranscriptView

_WIDE = 120
_FIRST_KEY_SECONDS = 0.03
"""After the first frame, before the rest is imported: what was typed meanwhile is shown at once."""
_TYPING_SECONDS = 0.5
_JOB_TAIL_BYTES = 2048


class ChatLayout(ChatHost):
    DEFAULT_CSS = """
    ChatLayout { layers: base overlay; }
    ChatLayout #main { height: 1fr; }
    ChatLayout #left { width: 1fr; }
    ChatLayout #start { height: 1fr; padding: 1 3; display: none; }
    ChatLayout.-empty #start { display: block; }
    ChatLayout.-empty #transcript { display: none; }
    ChatLayout #rule { height: 1; color: $border; }
    ChatLayout #search { border: none; height: 1; padding: 0 1; background: $surface; display: none; }
    ChatLayout #search:focus { border: none; }
    ChatLayout.-searching #search { display: block; }
    ChatLayout.-asking #composer { display: none; }
    ChatLayout #cut-off { height: auto; padding: 0 1; color: $text-muted; display: none; }
    ChatLayout.-cut-off #cut-off { display: block; }
    ChatLayout.-plain #rule { display: none; }
    ChatLayout.-plain TranscriptView { scrollbar-size-vertical: 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [*bindings_for("everywhere")]
    AUTO_FOCUS = "#prompt"

    def __init__(self) -> None:
        super().__init__(classes="-empty")
        self.cancelling = False
        self.sending: tuple[str, ...] = ()
        self.changes: tuple[FileChange, ...] = ()
        self.wants_details: bool | None = None
        self.job_lines: dict[str, str] = {}
        """The last line of the output of each running job, while the details are shown."""
        self.edited_at = 0.0
        self.mounted = asyncio.Event()
        """All widgets exist."""
        self._parts: ChatParts | None = None

    def compose(self) -> ComposeResult:
        """Only what the first frame shows."""
        if self.tui.options.session_id is not None:
            self.remove_class("-empty")
        first = StartFacts(directory=self.tui.options.shown_directory)
        with Horizontal(id="main"), Vertical(id="left"):
            yield Static(draw_start(first, now=0.0, app=self.app), id="start", markup=False)
            yield Static("─" * 400, id="rule", markup=False)
            yield Composer(
                draft=self.tui.options.typed,
                find_mentions=self._find_mentions,
                commands=self._commands,
                load_commands=self._load_commands,
            )
        yield StatusLine(StatusFacts(problem="connecting", hints="? keys", plain=self.tui.plain))

    def on_mount(self) -> None:
        self.call_after_refresh(self.run_worker, self._mount_rest, name="mount", group="mount")

    async def _mount_rest(self) -> None:
        """Import and mount the rest. The modules live until the end, so that the collector need not look at them."""
        from holdfast.tui.chat_parts import mount_parts

        await asyncio.sleep(_FIRST_KEY_SECONDS)
        self._parts = await mount_parts(self, no_session=lambda: self.no_session, subagent=self._subagent_blocks)
        self.set_interval(1.0 if not self.tui.options.reduced_motion else 5.0, self.draw_status, name="status")
        self.draw_all()
        self.mounted.set()
        if not gc.isenabled():  # `open_tui` has disabled it
            collect_in_pauses()
            self.set_interval(1.0, self._collect_garbage, name="garbage")
        from holdfast.tui.transcript.code_rows import prepare_highlighting
        from holdfast.tui.transcript.palette import Palette

        await asyncio.to_thread(prepare_highlighting, Palette.of_app(self.app))

    def _collect_garbage(self) -> None:
        collect_if_due(idle_seconds=time.monotonic() - self.edited_at)

    def on_resize(self, event: Resize) -> None:
        self.draw_all()

    @property
    def parts(self) -> ChatParts:
        assert self._parts is not None, "before `mounted`"
        return self._parts

    @property
    def view(self) -> SessionTranscriptView:
        return self.parts.view

    @property
    def queue_list(self) -> QueueList:
        return self.parts.queue

    @property
    def ask_panel(self) -> AskPanel:
        return self.parts.ask_panel

    @cached_property
    def no_session(self) -> TranscriptFold:
        """What the transcript shows while there is no session."""
        from holdfast.client.transcript_fold import TranscriptFold
        from holdfast.schema.open_texts import OpenTexts

        return TranscriptFold("", open_texts=OpenTexts())

    @property
    def open_asks(self) -> tuple[OpenAsk, ...]:
        """Of the shown session and its sub-agents."""
        session_id = self.tui.link.session_id
        asks = self.tui.link.fold.asks
        return tuple(a for a in asks if (s := a.approval or a.question) and s.root_session_id == session_id)

    def _commands(self) -> tuple[tuple[str, str], ...]:
        return (*slash_commands(), *self.tui.link.custom_commands)

    async def _load_commands(self) -> None:
        await self.tui.link.reload_commands()

    async def _find_mentions(self, query: str) -> tuple[OfferedMention, ...]:
        return await self.tui.controller.find_mentions(query)

    def _subagent_blocks(self, session_id: str) -> tuple[Block, ...]:
        fold = self.tui.link.fold.transcript(session_id)
        return () if fold is None else tuple(block for entry in fold.entries for block in entry.blocks)

    # Drawing.

    def use_plain(self, plain: bool) -> None:  # noqa: FBT001 - a setting
        from holdfast.tui.transcript.glyphs import SYMBOLS, WORDS

        self.set_class(plain, "-plain")
        self.view.use_glyphs(WORDS if plain else SYMBOLS)
        self.composer.use_words(plain)
        self.draw_all()

    @property
    def is_drawn(self) -> bool:
        """All widgets exist: not before the first frame, and not any more while the UI closes.

        Asked for every delta, so it does not search the tree.
        """
        return self._parts is not None and self._parts.are_attached

    @property
    def has_draw_ahead(self) -> bool:
        """Changes of the transcript need nothing further: it is visible, and will be drawn."""
        return self._parts is not None and self._parts.view.has_draw_ahead and not self.has_class("-empty")

    def draw_all(self) -> None:
        if not self.is_drawn:
            return
        self.show_session()
        self.draw_queue()
        self.draw_ask()
        self.draw_details()
        self.draw_status()

    def show_session(self) -> None:
        """Show the session of the link, or the start text if there is none."""
        fold = self.tui.controller.transcript
        self.view.show_fold(fold or self.no_session)
        is_loading = fold is None and self.tui.link.session_id is not None
        is_empty = (fold is None or not fold.entries) and not self.sending and not is_loading
        self.set_class(is_empty, "-empty")
        if is_empty:
            link = self.tui.link
            last = link.fold.sessions[0] if link.fold.sessions and fold is None else None
            facts = StartFacts(
                directory=self.tui.options.shown_directory,
                model=self.tui.controller.model_name,
                is_live=link.is_live,
                problem=link.problem_text,
                last=last,
                untrusted=link.config.untrusted if link.config else (),
                repository=link.repository,
            )
            self.query_one("#start", Static).update(draw_start(facts, now=time.time(), app=self.app))

    def draw_blocks(self) -> None:
        fold = self.tui.controller.transcript
        if fold is not None and fold.entries and self.has_class("-empty"):
            self.show_session()
        self.view.session_changed()

    def draw_queue(self) -> None:
        fold = self.tui.controller.transcript or self.no_session
        self.queue_list.show(fold.queue, sending=self.sending)
        self.composer.area.can_steer = self.tui.controller.is_busy
        self.composer.set_placeholder(self._placeholder())
        self._offer_to_continue()

    def _offer_to_continue(self) -> None:
        """What can be done with a run that was interrupted, until something follows it."""
        run = self.tui.controller.cut_off
        is_interrupted = run is not None and run.state == "interrupted" and not self.sending
        self.set_class(is_interrupted, "-cut-off")
        if is_interrupted:
            others = hints(self.app, "retry", "undo_and_retry")
            self.parts.cut_off.update(f"interrupted   enter continue, telling the agent · {others}")

    def _placeholder(self) -> str:
        fold = self.tui.controller.transcript
        if fold is not None and fold.queue.paused and (fold.queue.queued or fold.queue.waiting):
            return "enter resumes the queue"
        if self.tui.controller.is_busy:
            return "write the next prompt"
        return "what should be done?" if fold is None else ""

    def draw_ask(self) -> None:
        asks, panel = self.open_asks, self.ask_panel
        had_focus = panel.has_focus or panel.is_writing
        typing = time.monotonic() - self.edited_at < _TYPING_SECONDS
        panel.show(asks[0] if asks else None, waiting=len(asks), draft=self.composer.draft, typing=typing)
        self.set_class(bool(asks), "-asking")
        if not asks and had_focus:
            self.composer.area.focus()

    def draw_details(self) -> None:
        panel = self.parts.details
        wide = self.size.width >= _WIDE and not self.tui.plain
        shown = wide if self.wants_details is None else self.wants_details
        panel.set_class(shown, "-shown")
        panel.set_class(not wide, "-overlay")
        if shown:
            panel.show(self._detail_facts())

    @property
    def details_shown(self) -> bool:
        return self.parts.details.has_class("-shown")

    def _detail_facts(self) -> DetailFacts:
        from holdfast.tui.details_panel import DetailFacts

        link, controller = self.tui.link, self.tui.controller
        fold, session_id = controller.transcript, link.session_id
        session = link.fold.session(session_id) if session_id else None
        return DetailFacts(
            directory=self.tui.options.shown_directory,
            session=session,
            runs=len(fold.runs) if fold else 0,
            model=controller.model_name,
            effort=controller.effort or "",
            agent=controller.shown_agent,
            context_tokens=fold.context_tokens if fold else 0,
            context_window=controller.context_window,
            todos=fold.todos if fold else (),
            changes=self.changes,
            jobs=link.fold.jobs,
            job_lines=self.job_lines,
            jobs_key=key_of(self.app, "jobs"),
            shares=fold.context_shares if fold else (),
            others=max(session.clients - 1, 0) if session else 0,
            untrusted=link.config.untrusted if link.config else (),
            extensions=link.extensions,
        )

    def draw_status(self) -> None:
        if not self.is_drawn:
            return
        link, controller = self.tui.link, self.tui.controller
        fold = controller.transcript
        active = fold.active if fold else None
        self.query_one(StatusLine).show(
            StatusFacts(
                mode=controller.mode,
                headline="" if self.details_shown else self._headline(),
                activity=activity(active, now=time.time(), cancelling=self.cancelling) or self._waiting_elsewhere(),
                problem=self.tui.link_words(),
                hints=self._hints(),
                plain=self.tui.plain,
            )
        )
        if active is None:
            self.cancelling = False
        if self.details_shown and link.fold.jobs:
            self.draw_details()
            run_newest(self, self._load_job_lines, group="jobs")

    async def _load_job_lines(self) -> None:
        client, found = self.tui.link.client, dict[str, str]()
        for job in self.tui.link.fold.jobs:
            if job.state == "running" and client is not None and self.tui.link.is_live:
                try:
                    output = await client.job_output(job.id, last=_JOB_TAIL_BYTES)
                except HoldfastError:
                    continue  # it has ended, or the server is gone; the next draw tells
                found[job.id] = output.rstrip().rpartition("\n")[2]
        self.job_lines = found

    def _headline(self) -> str:
        controller, fold = self.tui.controller, self.tui.controller.transcript
        parts = [controller.shown_agent, controller.model_name.rpartition("/")[2]]
        if fold and controller.context_window and fold.context_tokens:
            parts.append(f"{min(fold.context_tokens / controller.context_window, 1):.0%}")
        session = self.tui.link.fold.session(fold.session_id) if fold else None
        if session and session.usage.cost:
            parts.append(money(session.usage.cost))
        return " · ".join(part for part in parts if part)

    def _waiting_elsewhere(self) -> str:
        others = len(self.tui.link.fold.asks) - len(self.open_asks)
        return f"{others} question{'s' if others != 1 else ''} in other sessions" if others else ""

    def _hints(self) -> str:
        app = self.tui
        if self.has_class("-asking"):
            return hints(app, "cancel")
        if self.view.has_focus:
            return hints(app, "block_toggle", "copy_block", "search", "follow_end")
        if app.controller.is_busy:
            return f"enter queue · {hints(app, 'steer', 'cancel')} · ? keys"
        return "? keys"
