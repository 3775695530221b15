"""The work of a fleet under faults: sessions with tools, cancels, steers and approvals, each at a random server.

A request is sent again until it is answered. Each tool call has a file of its own, to which it adds a line when it
begins and one when it is done, so that a call that ran twice is seen.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TypeVar

from holdfast.client import AsyncClient
from holdfast.errors import ClientError, Conflict, InternalError, ServerError
from holdfast.schema.approvals import Approval
from holdfast.schema.runs import END_STATES, Run, RunRequest
from holdfast.schema.sessions import Session
from holdfast.testing import Answer, Call, Hang, Say, text
from tests.e2e.provider import Provider

T = TypeVar("T")

PATIENCE = 120.0
"""Seconds after which a request that is not answered, or a run that does not end, is lost."""


class Patience:
    """A limit for a wait."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._until = asyncio.get_running_loop().time() + PATIENCE

    def check(self) -> None:
        assert asyncio.get_running_loop().time() < self._until, f"waited {PATIENCE} s for {self._what}"


@dataclass(slots=True)
class Place:
    """A directory with sessions."""

    directory: Path
    workspace_id: str
    sessions: list[Session]


@dataclass(slots=True)
class SentRun:
    """A prompt that was accepted, and the tool calls that it may have made."""

    id: str
    seq: int
    calls: list[Path] = field(default_factory=list)
    runs_all: bool = True
    """Whether all calls have run once when it has completed."""
    end: Run | None = None


@dataclass(slots=True)
class CancelledPair:
    """Two runs that were accepted before a cancel, and one that was accepted after its receipt."""

    before: tuple[SentRun, SentRun]
    after: SentRun
    mark: int


class ChaosRound:
    """One round: every session gets work. What happened is kept for the checks."""

    def __init__(self, name: str, client: AsyncClient, provider: Provider, counts: Counter[str]) -> None:
        self.name = name
        self.runs: list[SentRun] = []
        self.cancels: list[CancelledPair] = []
        self._client = client
        self._provider = provider
        self._counts = counts

    def effects(self, place: Place) -> Path:
        return place.directory / "effects" / self.name

    async def work(self, place: Place, number: int, random: Random) -> None:
        """One session's part of the round; which kind of work follows from its number."""
        session = place.sessions[number]
        await asyncio.sleep(random.random())
        match number % 10:
            case 0:
                await self._cancelled(place, session, random)
            case 1:
                await self._approved(place, session, random)
            case 2:
                await self._steered(place, session, random)
            case 3:
                first = await self._send(place, session, self._calls(random))
                second = await self._send(place, session, self._calls(random))
                await self._finish(first, second)
            case _:
                run = await self._send(place, session, self._calls(random))
                await self._finish(run)

    def _calls(self, random: Random) -> list[float]:
        """How long each tool call of a run takes."""
        return [random.uniform(0.05, 0.6) for _ in range(random.randint(1, 3))]

    async def _cancelled(self, place: Place, session: Session, random: Random) -> None:
        """One run that does not end by itself, one that waits, a cancel, and one that it must not touch."""
        long = random.random() < 0.5
        first = await self._send(place, session, [60.0 if long else 0.1], hangs=True)
        second = await self._send(place, session, self._calls(random))
        if random.random() < 0.7:
            await self._until_begun(first)
        patience = Patience(f"a stored cancel of {session.id}")
        while True:  # one that is not stored may be lost with the database; a person would repeat it too
            patience.check()
            receipt = await self.insist("cancel", lambda: self._client.cancel_session(session.id))
            if receipt.durable:
                break
            self._counts["cancels repeated, not stored"] += 1
        third = await self._send(place, session, self._calls(random))
        self._counts["cancels"] += 1
        self.cancels.append(CancelledPair(before=(first, second), after=third, mark=receipt.mark))
        await self._finish(first, second, third)

    async def _until_begun(self, run: SentRun) -> None:
        """Wait until its tool call runs, or the run has ended."""
        patience = Patience(f"the tool call of {run.id}, or its end")
        while not await asyncio.to_thread(run.calls[0].exists):
            patience.check()
            current = await self.insist("run", lambda: self._client.get_run(run.id, wait=0.1))
            if current.state in END_STATES:
                return

    async def _approved(self, place: Place, session: Session, random: Random) -> None:
        """Two clients answer at once, one with yes, one with no. Only one of them may win."""
        run = await self._send(place, session, [0.1], mode="ask", runs_all=False)
        asked = await self._asked(place, run)
        if asked is not None:
            await asyncio.sleep(random.uniform(0.0, 1.0))
            answers = await asyncio.gather(*(self._answer(asked.id, one) for one in ("once", "deny")))
            won = [answer for answer in answers if answer is not None]
            self._counts["approvals answered"] += len(won)
            assert len(won) <= 1, f"both answers to {asked.id} won"
        await self._finish(run)
        if asked is None:
            assert not any(call.exists() for call in run.calls), f"{run.id} did not ask"
            return
        closed = await self.insist("approval", lambda: self._client.approval(asked.id))
        assert closed.state != "open", f"{asked.id} is open after {run.id} has ended"
        ran = run.calls[0].exists()
        assert not ran or closed.decision == "once", f"the call of {run.id} ran, and the answer was {closed.decision}"

    async def _asked(self, place: Place, run: SentRun) -> Approval | None:
        """The approval that the run waits for; None if it ended without one."""
        patience = Patience(f"an approval of {run.id}, or its end")
        while True:
            patience.check()
            page = await self.insist("approvals", lambda: self._client.approvals(place.workspace_id))
            for approval in page.items:
                if approval.run_id == run.id:
                    return approval
            current = await self.insist("run", lambda: self._client.get_run(run.id, wait=0.2))
            if current.state in END_STATES:
                return None

    async def _answer(self, approval_id: str, decision: str) -> Approval | None:
        """None if the other answer was first, or the approval is closed."""
        answer = self._client.answer_approval
        try:
            return await self.insist("answer", lambda: answer(approval_id, decision))  # type: ignore[arg-type]
        except Conflict:
            return None

    async def _steered(self, place: Place, session: Session, random: Random) -> None:
        first = await self._send(place, session, self._calls(random), runs_all=False)
        second = await self._send(place, session, self._calls(random), delivery="steer", runs_all=False)
        await self._finish(first, second)

    async def _send(
        self,
        place: Place,
        session: Session,
        calls: list[float],
        *,
        hangs: bool = False,
        runs_all: bool = True,
        **fields: str,
    ) -> SentRun:
        """Send a prompt with tool calls until it is accepted."""
        run_id = f"{self.name}x{len(self.runs)}"
        run = SentRun(run_id, 0, [self.effects(place) / f"{run_id}c{n}" for n in range(len(calls))], runs_all=runs_all)
        self.runs.append(run)
        answers = [Answer(pieces=(_tool(file, seconds),)) for file, seconds in zip(run.calls, calls, strict=True)]
        last = Answer(pieces=(Say("still here"), Hang())) if hangs else text("done")
        prompt = self._provider.tell(run_id, *answers, last)
        request = RunRequest(prompt=prompt, run_id=run_id, **{"mode": "auto", **fields})  # type: ignore[arg-type]
        accepted = await self.insist("prompt", lambda: self._client.start_run(session.id, request))
        run.seq = accepted.run.seq
        self._counts["accepted"] += 1
        self._counts["tool calls asked for"] += len(calls)
        return run

    async def _finish(self, *runs: SentRun) -> None:
        for run in runs:
            until = asyncio.get_running_loop().time() + PATIENCE
            while run.end is None:
                found = await self.insist("end", lambda run=run: self._client.get_run(run.id, wait=5.0))  # type: ignore[misc]
                if found.state in END_STATES:
                    run.end = found
                    self._counts[f"ended {found.state}"] += 1
                assert asyncio.get_running_loop().time() < until, f"{run.id} never ends: it is {found.state}"

    async def insist(self, what: str, send: Callable[[], Awaitable[T]]) -> T:
        """Send a request to random servers until one has answered it."""
        until = asyncio.get_running_loop().time() + PATIENCE
        while True:
            try:
                async with asyncio.timeout(20):
                    return await send()
            except InternalError:
                raise
            except (ClientError, ServerError, TimeoutError) as error:
                self._counts["requests sent again"] += 1
                if asyncio.get_running_loop().time() > until:
                    raise AssertionError(f"{what} is never answered") from error
                await asyncio.sleep(0.1)


def _tool(file: Path, seconds: float) -> Call:
    name = f"effects/{file.parent.name}/{file.name}"
    return Call("bash", {"command": f"echo begun >> {name}; sleep {seconds:.2f}; echo done >> {name}"})
