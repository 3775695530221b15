"""What `/metrics` shows. The numbers are counted from the events of commits, so nothing else has to report them."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable

from holdfast import __version__
from holdfast.events import Hub
from holdfast.runs import Engine
from holdfast.schema.events import MessageFinished, RunAccepted, RunFinished, RunRetrying, RunStarted
from holdfast.schema.messages import ToolResult
from holdfast.schema.runs import Now, Run
from holdfast.services.open_metrics import Histogram, LimitedCounter, MetricsText
from holdfast.store import CommittedEvent, Store

_MAX_WATCHED = 10_000


class ServerMetrics:
    """Counts from now on. Belongs to one server."""

    def __init__(self, store: Store, hub: Hub, engine: Engine, *, now: Callable[[], float] = time.perf_counter) -> None:
        self._store = store
        self._hub = hub
        self._engine = engine
        self._now = now
        self._started = time.time()
        self.accept = Histogram()
        self._dispatch, self._first_token, self._run = Histogram(), Histogram(), Histogram()
        self._events = self._commits = self._accepted = 0
        self._ended, self._retries, self._tools = LimitedCounter(), LimitedCounter(), LimitedCounter()
        self._tokens, self._cost = LimitedCounter(), LimitedCounter()
        self._accepted_at: dict[str, float] = {}
        self._started_at: dict[str, float] = {}
        """Runs that have started and have not asked a model yet."""
        self._asked_at: dict[str, float] = {}
        """Runs that wait for a first token."""
        store.listen(self._on_commit)
        hub.observe_progress(self._on_progress)

    def _on_commit(self, committed: tuple[CommittedEvent, ...]) -> None:
        self._commits += 1
        self._events += len(committed)
        for logged in committed:
            match logged.event:
                case MessageFinished(message=message):
                    if message.usage is not None:
                        model, usage = message.model or "", message.usage
                        self._tokens.add((model, "input"), usage.input)
                        self._tokens.add((model, "output"), usage.output)
                        self._tokens.add((model, "cache_read"), usage.cache_read)
                        self._tokens.add((model, "cache_write"), usage.cache_write)
                        self._cost.add((model,), usage.cost)
                    if message.role == "tool":
                        for part in message.parts:
                            if isinstance(part, ToolResult):
                                self._tools.add((part.name, part.status))
                case RunAccepted(run=run):
                    self._accepted += 1
                    if len(self._accepted_at) < _MAX_WATCHED:
                        self._accepted_at[run.id] = self._now()
                case RunStarted(run=run):
                    if len(self._started_at) < _MAX_WATCHED:
                        self._started_at[run.id] = self._now()
                case RunRetrying(cause=cause):
                    self._retries.add((cause,))
                case RunFinished(run=run):
                    self._end(run)

    def _end(self, run: Run) -> None:
        self._ended.add((run.state, run.reason or ""))
        self._started_at.pop(run.id, None)
        self._asked_at.pop(run.id, None)
        if (accepted_at := self._accepted_at.pop(run.id, None)) is not None:
            self._run.observe(self._now() - accepted_at)

    def _on_progress(self, run_id: str, now: Now) -> None:
        if now.phase == "first_token":
            at = self._now()
            if (started := self._started_at.pop(run_id, None)) is not None:
                self._dispatch.observe(at - started)
            if len(self._asked_at) < _MAX_WATCHED:
                self._asked_at[run_id] = at
        elif now.phase == "streaming" and (asked := self._asked_at.pop(run_id, None)) is not None:
            self._first_token.observe(self._now() - asked)

    async def text(self) -> str:
        """All metrics in the OpenMetrics format."""
        approvals = len((await self._store.open_approvals()).items)
        size = await self._store.size()
        active = self._engine.count_active()
        text = MetricsText()
        text.info("holdfast_server", {"version": __version__}, "The server.")
        text.gauge("holdfast_runs_active", active, "Runs that are active.")
        text.gauge("holdfast_runs_queued", self._engine.count_unfinished() - active, "Runs that wait for their turn.")
        text.gauge("holdfast_approvals_open", approvals, "Approvals that wait for an answer.")
        text.gauge("holdfast_streams", self._hub.subscriber_count, "Event streams that are open.")
        text.counter("holdfast_runs_accepted", self._accepted, "Runs that were accepted.")
        text.counters("holdfast_runs_ended", ("state", "reason"), self._ended.values, "Runs that ended.")
        text.histogram("holdfast_accept_seconds", self.accept, "From the request of a run to its answer.")
        text.histogram("holdfast_dispatch_seconds", self._dispatch, "From the start of a run to its first request.")
        text.histogram("holdfast_first_token_seconds", self._first_token, "From a request to its first token.")
        text.histogram("holdfast_run_seconds", self._run, "From the acceptance of a run to its end.")
        text.counter("holdfast_events", self._events, "Events that were committed.")
        text.counter("holdfast_commits", self._commits, "Commits that had events.")
        text.counters("holdfast_retries", ("cause",), self._retries.values, "Errors of providers that were retried.")
        text.counters("holdfast_tool_calls", ("tool", "status"), self._tools.values, "Tool calls that ended.")
        text.counters("holdfast_tokens", ("model", "kind"), self._tokens.values, "Tokens of answers to prompts.")
        text.counters("holdfast_cost_dollars", ("model",), self._cost.values, "Cost, by the prices of the catalogue.")
        text.gauge("holdfast_store_bytes", size, "Size of the database.")
        used = os.times()
        text.counter("process_cpu_seconds", used.user + used.system, "CPU time of the server.")
        text.gauge("process_start_time_seconds", self._started, "When the server started, in seconds since 1970.")
        if sys.platform == "linux":
            memory, files = await asyncio.to_thread(_process_size)
            text.gauge("process_resident_memory_bytes", memory, "Memory of the server.")
            text.gauge("process_open_fds", files, "Files that the server has open.")
        return text.text()


def _process_size() -> tuple[int, int]:
    """Bytes of memory, and open files. Blocks."""
    with open("/proc/self/statm", "rb") as file:
        pages = int(file.read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE"), len(os.listdir("/proc/self/fd"))
