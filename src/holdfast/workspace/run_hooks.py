"""Runs the hooks of a workspace for one run, and after the end of every run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from holdfast.agent.turn_hooks import hook_notices
from holdfast.errors import StoreConflict, StoreUnwritable
from holdfast.extend.hooks.workspace_hooks import HookSurroundings, WorkspaceHooks
from holdfast.ids import Prefix
from holdfast.schema.events import MessageFinished, RunFinished
from holdfast.schema.hooks import NO_VERDICT, HookEvent, HookRecord, HookVerdict
from holdfast.schema.messages import Message
from holdfast.schema.runs import Mode, Run
from holdfast.store import Batch, CommittedEvent, Store
from holdfast.store.writes import PutMessage
from holdfast.tasks import finish_despite_cancel

_CLOSE_SECONDS = 1.0
"""How long hooks of ended runs may go on when their workspace closes."""
_FOR_USERS_RUNS = frozenset({"session_start", "prompt"})

_log = logging.getLogger(__name__)


class RunHooks:
    """The `TurnHooks` of one run. What hooks say is redacted before anybody reads it."""

    def __init__(
        self,
        hooks: WorkspaceHooks,
        surroundings: HookSurroundings,
        run: Run,
        *,
        mode: Mode,
        workspace: Path,
        redact: Callable[[str], str],
    ) -> None:
        self._hooks = hooks
        self._surroundings = surroundings
        self._run = run
        self._redact = redact
        self._notified: dict[str, list[HookRecord]] = {}
        """By call: the hooks of notifications that ran while the user was waited for."""
        self._common = {
            "session_id": run.session_id,
            "run_id": run.id,
            "workspace": str(workspace),
            "mode": mode,
            "interactive": run.interactive,
            "agent": run.agent if run.parent_run_id is not None else None,
        }

    @property
    def run_id(self) -> str:
        return self._run.id

    def listens(self, event: HookEvent) -> bool:
        if event in _FOR_USERS_RUNS and self._run.parent_run_id is not None:
            return False
        if event == "session_start" and self._hooks.has_started(self._run.session_id):
            return False
        return self._hooks.listens(event)

    async def run(self, event: HookEvent, **fields: Any) -> HookVerdict:
        return await self._execute(event, fields)

    async def _execute(
        self, event: HookEvent, fields: Mapping[str, Any], records: list[HookRecord] | None = None
    ) -> HookVerdict:
        if event == "session_start":
            self._hooks.mark_started(self._run.session_id)
        verdict = await self._hooks.run(
            event,
            {"event": event, **self._common, **fields},
            self._surroundings,
            is_subagent=self._run.parent_run_id is not None,
            records=records,
        )
        return verdict if verdict is NO_VERDICT else self._redacted(verdict)

    def take_notified(self, call_id: str) -> Sequence[HookRecord]:
        return self._notified.pop(call_id, ())

    @asynccontextmanager
    async def notifying(self, about: str, text: str, *, call_id: str) -> AsyncIterator[None]:
        """Run the hooks of a notification while the user is waited for. They end with the wait."""
        if not self.listens("notification"):
            yield
            return
        records: list[HookRecord] = []
        notice = self._execute("notification", {"about": about, "text": self._redact(text)}, records)
        task = asyncio.create_task(notice, name=f"hooks:notification:{self._run.id}")
        try:
            yield
        finally:
            task.cancel()
            _, cancelled = await finish_despite_cancel(asyncio.wait({task}))
            self._notified.setdefault(call_id, []).extend(map(self._redacted_record, records))
            if not task.cancelled() and (error := task.exception()):
                _log.warning("%s failed: %r", task.get_name(), error)
            if cancelled:
                raise asyncio.CancelledError

    def _redacted(self, verdict: HookVerdict) -> HookVerdict:
        redact = self._redact
        return replace(
            verdict,
            reason=redact(verdict.reason),
            context=redact(verdict.context),
            stop=redact(verdict.stop),
            records=tuple(map(self._redacted_record, verdict.records)),
        )

    def _redacted_record(self, record: HookRecord) -> HookRecord:
        return replace(record, detail=self._redact(record.detail))


class EndHooks:
    """Runs the hooks of the event ``end`` when the end of a run is committed. They cannot change it.

    A message of their session says how they did. The model does not get it.
    """

    def __init__(self, store: Store, *, new_id: Callable[[Prefix], str], now: Callable[[], str]) -> None:
        self._store = store
        self._new_id = new_id
        self._now = now
        self._expected: dict[str, RunHooks] = {}
        """The hooks of the runs that have not ended."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._stop_listening = store.listen(self._on_events)

    @property
    def is_busy(self) -> bool:
        return bool(self._tasks)

    def expect(self, hooks: RunHooks) -> None:
        if hooks.listens("end"):
            self._expected[hooks.run_id] = hooks

    async def close(self) -> None:
        """Give the hooks of the last runs a moment, and end them."""
        self._stop_listening()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=_CLOSE_SECONDS)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _on_events(self, events: tuple[CommittedEvent, ...]) -> None:
        if not self._expected:
            return
        for committed in events:
            if isinstance(event := committed.event, RunFinished) and (hooks := self._expected.pop(event.run.id, None)):
                task = asyncio.create_task(self._run_at_end(hooks, event.run), name=f"hooks:end:{event.run.id}")
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _run_at_end(self, hooks: RunHooks, run: Run) -> None:
        try:
            verdict = await hooks.run("end", **_end_fields(run))
            if verdict.records:
                await self._tell(run, verdict)
        except (StoreConflict, StoreUnwritable) as error:  # the session was deleted, or the disk is full
            _log.warning("the hooks after the end of run %s cannot be shown: %s", run.id, error)
        except Exception:  # noqa: BLE001 - the run has ended; nothing depends on this
            _log.exception("hooks after the end of run %s failed", run.id)

    async def _tell(self, run: Run, verdict: HookVerdict) -> None:
        at = self._now()
        message = Message(
            id=self._new_id("msg"),
            session_id=run.session_id,
            run_id=run.id,
            role="user",
            seq=0,
            created_at=at,
            parts=hook_notices(verdict),
        )
        event = MessageFinished(at, run.session_id, message)
        await self._store.commit(Batch((PutMessage(message),), (event,)))


def _end_fields(run: Run) -> Mapping[str, Any]:
    return {
        "state": run.state,
        "reason": run.reason,
        "error": run.error.message if run.error else "",
        "prompt": run.prompt,
        "answer": run.text,
    }
