"""The turn of a prompt: what happens between `run.started` and `run.finished`.

A step builds the request from the stored messages, streams the answer, runs the tools that it calls, and lets waiting
steers join. Steps repeat until the model calls no more tools. No step begins while a call of the step before has no
result. The results of a step are stored together with the row of the next answer, while the model is asked for it:
before that commit nothing of the answer is shown, and a refused commit closes the request (`R14`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec.structs import replace

from holdfast.agent.compaction import Compaction
from holdfast.agent.conversation import Conversation
from holdfast.agent.loop_detector import LoopDetector
from holdfast.agent.model_answer import AnswerDraft, ModelAnswer, calls_of, finish_opening
from holdfast.agent.protocol import Ending, Spent, StepOpening, TurnHandle, new_message
from holdfast.agent.request_messages import reminder
from holdfast.agent.run_outcome import checked_outcome, denial_error, outcome_of, stopped_outcome
from holdfast.agent.schema_check import validate_answer
from holdfast.agent.tool_calls import StepCalls
from holdfast.agent.turn_dependencies import CallDenied, TurnDependencies
from holdfast.agent.turn_hooks import PromptHooks
from holdfast.agent.turn_reminders import TurnReminders
from holdfast.agent.unfinished_messages import finish_reason
from holdfast.errors import HoldfastError, ModelContext, ModelError
from holdfast.models.pricing import add_cost
from holdfast.models.protocol import ModelRequest, Stop
from holdfast.schema.base import encode
from holdfast.schema.events import MessageFinished
from holdfast.schema.messages import Finish, Message, Notice, Text, ToolCall, text_of
from holdfast.schema.runs import BoundaryAnswer, Ended, EndReason, GoOn, Outcome, RunError, StopNow
from holdfast.schema.usage import Usage
from holdfast.store.writes import AnyWrite, PutMessage

_MAX_CUT_ANSWERS = 5
"""Answers in a row that may reach the model's output limit. The next one ends the run."""
_LIMITS_WITH_LAST_ANSWER = frozenset({"limit_steps", "limit_time"})
_LAST_WORDS = (
    "The run ends now: {limit}. No tool can be called any more. Say in a few sentences what is done, what is not, and "
    "what the next step would be."
)
_REPEATED = (
    "You are going round in circles: {what}. Try another way, or say what you need. If this goes on, the run ends."
)


_CORRECT = (
    "Your answer does not match the JSON Schema that it must have: {problem}. Answer again, with nothing but one JSON "
    "value that matches this schema: {schema}"
)
_MAX_SCHEMA = 20_000
"""Characters of a schema that is repeated in words."""


class PromptTurn:
    """Answers one prompt, and the prompts that join it."""

    def __init__(self, dependencies: TurnDependencies) -> None:
        self._dependencies = dependencies

    async def run(self, handle: TurnHandle) -> Ending | None:
        turn = _ActiveTurn(handle, self._dependencies)
        try:
            return await self._run_in_time(turn)
        except asyncio.CancelledError:
            if handle.stopping is None:
                raise
            return turn.end_stopped(handle.stopping)
        except HoldfastError as error:
            return turn.end_failed(error)

    async def _run_in_time(self, turn: _ActiveTurn) -> Ending | None:
        seconds = self._dependencies.limits.max_seconds
        deadline = self._dependencies.deadline(seconds or None)
        try:
            async with deadline:
                return await turn.run_steps()
        except TimeoutError:
            if not deadline.expired():
                raise
        return await turn.end_at_limit("limit_time", f"the run took longer than {seconds:g} s")


class _OpenedAnswer(NamedTuple):
    """An answer that the model may be asked for, while its row is being committed."""

    draft: AnswerDraft
    opening: asyncio.Task[Any]


class _ActiveTurn:
    """A turn while it runs. Its open draft, calls or compaction are closed by whatever ends the turn."""

    def __init__(self, handle: TurnHandle, dependencies: TurnDependencies) -> None:
        self._handle = handle
        self._dependencies = dependencies
        self._conversation = Conversation(handle, dependencies)
        self._reminders = TurnReminders(handle, dependencies, self._conversation)
        hooks = dependencies.hooks
        self._hooks = PromptHooks(hooks, handle, self._conversation) if hooks is not None else None
        self._loop_detector = LoopDetector()
        self._draft: AnswerDraft | None = None
        self._opened: _OpenedAnswer | None = None
        """The next answer, if its row is committed with the results of the last step."""
        self._calls: StepCalls | None = None
        self._compaction: Compaction | None = None
        self._new_calls: tuple[ToolCall, ...] = ()
        """The calls of the last step, until the model is reminded of what happened since."""
        self._last_answer: Message | None = None
        self._cut_answers = 0
        """Answers in a row that reached the model's output limit."""
        self._cut_text: list[str] = []
        """The texts of those that the latest answer continues."""
        self._continues = False
        """Whether the next answer continues the last one."""
        self._before_last_answer: Outcome | None = None
        """The end without the last answer. Its text counts if the last answer has none."""
        self._is_ending = False
        """Whether the last answer is requested, which is not counted as a step."""
        self._is_corrected = False
        """Whether the model was asked to correct an answer that does not match the schema."""
        self._unasked: CallDenied | None = None
        """The first call that was denied because nobody could be asked."""
        self._denied_last: CallDenied | None = None
        """A call of the last step that was denied, if there was one."""
        self._compacted_for_overflow = False

    async def run_steps(self) -> Ending | None:
        await self._conversation.begin()
        if self._hooks is not None and (ending := await self._hooks.begin()):
            return ending
        while True:
            if self._opened is None:
                if self._conversation.is_too_long():
                    await self._compact()
                await self._remind()
                self._dependencies.toolbox.update()
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
                    if self._hooks is None:
                        self._conversation.keep()
                    return None
                case StopNow(reason):
                    return self.end_stopped(reason)
                case GoOn(joined):
                    if joined:
                        self._conversation.has_joined_runs = True
                        self._cut_text.clear()
                        known = len(self._conversation.prompts)
                        await self._conversation.catch_up()
                        if self._hooks is not None:
                            prompts = self._conversation.prompts[known:]
                            if ending := await self._hooks.judge_prompts(prompts):
                                return ending

    async def _remind(self) -> None:
        if self._new_calls:
            told = await self._reminders.add_due(self._new_calls)
            self._new_calls = ()
            if told is not None:
                self._conversation.store_with_opening(told)

    async def _request_answer(self, *, last_words: str | None = None) -> Stop:
        """Request one answer. It is in the draft afterwards. ``last_words`` asks for a text that ends the run."""
        if self._continues and self._last_answer is not None:
            self._cut_text.append(text_of(self._last_answer.parts))
        self._continues = False
        opened, self._opened = self._opened or self._open_answer(), None
        self._draft = opened.draft
        request = ModelRequest(
            system=self._conversation.system,
            messages=self._conversation.request_messages(),
            tools=self._dependencies.toolbox.specs,
            effort=self._dependencies.effort,
            output_schema=self._handle.run.output_schema,
            cache_key=self._handle.run.session_id,
            converted=self._conversation.converted,
        )
        if last_words is not None:
            asked = new_message(self._handle, "user", (Text(reminder(last_words)),))
            request = replace(request, messages=(*request.messages, asked), may_call=False, output_schema=None)
        answer = ModelAnswer(self._handle, self._dependencies, retry_empty=last_words is None)
        stop = await answer.stream_into(self._draft, request, opening=opened.opening)
        self._compacted_for_overflow = False
        return stop

    def _open_answer(self) -> _OpenedAnswer:
        """Begin to commit the row of the next answer."""
        draft = self._new_draft()
        return _OpenedAnswer(draft, asyncio.create_task(self._open(draft), name=f"opening:{draft.message.id}"))

    async def _open(self, draft: AnswerDraft) -> None:
        writes, events = self._conversation.opening()
        row, created = draft.opening()
        await self._handle.commit([*writes, row], [*events, created])
        self._conversation.opened()

    def _new_draft(self) -> AnswerDraft:
        return AnswerDraft(
            self._handle,
            self._dependencies.model.info.name,
            redactor=self._dependencies.tool_contexts.redact_answer,
        )

    async def _finish_step(self, stop: Stop) -> BoundaryAnswer | Ending:
        """Run the calls of a complete answer, or end the turn."""
        draft = self._draft
        assert draft is not None
        usage = self._usage(draft)
        self._conversation.note_size(usage)
        spent = Spent(self._dependencies.model.info.name, usage)
        is_cut = stop.reason == "max_tokens"
        self._cut_answers = self._cut_answers + 1 if is_cut else 0
        may_go_on = self._cut_answers <= _MAX_CUT_ANSWERS
        if draft.calls() and stop.reason != "refused" and may_go_on:
            cut_call = draft.builder.cut_call() if is_cut else None
            message = draft.finished("max_tokens" if cut_call else "tool_use", usage=usage)
            return await self._run_calls(message, spent, attempt=draft.attempt, cut_call=cut_call)
        message = draft.finished("end_turn" if stop.reason == "tool_use" else stop.reason, stop.detail, usage=usage)
        self._take_answer(message)
        if is_cut and may_go_on:
            return await self._continue_answer(message, spent)
        outcome = self._outcome(message, stop)
        if outcome.state == "completed" and (schema := self._handle.run.output_schema) is not None:
            checked = await validate_answer(schema, outcome.text)
            if checked.problem and not self._is_corrected and not self._reached_limit(spent):
                return await self._correct_answer(message, spent, checked.problem, schema)
            outcome = checked_outcome(outcome, checked)
        if outcome.state != "completed" or self._reached_limit(spent):
            return Ending(outcome, messages=(message, *self._results_of_unrun_calls(message)), spent=spent)
        if self._hooks is not None and self._hooks.listens_to_end:
            return await self._end_with_hooks(self._hooks, outcome, message, spent)
        return await self._handle.boundary(outcome=outcome, messages=(message,), spent=spent)

    async def _end_with_hooks(
        self, hooks: PromptHooks, outcome: Outcome, message: Message, spent: Spent
    ) -> BoundaryAnswer:
        """Let hooks send the model back once. The answer is stored first: a cancel of the hooks must not lose it."""
        await self._conversation.store(message, spent=spent)
        added, goes_on = await hooks.before_end(outcome)
        messages = () if added is None else (added,)
        if not goes_on:
            return await self._handle.boundary(outcome=outcome, messages=messages)
        self._cut_text.clear()
        return await self._handle.boundary(messages=messages)

    async def _correct_answer(
        self, message: Message, spent: Spent, problem: str, schema: dict[str, Any]
    ) -> BoundaryAnswer:
        """Let the model correct an answer that does not match the schema of the run, once."""
        self._is_corrected = True
        self._cut_text.clear()
        shown = encode(schema).decode()
        text = _CORRECT.format(problem=problem, schema=shown if len(shown) <= _MAX_SCHEMA else "the one of the request")
        told = new_message(self._handle, "user", (Notice("output_schema", text, for_model=True),))
        self._conversation.append(told)
        return await self._handle.boundary(messages=(message, told), spent=spent)

    async def _continue_answer(self, message: Message, spent: Spent) -> BoundaryAnswer | Ending:
        """Let the model go on with a text that reached its output limit. The request asks for it."""
        if limit := self._reached_limit(spent):
            await self._conversation.store(message, spent=spent)
            return await self.end_at_limit(*limit)
        crossing = await self._handle.boundary(messages=(message,), spent=spent)
        self._continues = isinstance(crossing, GoOn) and not crossing.joined
        return crossing

    async def _run_calls(
        self, message: Message, spent: Spent, *, attempt: int, cut_call: str | None
    ) -> BoundaryAnswer | Ending:
        await self._conversation.store(message, spent=spent)
        self._take_answer(message)
        self._cut_text.clear()
        self._calls = calls = StepCalls(self._handle, self._dependencies, message, attempt=attempt, cut_call=cut_call)
        tool_message = await calls.run()
        self._conversation.replace_last(calls.answer)
        self._conversation.append(tool_message)
        self._new_calls = calls.named_calls()
        denials = calls.denials()
        self._denied_last = denials[0] if denials else None
        self._unasked = self._unasked or next((one for one in denials if one.cause == "unasked"), None)
        records = calls.records()
        if calls.stop_by_hook:
            return await self.end_at_limit("denied", calls.stop_by_hook, writes=records)
        repetition = self._loop_detector.add_step(calls.named_calls(), calls.results())
        if repetition is not None and repetition.over:
            return await self.end_at_limit("loop", repetition.text, writes=records)
        if limit := self._reached_limit(calls.spent()):
            return await self.end_at_limit(*limit, writes=records)
        messages = [tool_message]
        if repetition is not None:
            told = Notice("loop", _REPEATED.format(what=repetition.text), for_model=True)
            messages.append(new_message(self._handle, "user", (told,)))
            self._conversation.append(messages[-1])
        if calls.spent() is None and not self._conversation.is_too_long():
            return await self._go_on(messages, records)
        crossing = await self._handle.boundary(messages=messages, writes=records, spent=calls.spent())
        self._calls = None
        return crossing

    async def _go_on(self, messages: list[Message], records: tuple[AnyWrite, ...]) -> BoundaryAnswer:
        """Store the results of a step and the row of the next answer in one commit.

        If nothing joins, this returns before the commit, so that the model is asked meanwhile.
        """
        told = await self._reminders.add_due(self._new_calls)
        self._new_calls = ()
        if told is not None:
            messages.append(told)
        self._dependencies.toolbox.update()
        draft, decided = self._new_draft(), asyncio.Event()
        crossing = self._cross(draft, messages, records, on_decided=decided.set)
        opening = asyncio.create_task(crossing, name=f"opening:{draft.message.id}")
        opening.add_done_callback(lambda _: decided.set())
        try:
            await decided.wait()
        except asyncio.CancelledError:
            await finish_opening(opening)
            raise
        answer = opening.result() if opening.done() else GoOn()
        if answer == GoOn():
            self._opened = _OpenedAnswer(draft, opening)
        return answer

    async def _cross(
        self,
        draft: AnswerDraft,
        messages: list[Message],
        records: tuple[AnyWrite, ...],
        *,
        on_decided: Callable[[], None],
    ) -> BoundaryAnswer:
        writes, events = self._conversation.opening()
        row, created = draft.opening()
        opening = StepOpening((*writes, row), (*events, created), on_decided)
        answer = await self._handle.boundary(messages=messages, writes=records, opening=opening)
        self._calls = None
        if answer == GoOn():
            self._conversation.opened()
        return answer

    def _take_answer(self, message: Message) -> None:
        self._conversation.append(message)
        self._draft, self._last_answer = None, message

    def _usage(self, draft: AnswerDraft) -> Usage:
        reported = draft.builder.usage
        if reported is None or not reported.context:
            reported = self._conversation.estimate_usage(draft.builder.parts())
        return add_cost(reported, self._dependencies.model.info.price)

    def _outcome(self, message: Message, stop: Stop) -> Outcome:
        text = "".join((*self._cut_text, text_of(message.parts)))
        match stop.reason:
            case "refused":
                error = RunError("refused", stop.detail or "the model refused to answer")
                return Outcome("failed", "refused", text=text, message_id=message.id, error=error)
            case "max_tokens":
                times = f"{self._cut_answers} answers in a row reached the model's output limit"
                error = RunError("max_tokens", f"{times}; the last one is cut off")
                return Outcome("failed", "max_tokens", text=text, message_id=message.id, error=error)
            case "end_turn" | "tool_use":
                outcome = Outcome("completed", "end_turn", text=text, message_id=message.id)
                denied_last = None if self._handle.run.interactive else self._denied_last
                denied = denial_error(self._unasked, denied_last)
                return outcome if denied is None else replace(outcome, state="failed", reason="denied", error=denied)

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

    async def end_at_limit(self, reason: EndReason, detail: str, *, writes: tuple[AnyWrite, ...] = ()) -> Ending:
        """Close what is open. At a limit of steps or time the model then says where things stand."""
        outcome = Outcome("failed", reason, error=RunError(reason, detail))
        if self._is_ending:
            return self._ending(outcome)
        ending = replace(self._ending(outcome), writes=writes)
        has_begun = self._conversation.system and self._compaction is None
        seconds = self._dependencies.limits.last_answer_seconds
        if reason not in _LIMITS_WITH_LAST_ANSWER or not has_begun or not seconds:
            return ending
        await self._store_ending(ending)
        self._is_ending = True
        self._before_last_answer = ending.outcome
        deadline = self._dependencies.deadline(seconds)
        try:
            async with deadline:
                await self._request_answer(last_words=_LAST_WORDS.format(limit=detail))
        except TimeoutError:
            if not deadline.expired():
                raise
            return self._ending(outcome)
        except ModelError:
            return self._ending(outcome)
        return self._end_with_last_answer(outcome)

    async def _store_ending(self, ending: Ending) -> None:
        """Store what an ending closes, because the run goes on for one more answer."""
        at, session_id = self._handle.now(), self._handle.run.session_id
        writes = [*(PutMessage(message) for message in ending.messages), *ending.writes]
        events = [MessageFinished(at=at, session_id=session_id, message=message) for message in ending.messages]
        if writes:
            await self._handle.commit(writes, events, spent=ending.spent)
        for message in ending.messages:
            self._conversation.append_missing(message)
        self._draft = self._calls = None
        self._cut_text.clear()

    def _end_with_last_answer(self, outcome: Outcome) -> Ending:
        draft = self._draft
        assert draft is not None
        assert outcome.error is not None
        spent = replace(Spent(self._dependencies.model.info.name, self._usage(draft)), steps=0)
        parts = tuple(part for part in draft.builder.parts() if not isinstance(part, ToolCall))
        message = replace(draft.message, parts=(*parts, Finish("limit", outcome.error.message)), usage=spent.usage)
        return Ending(self._with_text(outcome, message), messages=(message,), spent=spent)

    def end_failed(self, error: HoldfastError) -> Ending:
        return self._ending(outcome_of(error))

    def end_stopped(self, why: EndReason) -> Ending:
        return self._ending(stopped_outcome(why))

    def _ending(self, outcome: Outcome) -> Ending:
        """Close what is open, and add the text of the last answer."""
        spent = self._uncounted()
        messages = () if self._calls is None else (self._calls.closed(),)
        last = self._last_answer
        if self._draft is not None:
            detail = outcome.error.message if outcome.error else ""
            finish = finish_reason(outcome.state, outcome.reason)
            last = self._draft.cut_off(finish, detail, usage=spent.usage if spent else None)
            messages = (*messages, last, *self._results_of_unrun_calls(last))
        if last is not None:
            outcome = self._with_text(outcome, last)
        # A step begins when the one before is closed, so only the answer that is streamed is open.
        closes_all = self._draft is not None and self._calls is None
        return Ending(outcome, messages=messages, spent=spent, closes_all=closes_all)

    def _with_text(self, outcome: Outcome, last: Message) -> Outcome:
        text, before = "".join((*self._cut_text, text_of(last.parts))), self._before_last_answer
        if not text.strip() and before is not None:
            return replace(outcome, text=before.text, message_id=before.message_id)
        return replace(outcome, text=text, message_id=last.id)

    def _results_of_unrun_calls(self, message: Message) -> tuple[Message, ...]:
        return (StepCalls(self._handle, self._dependencies, message).closed(),) if calls_of(message.parts) else ()

    def _uncounted(self) -> Spent | None:
        """Return the cost of what is open, if it is not counted yet."""
        if open_work := self._calls or self._compaction:
            return open_work.spent()
        draft = self._draft
        if draft is None or draft.usage_guard.is_counted or (draft.builder.usage is None and not draft.builder.parts()):
            return None
        return Spent(self._dependencies.model.info.name, self._usage(draft), steps=0 if self._is_ending else 1)
