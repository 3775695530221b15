"""The turn of a prompt: what happens between `run.started` and `run.finished`.

A step builds the request from the stored messages, streams the answer, runs the tools that it calls, and lets waiting
steers join. Steps repeat until the model calls no more tools. Each step is stored before the next begins, and no step
begins while a call of the step before has no result.
"""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from holdfast.agent.compaction import Compaction
from holdfast.agent.conversation import Conversation
from holdfast.agent.loop_detector import LoopDetector
from holdfast.agent.model_answer import AnswerDraft, ModelAnswer, calls_of
from holdfast.agent.protocol import Ending, Spent, TurnHandle
from holdfast.agent.run_outcome import outcome_of, stopped_outcome
from holdfast.agent.tool_calls import StepCalls
from holdfast.agent.turn_dependencies import TurnDependencies
from holdfast.agent.turn_reminders import TurnReminders
from holdfast.agent.unfinished_messages import finish_reason
from holdfast.errors import HoldfastError, ModelContext
from holdfast.models.pricing import add_cost
from holdfast.models.protocol import ModelRequest, Stop
from holdfast.schema.messages import Message, ToolCall, text_of
from holdfast.schema.runs import BoundaryAnswer, Ended, EndReason, GoOn, Outcome, RunError, StopNow
from holdfast.schema.usage import Usage


class PromptTurn:
    """Answers one prompt, and the prompts that join it."""

    def __init__(self, dependencies: TurnDependencies) -> None:
        self._dependencies = dependencies

    async def run(self, handle: TurnHandle) -> Ending | None:
        turn = _ActiveTurn(handle, self._dependencies)
        seconds = self._dependencies.limits.max_seconds
        deadline = self._dependencies.deadline(seconds or None)
        try:
            async with deadline:
                return await turn.run_steps()
        except TimeoutError:
            if not deadline.expired():
                raise
            return turn.end_at_limit("limit_time", f"the run took longer than {seconds:g} s")
        except asyncio.CancelledError:
            if handle.stopping is None:
                raise
            return turn.end_stopped(handle.stopping)
        except HoldfastError as error:
            return turn.end_failed(error)


class _ActiveTurn:
    """A turn while it runs. Its open draft, calls or compaction are closed by whatever ends the turn."""

    def __init__(self, handle: TurnHandle, dependencies: TurnDependencies) -> None:
        self._handle = handle
        self._dependencies = dependencies
        self._conversation = Conversation(handle, dependencies)
        self._reminders = TurnReminders(handle, dependencies, self._conversation)
        self._loop_detector = LoopDetector()
        self._draft: AnswerDraft | None = None
        self._calls: StepCalls | None = None
        self._compaction: Compaction | None = None
        self._new_calls: tuple[ToolCall, ...] = ()
        """The calls of the last step, until the model is reminded of what happened since."""
        self._last_answer: Message | None = None
        self._last_step_denied = False
        self._compacted_for_overflow = False

    async def run_steps(self) -> Ending | None:
        self._handle.progress("starting")
        await self._conversation.begin()
        while True:
            if self._conversation.is_too_long():
                await self._compact()
            await self._remind()
            try:
                stop = await self._request_answer()
            except ModelContext:
                await self._recover_from_overflow()
                continue
            crossing = await self._finish_step(stop)
            match crossing:
                case Ending():
                    return crossing
                case Ended():
                    return None
                case StopNow(reason):
                    return self.end_stopped(reason)
                case GoOn(joined):
                    if joined:
                        await self._conversation.catch_up()

    async def _remind(self) -> None:
        if self._new_calls:
            await self._reminders.add_due(self._new_calls)
            self._new_calls = ()

    async def _request_answer(self) -> Stop:
        """Request one answer. It is in the draft afterwards."""
        self._draft = AnswerDraft(
            self._handle,
            self._dependencies.model.info.name,
            redactor=self._dependencies.tool_contexts.redact_answer,
        )
        opening = asyncio.create_task(self._open(self._draft), name=f"opening:{self._draft.message.id}")
        request = ModelRequest(
            system=self._conversation.system,
            messages=self._conversation.request_messages(),
            tools=self._dependencies.toolbox.specs,
            effort=self._dependencies.effort,
            output_schema=self._handle.run.output_schema,
            cache_key=self._handle.run.session_id,
        )
        stop = await ModelAnswer(self._handle, self._dependencies).stream_into(self._draft, request, opening=opening)
        self._compacted_for_overflow = False
        return stop

    async def _open(self, draft: AnswerDraft) -> None:
        await draft.open(*self._conversation.opening())
        self._conversation.opened()

    async def _finish_step(self, stop: Stop) -> BoundaryAnswer | Ending:
        """Run the calls of a complete answer, or end the turn."""
        draft = self._draft
        assert draft is not None
        usage = self._usage(draft)
        self._conversation.note_size(usage)
        spent = Spent(self._dependencies.model.info.name, usage)
        if draft.calls() and stop.reason != "refused":
            return await self._run_calls(draft.finished("tool_use", usage=usage), spent, attempt=draft.attempt)
        message = draft.finished("end_turn" if stop.reason == "tool_use" else stop.reason, stop.detail, usage=usage)
        self._take_answer(message)
        outcome = self._outcome(message, stop)
        if outcome.state != "completed" or self._reached_limit(spent):
            return Ending(outcome, messages=(message, *self._results_of_unrun_calls(message)), spent=spent)
        return await self._handle.boundary(outcome=outcome, messages=(message,), spent=spent)

    async def _run_calls(self, message: Message, spent: Spent, *, attempt: int) -> BoundaryAnswer | Ending:
        await self._conversation.store(message, spent=spent)
        self._take_answer(message)
        self._calls = calls = StepCalls(self._handle, self._dependencies, message, attempt=attempt)
        tool_message = await calls.run()
        self._conversation.replace_last(calls.answer)
        self._conversation.append(tool_message)
        self._new_calls = calls.calls
        self._last_step_denied = any(result.status == "denied" for result in calls.results())
        records = calls.records()
        if limit := self._detect_loop(calls) or self._reached_limit(calls.spent()):
            return replace(self.end_at_limit(*limit), writes=records)
        crossing = await self._handle.boundary(messages=(tool_message,), writes=records, spent=calls.spent())
        self._calls = None
        return crossing

    def _take_answer(self, message: Message) -> None:
        self._conversation.append(message)
        self._draft, self._last_answer = None, message

    def _usage(self, draft: AnswerDraft) -> Usage:
        reported = draft.builder.usage
        if reported is None or not reported.context:
            reported = self._conversation.estimate_usage(draft.builder.parts())
        return add_cost(reported, self._dependencies.model.info.price)

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
                    error = RunError(
                        "denied",
                        "a call was denied; allow it with a rule or another --mode",
                    )
                    return Outcome("failed", "denied", text=text, message_id=message.id, error=error)
                return Outcome("completed", "end_turn", text=text, message_id=message.id)

    def _reached_limit(self, uncounted: Spent | None) -> tuple[EndReason, str] | None:
        """Return the limit that forbids another step. ``uncounted`` is added to the usage of the run."""
        run, limits = self._handle.run, self._dependencies.limits
        steps = run.steps + (uncounted.steps if uncounted else 0)
        cost = run.usage.cost + (uncounted.usage.cost if uncounted else 0.0)
        if limits.max_steps and steps >= limits.max_steps:
            return "limit_steps", f"the run took {steps} steps, the limit is {limits.max_steps}"
        if limits.max_cost and cost >= limits.max_cost:
            return "limit_cost", f"the run cost {cost:.2f} US dollars, the limit is {limits.max_cost:.2f}"
        return None

    def _detect_loop(self, calls: StepCalls) -> tuple[EndReason, str] | None:
        repeated = self._loop_detector.add_step(calls.calls, calls.results())
        return None if repeated is None else ("loop", repeated)

    async def _recover_from_overflow(self) -> None:
        """Compact once if the provider says that the context window is full. Give up if that did not help."""
        if self._compacted_for_overflow:
            raise ModelContext("the conversation does not fit the model's context window, even after compaction")
        self._compacted_for_overflow = True
        if self._draft is not None:
            message = self._draft.cut_off("error", "the conversation did not fit the model's context window")
            await self._conversation.store(message)
        self._draft = None
        await self._compact()

    async def _compact(self) -> None:
        self._compaction = Compaction(self._handle, self._dependencies, self._conversation)
        await self._compaction.run()
        self._compaction = None

    def end_at_limit(self, reason: EndReason, detail: str) -> Ending:
        return self._ending(Outcome("failed", reason, error=RunError(reason, detail)))

    def end_failed(self, error: HoldfastError) -> Ending:
        return self._ending(outcome_of(error))

    def end_stopped(self, why: EndReason) -> Ending:
        return self._ending(stopped_outcome(why))

    def _ending(self, outcome: Outcome) -> Ending:
        """Close what is open, and add the text of the last answer."""
        spent = self._uncounted()
        messages: tuple[Message, ...] = ()
        if self._draft is not None:
            detail = outcome.error.message if outcome.error else ""
            finish = finish_reason(outcome.state, outcome.reason)
            message = self._draft.cut_off(finish, detail, usage=spent.usage if spent else None)
            messages = (message, *self._results_of_unrun_calls(message))
        elif self._calls is not None:
            messages = (self._calls.closed(),)
        last = messages[0] if self._draft is not None else self._last_answer
        if last is not None:
            outcome = replace(outcome, text=text_of(last.parts), message_id=last.id)
        return Ending(outcome, messages=messages, spent=spent)

    def _results_of_unrun_calls(self, message: Message) -> tuple[Message, ...]:
        return (StepCalls(self._handle, self._dependencies, message).closed(),) if calls_of(message.parts) else ()

    def _uncounted(self) -> Spent | None:
        """Return the cost of what is open, if it is not counted yet."""
        if open_work := self._calls or self._compaction:
            return open_work.spent()
        draft = self._draft
        if draft is None or draft.usage_guard.is_counted or (draft.builder.usage is None and not draft.builder.parts()):
            return None
        return Spent(self._dependencies.model.info.name, self._usage(draft))
