"""The background jobs: their state, their output as it grows, and how to kill one."""

from __future__ import annotations

import time
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from holdfast.errors import HoldfastError
from holdfast.schema.sessions import Job
from holdfast.tui.background_calls import call_in_background
from holdfast.tui.bindings import bindings_for, hints
from holdfast.tui.exclusive_work import run_newest
from holdfast.tui.server_link import ServerLink
from holdfast.tui.status_words import seconds_since, span
from holdfast.tui.terminal_signals import plain_text
from holdfast.tui.text_dialog import ConfirmDialog
from holdfast.tui.transcript.output_rows import output_rows
from holdfast.tui.transcript.palette import Palette
from holdfast.tui.transcript.rows import rows_as_text

_SHOWN_BYTES = 64 * 1024
_REFRESH_SECONDS = 1.0


class JobsScreen(Screen[None]):
    """The rows and the output follow what happens while it is open."""

    DEFAULT_CSS = """
    JobsScreen #jobs { height: auto; max-height: 30%; border: none; background: $background; }
    JobsScreen #job-scroll { height: 1fr; padding: 0 1; border-top: solid $border; }
    JobsScreen #job-output { height: auto; }
    JobsScreen #jobs-hint { height: 1; background: $panel; color: $text-muted; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings_for("jobs"),
        Binding("escape,q", "app.pop_screen", show=False),
    ]

    def __init__(self, link: ServerLink) -> None:
        super().__init__()
        self._link = link
        self._jobs: tuple[Job, ...] = ()
        self._output: tuple[str, str] = ("", "")
        """The shown job, and what of its output is shown."""

    def compose(self) -> ComposeResult:
        with Vertical():
            yield OptionList(id="jobs")
            with VerticalScroll(id="job-scroll"):
                yield Static("", id="job-output", markup=False)
        yield Static("", id="jobs-hint", markup=False)

    def on_mount(self) -> None:
        self.query_one("#jobs-hint", Static).update(f"jobs · {hints(self.app, 'job_kill')} · esc closes")
        self._refresh()
        self.query_one("#jobs", OptionList).focus()
        self.set_interval(_REFRESH_SECONDS, self._refresh)

    @property
    def current(self) -> Job | None:
        index = self.query_one("#jobs", OptionList).highlighted
        return self._jobs[index] if index is not None and index < len(self._jobs) else None

    def _refresh(self) -> None:
        current, options = self.current, self.query_one("#jobs", OptionList)
        self._jobs = tuple(reversed(self._link.fold.jobs))
        options.set_options([Option(job_row(job, now=time.time())) for job in self._jobs])
        ids = [job.id for job in self._jobs]
        if ids:
            options.highlighted = ids.index(current.id) if current and current.id in ids else 0
        else:
            self.query_one("#job-output", Static).update("There are no background jobs.")
        run_newest(self, self._load_output, group="output")

    @on(OptionList.OptionHighlighted, "#jobs")
    def _chosen(self) -> None:
        run_newest(self, self._load_output, group="output")

    async def _load_output(self) -> None:
        job = self.current
        if job is None:
            return
        try:
            text = await (await self._link.ready()).job_output(job.id, last=_SHOWN_BYTES)
        except HoldfastError as error:
            text = f"({error.message})"
        if (job.id, text) == self._output:
            return
        scroll = self.query_one("#job-scroll", VerticalScroll)
        follows = self._output[0] != job.id or scroll.scroll_y >= scroll.max_scroll_y
        self._output = (job.id, text)
        palette = Palette.of_app(self.app)
        rows = output_rows(text, max(scroll.size.width - 3, 20), palette, indent=("", palette.dim))
        self.query_one("#job-output", Static).update(rows_as_text(rows) if text else "(no output yet)")
        if follows:
            self.call_after_refresh(scroll.scroll_end, animate=False)

    def action_job_kill(self) -> None:
        job = self.current
        if job is None or job.state != "running":
            return

        def confirmed(yes: bool | None) -> None:  # noqa: FBT001 - the result of the dialog
            if yes:
                call_in_background(self, self._kill(job))

        question = f"Kill “{plain_text(job.command, longest=80)}” with all its processes?"
        self.app.push_screen(ConfirmDialog(question), confirmed)

    async def _kill(self, job: Job) -> None:
        ended = await (await self._link.ready()).kill_job(job.id)
        self.notify(plain_text(f"{ended.command}: {ended.state}", longest=200), markup=False)


def job_row(job: Job, *, now: float) -> Content:
    running = job.state == "running"
    state = f"{job.state}, exit {job.exit_code}" if job.exit_code and job.state == "exited" else job.state
    return Content.assemble(
        ("● " if running else "  ", "$success"),
        plain_text(job.command, longest=120),
        (f"  {state}, started {span(seconds_since(job.started_at, now))} ago", "$text-muted"),
    )
