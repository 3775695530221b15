"""A turn: what happens between `run.started` and `run.finished` of a prompt.

Look around → until the model has nothing more to ask for: build the request from the stored messages, stream the
answer, run the tools it asks for, let waiting steers join. Each step is stored before the next begins, and no step
begins while a call of the step before has no result. Limits, retries and compaction happen inside, in the open.
"""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from holdfast.agent.answer import Asking, Draft
from holdfast.agent.calls import StepCalls, denied
from holdfast.agent.closing import finish_reason
from holdfast.agent.conversation import Conversation
from holdfast.agent.failures import outcome_of
from holdfast.agent.kit import Kit
from holdfast.agent.loops import LoopDetector
from holdfast.agent.protocol import Crossing, Ended, Ending, GoOn, Seat, Spent, StopNow
from holdfast.agent.summary import Summarizer
from holdfast.errors import HoldfastError, ModelContext
from holdfast.models.pricing import priced
from holdfast.models.protocol import Request, Stop
from holdfast.schema.messages import Message, text_of
from holdfast.schema.runs import EndReason, EndState, Outcome, RunError
from holdfast.schema.usage import Usage


class PromptTurn:
    """Answers one prompt, and whoever joins it."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    async def run(self, seat: Seat) -> Ending | None:
        work = _Work(seat, self._kit)
        seconds = self._kit.bounds.max_seconds
        clock = asyncio.timeout(seconds or None)
        try:
            async with clock:
                return await work.steps()
        except TimeoutError:
            if not clock.expired():
                raise
            return work.over("failed", "limit_time", f"it took longer than {seconds:g} s")
        except asyncio.CancelledError:
            if seat.stopping is None:
                raise
            return work.stopped(seat.stopping)
        except HoldfastError as error:
            return work.failed(error)


class _Work:
    """The turn while it runs: what is open is what a cancel finds."""

    def __init__(self, seat: Seat, kit: Kit) -> None:
        self._seat = seat
        self._kit = kit
        self._talk = Conversation(seat, kit)
        self._loops = LoopDetector()
        self._draft: Draft | None = None
        self._calls: StepCalls | None = None
        self._last: Message | None = None
        self._last_step_denied = False
        self._asked_to_shorten = False

    async def steps(self) -> Ending | None:
        self._seat.progress("starting")
        await self._talk.begin()
        while True:
            if limit := self._limit_reached():
                return self.over("failed", *limit)
            if self._talk.is_too_long():
                await self._summarize()
            try:
                stop = await self._ask()
            except ModelContext:
                await self._recover_from_overflow()
                continue
            crossing = await self._after(stop)
            match crossing:
                case Ending():
                    return crossing
                case Ended():
                    return None
                case StopNow(why):
                    return self.stopped(why)
                case GoOn(joined):
                    if joined:
                        await self._talk.catch_up()

    async def _ask(self) -> Stop:
        """One model request; its answer is in the draft."""
        self._draft = Draft(self._seat, self._kit.model.info.name)
        await self._draft.open()
        request = Request(
            system=self._talk.head,
            messages=self._talk.request_messages(),
            tools=self._kit.toolbox.specs,
            effort=self._kit.effort,
            output_schema=self._seat.run.output_schema,
            cache_key=self._seat.run.session_id,
        )
        stop = await Asking(self._seat, self._kit.model).ask(self._draft, request)
        self._asked_to_shorten = False
        return stop

    async def _after(self, stop: Stop) -> Crossing | Ending:
        """The answer is complete: run what it asks for, or end."""
        draft = self._draft
        assert draft is not None
        calls = draft.calls()
        usage = self._usage(draft)
        spent = Spent(self._kit.model.info.name, usage)
        if calls and stop.reason != "refused":
            message = draft.finished("tool_use", usage=usage)
            return await self._run_calls(message, spent, attempt=draft.attempt)
        message = draft.finished(stop.reason, stop.detail, usage=usage)
        self._take(message)
        outcome = self._outcome(message, stop)
        if outcome.state != "completed":
            return Ending(outcome, messages=(message,), spent=spent)
        return await self._seat.boundary(outcome=outcome, messages=(message,), spent=spent)

    async def _run_calls(self, message: Message, spent: Spent, *, attempt: int) -> Crossing | Ending:
        await self._talk.store(message, spent=spent)
        self._take(message)
        self._calls = calls = StepCalls(self._seat, self._kit, message, attempt=attempt)
        answers = await calls.run()
        self._talk.replace_last(calls.asked)
        self._talk.append(answers)
        self._calls = None
        self._last_step_denied = denied(calls.results())
        if loop := self._loops.step(calls.calls, calls.results()):
            ending = self.over("failed", "loop", loop)
            return Ending(ending.outcome, messages=(answers,), writes=calls.records())
        return await self._seat.boundary(messages=(answers,), writes=calls.records())

    def _take(self, message: Message) -> None:
        self._talk.append(message)
        self._draft, self._last = None, message

    def _usage(self, draft: Draft) -> Usage:
        told = draft.fold.usage
        counted = told if told is not None else self._talk.estimated_usage(draft.fold.parts())
        self._talk.note_size(counted)
        return priced(counted, self._kit.model.info.price)

    def _outcome(self, message: Message, stop: Stop) -> Outcome:
        text = text_of(message.parts)
        match stop.reason:
            case "refused":
                error = RunError("refused", stop.detail or "the model refused to answer")
                return Outcome("failed", "refused", text=text, message_id=message.id, error=error)
            case "max_tokens":
                error = RunError("max_tokens", "the answer reached the model's output limit and is cut off")
                return Outcome("failed", "max_tokens", text=text, message_id=message.id, error=error)
            case "end_turn" | "tool_use":
                if self._last_step_denied and not self._seat.run.interactive:
                    error = RunError("denied", "a call was denied and nobody could be asked; see --mode and the rules")
                    return Outcome("failed", "denied", text=text, message_id=message.id, error=error)
                return Outcome("completed", "end_turn", text=text, message_id=message.id)

    def _limit_reached(self) -> tuple[EndReason, str] | None:
        run, bounds = self._seat.run, self._kit.bounds
        if bounds.max_steps and run.steps >= bounds.max_steps:
            return "limit_steps", f"it took {run.steps} steps, as many as allowed"
        if bounds.max_cost and run.usage.cost >= bounds.max_cost:
            return "limit_cost", f"it cost {run.usage.cost:.2f} dollars, the limit is {bounds.max_cost:.2f}"
        return None

    async def _recover_from_overflow(self) -> None:
        """The provider says the window is full: shorten once, and give up when that did not help."""
        if self._asked_to_shorten:
            raise ModelContext("the conversation does not fit the model's window, even after a summary")
        self._asked_to_shorten = True
        await self._talk.discard(self._draft)
        self._draft = None
        await self._summarize()

    async def _summarize(self) -> None:
        await Summarizer(self._seat, self._kit, self._talk).run()

    def over(self, state: EndState, reason: EndReason, detail: str) -> Ending:
        """An end that is not the model's own."""
        return self._ending(Outcome(state, reason, error=RunError(reason, detail)))

    def failed(self, error: HoldfastError) -> Ending:
        return self._ending(outcome_of(error))

    def stopped(self, why: EndReason) -> Ending:
        return self._ending(Outcome("interrupted" if why == "server_stop" else "cancelled", why))

    def _ending(self, outcome: Outcome) -> Ending:
        """With what is still open, closed as it stands, and the last words that were said."""
        messages = self._open_messages(outcome)
        last = next((message for message in messages if message.role == "assistant"), self._last)
        if last is not None:
            outcome = replace(outcome, text=text_of(last.parts), message_id=last.id)
        return Ending(outcome, messages=messages, spent=self._spent_so_far())

    def _open_messages(self, outcome: Outcome) -> tuple[Message, ...]:
        """Calls without a result are answered by whoever ends the run."""
        if self._draft is not None:
            detail = outcome.error.message if outcome.error else ""
            return (self._draft.cut_off(finish_reason(outcome.state, outcome.reason), detail),)
        if self._calls is not None and self._calls.results():
            return (self._calls.answered(),)
        return ()

    def _spent_so_far(self) -> Spent | None:
        if self._draft is None or self._draft.fold.usage is None:
            return None
        return Spent(self._kit.model.info.name, priced(self._draft.fold.usage, self._kit.model.info.price))
