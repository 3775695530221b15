"""A ledger with one run that asks, a clock that is moved by hand, and doors at which the ledger waits."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from holdfast.approvals.pending import Approvals
from holdfast.ids import Ids
from holdfast.schema.approvals import Approval, Question, QuestionItem
from holdfast.schema.events import ApprovalRequested, Event, QuestionAsked, read_event
from holdfast.store import Store

START = 1_800_000_000.0


class Doors:
    """A ledger whose calls can be held: `hold("commit")`, `arrived("commit")`, `open("commit")`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._held: dict[str, asyncio.Event] = {}
        self._arrivals: defaultdict[str, int] = defaultdict(int)

    def hold(self, name: str) -> None:
        self._held[name] = asyncio.Event()
        self._arrivals[name] = 0

    def open(self, name: str) -> None:
        self._held.pop(name).set()

    async def arrived(self, name: str, *, count: int = 1) -> None:
        await turn_until(lambda: self._arrivals[name] >= count)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name not in {"commit", "approval", "question"}:
            return found

        async def through(*args: Any, **kwargs: Any) -> Any:
            self._arrivals[name] += 1
            if door := self._held.get(name):
                await door.wait()
            return await found(*args, **kwargs)

        return through


class Time:
    """Wall time and timers. Moving the clock wakes no timer by itself: a machine that slept is like that."""

    def __init__(self) -> None:
        self.now = START
        self.timers: list[tuple[float, asyncio.Future[None]]] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        timer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.timers.append((seconds, timer))
        await timer

    async def started(self) -> None:
        """Until a timer waits."""
        await turn_until(lambda: any(not timer.done() for _, timer in self.timers))

    async def pass_by(self, seconds: float) -> None:
        """The clock moves and the timers that wait now end."""
        await self.started()
        self.now += seconds
        for _, timer in self.timers:
            if not timer.done():
                timer.set_result(None)


class Rulebook:
    """Where rules that hold always are saved."""

    def __init__(self) -> None:
        self.saved: list[tuple[str, ...]] = []
        self.problem: Exception | None = None

    async def save(self, rules: tuple[str, ...]) -> None:
        await asyncio.sleep(0)
        if self.problem:
            raise self.problem
        self.saved.append(rules)


class Office:
    """One server's approvals on one ledger."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.doors = Doors(store)
        self.time = Time()
        self.rulebook = Rulebook()
        self.approvals = self.second()

    def second(self) -> Approvals:
        """Another one on the same ledger, as a second server would be."""
        return Approvals(
            self.doors,  # type: ignore[arg-type]
            ids=Ids(clock=self.time.clock),
            clock=self.time.clock,
            save_rules=self.rulebook.save,
            sleep=self.time.sleep,
        )

    def request(self, title: str = "make", *, deadline: float = 0.0, **fields: Any) -> asyncio.Task[Approval]:
        return asyncio.create_task(self.approvals.request(approval(title, **fields), deadline=deadline))

    def ask(self, *items: QuestionItem, deadline: float = 0.0) -> asyncio.Task[Question]:
        return asyncio.create_task(self.approvals.ask(question(*items), deadline=deadline))

    async def opened(self, *, count: int = 1) -> list[Approval]:
        """The open approvals, once there are so many and the server knows that they are committed."""
        for _ in range(10_000):
            found = (await self.store.open_approvals(workspace_id="wsp_1")).items
            if len(found) >= count and await self._are_logged(found):
                return list(found)
        raise AssertionError("the approvals that were waited for did not come")

    async def opened_question(self) -> Question:
        for _ in range(10_000):
            found = (await self.store.open_questions(workspace_id="wsp_1")).items
            if found and await self._are_logged(found):
                return found[0]
        raise AssertionError("the question that was waited for did not come")

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


async def turn_until(condition: Callable[[], bool]) -> None:
    """Lets the loop turn until something is so."""
    for _ in range(100_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("what was waited for did not come")
