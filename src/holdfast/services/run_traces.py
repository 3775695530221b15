"""Traces of runs: when each was accepted, dispatched, asked a model and called tools. Pure, apart from a clock.

Everything is known from the events of commits and from what runs report of their progress. Prompts, answers, arguments
and results are in no span.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import msgspec

from holdfast.schema.base import Value
from holdfast.schema.events import MessageFinished, RunAccepted, RunFinished, RunRetrying, RunStarted
from holdfast.schema.messages import Message, ToolResult
from holdfast.schema.runs import Now, Run
from holdfast.store import CommittedEvent

_MAX_OPEN = 10_000
_MAX_SPANS = 1_000
"""Spans of one run. Those of later steps are left out."""
_TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")

Attribute = str | int | float


class TraceSpan(Value, frozen=True):
    """A part of a run. Times are nanoseconds since 1970."""

    name: str
    start: int
    end: int
    attributes: dict[str, Attribute] = {}
    failed: bool = False


class RunTrace(Value, frozen=True):
    """A run that has ended, and its parts."""

    root: TraceSpan
    spans: tuple[TraceSpan, ...]
    traceparent: str | None = None
    """The span of the client in which the run was sent."""


class _OpenTrace(msgspec.Struct):
    accepted: int
    began: int
    """When the request of the run arrived."""
    started: int = 0
    asked: int = 0
    first_token: int = 0
    traceparent: str | None = None
    retries: int = 0
    spans: list[TraceSpan] = msgspec.field(default_factory=list)

    def add(self, span: TraceSpan) -> None:
        if len(self.spans) < _MAX_SPANS:
            self.spans.append(span)


class RunTraces:
    """Follows all runs of a server, and hands over the trace of each one that ends."""

    def __init__(self, export: Callable[[RunTrace], None], *, now: Callable[[], int] = time.time_ns) -> None:
        self._export = export
        self._now = now
        self._open: dict[str, _OpenTrace] = {}

    def note_request(self, run_id: str, *, traceparent: str | None, seconds: float) -> None:
        """Note the request of a run that was accepted: its ``traceparent`` header, and how long it took so far."""
        trace = self._open.get(run_id)
        if trace is not None:
            trace.began = min(self._now() - int(seconds * 1e9), trace.accepted)
            if traceparent is not None and _TRACEPARENT.fullmatch(traceparent):
                trace.traceparent = traceparent

    def on_commit(self, committed: tuple[CommittedEvent, ...]) -> None:
        for logged in committed:
            match logged.event:
                case RunAccepted(run=run):
                    if len(self._open) < _MAX_OPEN:
                        now = self._now()
                        self._open[run.id] = _OpenTrace(now, now)
                case RunStarted(run=run):
                    if (trace := self._open.get(run.id)) is not None:
                        trace.started = self._now()
                case RunRetrying(run_id=run_id):
                    if (trace := self._open.get(run_id)) is not None:
                        trace.retries += 1
                case MessageFinished(message=message):
                    if (trace := self._open.get(message.run_id)) is not None:
                        self._finish_message(trace, message)
                case RunFinished(run=run):
                    if (trace := self._open.pop(run.id, None)) is not None:
                        self._export(_finished(trace, run, self._now()))

    def on_progress(self, run_id: str, now: Now) -> None:
        trace = self._open.get(run_id)
        if trace is None:
            return
        if now.phase == "first_token":
            at = self._now()
            if trace.started and not trace.asked:
                trace.add(TraceSpan("dispatch", trace.started, at))
            trace.asked, trace.first_token = at, 0
        elif now.phase == "streaming" and not trace.first_token:
            trace.first_token = self._now()

    def _finish_message(self, trace: _OpenTrace, message: Message) -> None:
        now = self._now()
        if message.role == "assistant" and trace.asked:
            attributes: dict[str, Attribute] = {"gen_ai.request.model": message.model or ""}
            if message.usage is not None:
                attributes["gen_ai.usage.input_tokens"] = message.usage.input
                attributes["gen_ai.usage.output_tokens"] = message.usage.output
            if trace.first_token:
                attributes["holdfast.first_token_seconds"] = (trace.first_token - trace.asked) / 1e9
            trace.add(TraceSpan("model", trace.asked, now, attributes))
        elif message.role == "tool":
            for part in message.parts:
                if isinstance(part, ToolResult):
                    start = now - int((part.duration or 0.0) * 1e9)
                    trace.add(TraceSpan(f"tool {part.name}", start, now, failed=part.status != "ok"))


def _finished(trace: _OpenTrace, run: Run, now: int) -> RunTrace:
    attributes: dict[str, Attribute] = {
        "holdfast.run_id": run.id,
        "holdfast.session_id": run.session_id,
        "holdfast.kind": run.kind,
        "holdfast.state": run.state,
        "holdfast.reason": run.reason or "",
        "holdfast.steps": run.steps,
        "holdfast.retries": trace.retries,
    }
    if run.parent_run_id is not None:
        attributes["holdfast.parent_run_id"] = run.parent_run_id
    first = [TraceSpan("accept", trace.began, trace.accepted)]
    if trace.started:
        first.append(TraceSpan("queue", trace.accepted, trace.started))
    root = TraceSpan(f"run {run.kind}", trace.began, now, attributes, failed=run.state in ("failed", "interrupted"))
    return RunTrace(root, (*first, *trace.spans), trace.traceparent)
