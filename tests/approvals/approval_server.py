"""Pending approvals on a real store, with a manual clock and store calls that a test can hold."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from holdfast.approvals.pending_approvals import PendingApprovals
from holdfast.ids import Ids
from holdfast.schema.approvals import Approval, Question, QuestionItem
from holdfast.schema.events import ApprovalRequested, Event, QuestionAsked, read_event
from holdfast.store import Store

START = 1_800_000_000.0


class HeldStore:
    """A store whose calls can be held: `hold("commit")`, `arrived("commit")`, `release("commit")`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._held: dict[str, asyncio.Event] = {}
        self._arrivals: defaultdict[str, int] = defaultdict(int)

    def hold(self, name: str) -> None:
        self._held[name] = asyncio.Event()
        self._arrivals[name] = 0

    def release(self, name: str) -> None:
        self._held.pop(name).set()

    async def arrived(self, name: str, *, count: int = 1) -> None:
        await run_loop_until(lambda: self._arrivals[name] >= count)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name not in {"commit", "approval", "question"}:
            return found

        async def held_call(*args: Any, **kwargs: Any) -> Any:
            self._arrivals[name] += 1
            if released := self._held.get(name):
                await released.wait()
            return await found(*args, **kwargs)

        return held_call


class ManualClock:
    """Wall-clock time and timers. Changing `now` alone ends no timer, as after a machine slept."""

    def __init__(self) -> None:
        self.now = START
        self.timers: list[tuple[float, asyncio.Future[None]]] = []

    def time(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        timer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.timers.append((seconds, timer))
        await timer

    async def timer_started(self) -> None:
        await run_loop_until(lambda: any(not timer.done() for _, timer in self.timers))

    async def advance(self, seconds: float) -> None:
        """Move the clock and end all running timers."""
        await self.timer_started()
        self.now += seconds
        for _, timer in self.timers:
            if not timer.done():
                timer.set_result(None)


class SavedRules:
    """Stores the "always" rules, or fails with `problem`."""

    def __init__(self) -> None:
        self.saved: list[tuple[str, ...]] = []
        self.problem: Exception | None = None

    async def save(self, rules: tuple[str, ...]) -> None:
        await asyncio.sleep(0)
        if self.problem:
            raise self.problem
        self.saved.append(rules)


class ApprovalServer:
    """The pending approvals of one server."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.held_store = HeldStore(store)
        self.clock = ManualClock()
        self.rules = SavedRules()
        self.approvals = self.another()

    def another(self) -> PendingApprovals:
        """The pending approvals of another server on the same store."""
        return PendingApprovals(
            self.held_store,  # type: ignore[arg-type]
            ids=Ids(clock=self.clock.time),
            clock=self.clock.time,
            save_rules=self.rules.save,
            sleep=self.clock.sleep,
        )

    def request(self, title: str = "make", *, deadline: float = 0.0, **fields: Any) -> asyncio.Task[Approval]:
        return asyncio.create_task(self.approvals.request(approval(title, **fields), deadline=deadline))

    def ask(self, *items: QuestionItem, deadline: float = 0.0) -> asyncio.Task[Question]:
        return asyncio.create_task(self.approvals.ask(question(*items), deadline=deadline))

    async def opened(self, *, count: int = 1) -> list[Approval]:
        """Wait until there are this many open approvals in the store and in the event log; return them."""
        while True:
            found = (await self.store.open_approvals(workspace_id="wsp_1")).items
            if len(found) >= count and await self._are_logged(found):
                return list(found)

    async def opened_question(self) -> Question:
        while True:
            found = (await self.store.open_questions(workspace_id="wsp_1")).items
            if found and await self._are_logged(found):
                return found[0]

    async def _are_logged(self, records: Iterable[Approval | Question]) -> bool:
        """Whether `events` has them all. A reader sees a commit a moment before the store's `last_number` covers it."""
        events = await self.events(ApprovalRequested, QuestionAsked)
        logged = {event.approval.id if isinstance(event, ApprovalRequested) else event.question.id for event in events}
        return logged.issuperset(record.id for record in records)

    async def events(self, *kinds: type[Event]) -> list[Event]:
        page = await self.store.events_after(0, upto=self.store.last_number, limit=1000)
        events = [read_event(entry.body) for entry in page.events]
        return [event for event in events if isinstance(event, kinds)]


def approval(title: str = "make", *, session_id: str = "ses_1", run_id: str = "run_1", **fields: Any) -> Approval:
    return Approval(
        **{
            "id": "",
            "workspace_id": "wsp_1",
            "session_id": session_id,
            "root_session_id": session_id,
            "run_id": run_id,
            "call_id": "call_1",
            "tool": "bash",
            "title": title,
            "patterns": (f"bash: {title}", "write: ./log"),
            **fields,
        }
    )


def question(*items: QuestionItem) -> Question:
    return Question(
        id="",
        workspace_id="wsp_1",
        session_id="ses_1",
        root_session_id="ses_1",
        run_id="run_1",
        call_id="call_1",
        items=items or (QuestionItem("why?"),),
    )


async def run_loop_until(condition: Callable[[], bool]) -> None:
    """Let the event loop run until the condition is true."""
    while not condition():  # noqa: ASYNC110 - the loop is what is tested; nothing sets an event
        await asyncio.sleep(0)
