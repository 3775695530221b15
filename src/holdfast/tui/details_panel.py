"""The panel at the right: session, model, context, cost, todos, jobs, servers. An overlay on narrow terminals."""

from __future__ import annotations

import time

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from holdfast.client.context_composition import ContextShare
from holdfast.schema.base import Value
from holdfast.schema.extensions import ExtensionStatus
from holdfast.schema.sessions import FileChange, Job, Session, Todo
from holdfast.tui.extension_picker import KIND_WORDS, STATE_MARKS, STATE_WORDS
from holdfast.tui.status_words import money, seconds_since, span, tokens
from holdfast.tui.terminal_signals import plain_text
from holdfast.tui.transcript.cells import cut

_BAR_CELLS = 10
_MARKS = {"completed": ("✓", "$success"), "in_progress": ("●", "$primary"), "pending": ("○", "$text-muted")}


class DetailFacts(Value, frozen=True):
    directory: str = ""
    session: Session | None = None
    runs: int = 0
    model: str = ""
    effort: str = ""
    agent: str = ""
    """The agent that was chosen for the session."""
    context_tokens: int = 0
    context_window: int = 0
    todos: tuple[Todo, ...] = ()
    changes: tuple[FileChange, ...] = ()
    jobs: tuple[Job, ...] = ()
    job_lines: dict[str, str] = {}
    """The last line of the output of running jobs."""
    jobs_key: str = ""
    """The key that shows the jobs."""
    shares: tuple[ContextShare, ...] = ()
    extensions: tuple[ExtensionStatus, ...] = ()
    """MCP and language servers are shown, of the others those that failed."""
    others: int = 0
    """Other clients that show this session."""
    untrusted: tuple[str, ...] = ()


class DetailsPanel(VerticalScroll, can_focus=False):
    DEFAULT_CSS = """
    DetailsPanel { width: 40; padding: 0 1; border-left: solid $border; scrollbar-size-vertical: 1; display: none; }
    DetailsPanel.-shown { display: block; }
    DetailsPanel.-overlay { dock: right; layer: overlay; background: $surface; height: 1fr; max-width: 100%; }
    DetailsPanel Static { height: auto; }
    """

    def __init__(self) -> None:
        super().__init__(id="details")
        self._facts = DetailFacts()

    def compose(self) -> ComposeResult:
        yield Static("", id="details-text", markup=False)

    def show(self, facts: DetailFacts) -> None:
        if facts != self._facts or facts.jobs:
            self._facts = facts
            self._draw()

    def on_resize(self) -> None:
        """Before the first one the panel has no width."""
        self._draw()

    def _draw(self) -> None:
        width = max(self.size.width - 4, 30)
        self.query_one("#details-text", Static).update(draw_details(self._facts, width, now=time.time()))


def draw_details(facts: DetailFacts, width: int, *, now: float) -> Content:
    lines: list[Content] = []

    def add(*parts: object) -> None:
        lines.append(Content.assemble(*parts))  # type: ignore[arg-type]

    session = facts.session
    add((cut(plain_text(session.title if session else "") or "new session", width), "bold"))
    add((cut(facts.directory, width), "$text-muted"))
    if session is not None:
        count = f"{facts.runs} run{'s' if facts.runs != 1 else ''}"
        age = span(seconds_since(session.created_at, now))
        add((f"{count} · {age} · {money(session.usage.cost)}", "$text-muted"))
        if facts.others:
            add((f"{facts.others} other client{'s' if facts.others != 1 else ''} here", "$text-muted"))
    add("")
    add(cut(facts.model or "no model", width), (f" · {facts.effort}" if facts.effort else "", "$text-muted"))
    if facts.agent:
        add(("agent ", "$text-muted"), cut(facts.agent, width - 6))
    if facts.context_window:
        add(*_context(facts))
    elif facts.context_tokens:
        add((f"context {tokens(facts.context_tokens)} tokens", "$text-muted"))
    for share in facts.shares:
        add((f"  {cut(share.name, width - 10):<24}{tokens(share.tokens):>6}", "$text-muted"))
    if facts.todos:
        done = sum(todo.status == "completed" for todo in facts.todos)
        add("")
        add((f"todo {done}/{len(facts.todos)}", "bold"))
        for todo in facts.todos:
            mark, style = _MARKS[todo.status]
            add((f"{mark} ", style), cut(plain_text(todo.text), width - 2))
    if facts.changes:
        add("")
        add((f"changed ({len(facts.changes)})", "bold"))
        for change in facts.changes[:12]:
            add(cut(plain_text(change.path), width - 12), ("  " + change_counts(change.diff), "$text-muted"))
    running = [job for job in facts.jobs if job.state == "running"]
    if running:
        add("")
        add(("jobs", "bold"), (f"  {facts.jobs_key} shows or kills them" if facts.jobs_key else "", "$text-muted"))
        for job in running:
            since = span(seconds_since(job.started_at, now))
            add(("● ", "$success"), cut(plain_text(job.command), width - 10), (f"  {since}", "$text-muted"))
            if line := facts.job_lines.get(job.id):
                add(("  │ ", "$text-muted"), (cut(plain_text(line), width - 4), "$text-muted"))
    shown = [s for s in facts.extensions if s.kind in ("mcp", "lsp") or s.state == "failed"]
    if shown:
        add("")
    for status in shown:
        mark, style = STATE_MARKS[status.state]
        words = "" if status.state == "ready" else f"  {STATE_WORDS[status.state]}"
        name = cut(plain_text(status.name), width - 7 - len(words))
        add((f"{KIND_WORDS[status.kind]:<5}", "$text-muted"), (f"{mark} ", style), name, (words, "$text-muted"))
    if facts.untrusted:
        add("")
        add(("not trusted", "$warning"), " · /trust loads the project's settings")
    return Content("\n").join(lines)


def _context(facts: DetailFacts) -> list[tuple[str, str]]:
    share = min(facts.context_tokens / facts.context_window, 1.0)
    filled = round(share * _BAR_CELLS)
    style = "$error" if share > 0.9 else "$warning" if share > 0.7 else "$primary"
    bar = "▓" * filled
    return [
        ("context ", "$text-muted"),
        (bar, style),
        ("░" * (_BAR_CELLS - filled), "$text-muted"),
        (f" {share:.0%}  {tokens(facts.context_tokens)} of {tokens(facts.context_window)}", "$text-muted"),
    ]


def change_counts(diff: str) -> str:
    """``+3 −1``, counted in a unified diff."""
    lines = [line for line in diff.splitlines() if not line.startswith(("+++", "---"))]
    added = sum(line.startswith("+") for line in lines)
    removed = sum(line.startswith("-") for line in lines)
    return f"+{added} −{removed}"
