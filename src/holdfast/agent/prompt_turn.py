"""A turn: what happens between `run.started` and `run.finished` of a prompt.

Look around → until the model has nothing more to ask for: build the request from the stored messages, stream the
answer, run the tools it asks for, let waiting steers join. Each step is stored before the next begins, and no step
begins while a call of the step before has no result. Limits, retries and compaction happen inside, in the open.
"""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from holdfast.agent.conversation import Conversation
from holdfast.agent.loop_detector import LoopDetector
from holdfast.agent.model_answer import Draft, ModelAnswer, calls_of
from holdfast.agent.protocol import Crossing, Ended, Ending, GoOn, Spent, StopNow, TurnHandle
from holdfast.agent.run_outcome import outcome_of, stopped
from holdfast.agent.summarizer import Summarizer
from holdfast.agent.tool_calls import StepCalls, denied
from holdfast.agent.turn_dependencies import TurnDependencies
from holdfast.agent.unfinished_messages import finish_reason
from holdfast.errors import HoldfastError, ModelContext
from holdfast.models.pricing import priced
from holdfast.models.protocol import ModelRequest, Stop
from holdfast.schema.messages import Message, text_of
from holdfast.schema.runs import EndReason, Outcome, RunError
from holdfast.schema.usage import Usage


class PromptTurn:
    """Answers one prompt, and whoever joins it."""

    def __init__(self, dependencies: TurnDependencies) -> None:
        self._dependencies = dependencies

    async def run(self, handle: TurnHandle) -> Ending | None:
        work = _Work(handle, self._dependencies)
        seconds = self._dependencies.bounds.max_seconds
        clock = self._dependencies.deadline(seconds or None)
        try:
            async with clock:
                return await work.steps()
        except TimeoutError:
            if not clock.expired():
                raise
            return work.over("limit_time", f"it took longer than {seconds:g} s")
        except asyncio.CancelledError:
            if handle.stopping is None:
                raise
            return work.stopped(handle.stopping)
        except HoldfastError as error:
            return work.failed(error)


class _Work:
    """The turn while it runs: what is open is what a cancel finds."""

    def __init__(self, handle: TurnHandle, dependencies: TurnDependencies) -> None:
        self._handle = handle
        self._dependencies = dependencies
        self._talk = Conversation(handle, dependencies)
        self._loops = LoopDetector()
        self._draft: Draft | None = None
        self._calls: StepCalls | None = None
        self._summary: Summarizer | None = None
        self._last: Message | None = None
        self._last_step_denied = False
        self._asked_to_shorten = False

    async def steps(self) -> Ending | None:
        self._handle.progress("starting")
        await self._talk.begin()
        while True:
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
        self._draft = Draft(self._handle, self._dependencies.model.info.name)
        await self._draft.open(*self._talk.opening())
        self._talk.opened()
        request = ModelRequest(
            system=self._talk.head,
            messages=self._talk.request_messages(),
            tools=self._dependencies.toolbox.specs,
            effort=self._dependencies.effort,
            output_schema=self._handle.run.output_schema,
            cache_key=self._handle.run.session_id,
        )
        stop = await ModelAnswer(self._handle, self._dependencies).ask(self._draft, request)
        self._asked_to_shorten = False
        return stop

    async def _after(self, stop: Stop) -> Crossing | Ending:
        """The answer is complete: run what it asks for, or end."""
        draft = self._draft
        assert draft is not None
        usage = self._usage(draft)
        self._talk.note_size(usage)
        spent = Spent(self._dependencies.model.info.name, usage)
        if draft.calls() and stop.reason != "refused":
            return await self._run_calls(draft.finished("tool_use", usage=usage), spent, attempt=draft.attempt)
        message = draft.finished("end_turn" if stop.reason == "tool_use" else stop.reason, stop.detail, usage=usage)
        self._take(message)
        outcome = self._outcome(message, stop)
        if outcome.state != "completed" or self._limit_reached(spent):
            return Ending(outcome, messages=(message, *self._never_run(message)), spent=spent)
        return await self._handle.boundary(outcome=outcome, messages=(message,), spent=spent)

    async def _run_calls(self, message: Message, spent: Spent, *, attempt: int) -> Crossing | Ending:
        await self._talk.store(message, spent=spent)
        self._take(message)
        self._calls = calls = StepCalls(self._handle, self._dependencies, message, attempt=attempt)
        answers = await calls.run()
        results = calls.results()
        self._talk.replace_last(calls.asked)
        self._talk.append(answers)
        self._last_step_denied = denied(results)
        records = calls.records()
        if limit := self._loop(calls) or self._limit_reached(calls.spent()):
            return replace(self.over(*limit), writes=records)
        crossing = await self._handle.boundary(messages=(answers,), writes=records, spent=calls.spent())
        self._calls = None
        return crossing

    def _take(self, message: Message) -> None:
        self._talk.append(message)
        self._draft, self._last = None, message

    def _usage(self, draft: Draft) -> Usage:
        told = draft.fold.usage
        counted = told if told is not None and told.context else self._talk.estimated_usage(draft.fold.parts())
        return priced(counted, self._dependencies.model.info.price)

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
                if self._last_step_denied and not self._handle.run.interactive:
                    error = RunError("denied", "a call was denied and nobody could be asked; see --mode and the rules")
                    return Outcome("failed", "denied", text=text, message_id=message.id, error=error)
                return Outcome("completed", "end_turn", text=text, message_id=message.id)

    def _limit_reached(self, also: Spent | None = None) -> tuple[EndReason, str] | None:
        """What forbids another step, with what is spent ``also`` and not counted yet."""
        run, bounds = self._handle.run, self._dependencies.bounds
        steps = run.steps + (also.steps if also else 0)
        cost = run.usage.cost + (also.usage.cost if also else 0.0)
        if bounds.max_steps and steps >= bounds.max_steps:
            return "limit_steps", f"it took {steps} steps, as many as allowed"
        if bounds.max_cost and cost >= bounds.max_cost:
            return "limit_cost", f"it cost {cost:.2f} dollars, the limit is {bounds.max_cost:.2f}"
        return None

    def _loop(self, calls: StepCalls) -> tuple[EndReason, str] | None:
        repeated = self._loops.step(calls.calls, calls.results())
        return None if repeated is None else ("loop", repeated)

    async def _recover_from_overflow(self) -> None:
        """The provider says the window is full: shorten once, and give up when that did not help."""
        if self._asked_to_shorten:
            raise ModelContext("the conversation does not fit the model's window, even after a summary")
        self._asked_to_shorten = True
        if self._draft is not None:
            await self._talk.store(self._draft.cut_off("error", "the conversation did not fit the model's window"))
        self._draft = None
        await self._summarize()

    async def _summarize(self) -> None:
        self._summary = Summarizer(self._handle, self._dependencies, self._talk)
        await self._summary.run()
        self._summary = None

    def over(self, reason: EndReason, detail: str) -> Ending:
        """A limit ends it."""
        return self._ending(Outcome("failed", reason, error=RunError(reason, detail)))

    def failed(self, error: HoldfastError) -> Ending:
        return self._ending(outcome_of(error))

    def stopped(self, why: EndReason) -> Ending:
        return self._ending(stopped(why))

    def _ending(self, outcome: Outcome) -> Ending:
        """With what is still open, closed as it stands, and the last words that were said."""
        spent = self._not_counted_yet()
        messages: tuple[Message, ...] = ()
        if self._draft is not None:
            detail = outcome.error.message if outcome.error else ""
            finish = finish_reason(outcome.state, outcome.reason)
            message = self._draft.cut_off(finish, detail, usage=spent.usage if spent else None)
            messages = (message, *self._never_run(message))
        elif self._calls is not None:
            messages = (self._calls.closed(),)
        last = messages[0] if self._draft is not None else self._last
        if last is not None:
            outcome = replace(outcome, text=text_of(last.parts), message_id=last.id)
        return Ending(outcome, messages=messages, spent=spent)

    def _never_run(self, message: Message) -> tuple[Message, ...]:
        """Calls that nobody ran, answered."""
        return (StepCalls(self._handle, self._dependencies, message).closed(),) if calls_of(message.parts) else ()

    def _not_counted_yet(self) -> Spent | None:
        """Of what is open."""
        if open_work := self._calls or self._summary:
            return open_work.spent()
        draft = self._draft
        if draft is None or draft.bill.is_paid or (draft.fold.usage is None and not draft.fold.parts()):
            return None
        return Spent(self._dependencies.model.info.name, self._usage(draft))
