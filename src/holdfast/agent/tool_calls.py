"""The tool calls of one step: planned, approved and run. Every call gets exactly one result.

Calls that may run in parallel do, up to a limit; any other call waits for all calls before it. An error is a result and
never ends the run. Each call is a task. A cancel reaches all of them, and the results that they still return (what was
killed, what is left running) are kept.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, fields, replace

from holdfast.agent.call_hooks import CallHooks, plain_arguments
from holdfast.agent.model_answer import UsageGuard, calls_of
from holdfast.agent.protocol import Spent, Subagent, TurnHandle, new_message
from holdfast.agent.turn_dependencies import CallDenied, TurnDependencies
from holdfast.agent.unfinished_messages import CANCELLED
from holdfast.errors import CommitRefused, HoldfastError, OutOfDescriptors, StoreError, ToolError
from holdfast.files import is_out_of_descriptors
from holdfast.schema.approvals import Approval
from holdfast.schema.events import MessageCreated, MessageUpdated
from holdfast.schema.hooks import HookDecision
from holdfast.schema.messages import Message, ToolCall, ToolResult, main_argument
from holdfast.schema.runs import Now, Phase
from holdfast.schema.usage import Usage
from holdfast.store import CallOutput
from holdfast.store.writes import AddToolUse, PutCallOutput, PutMessage
from holdfast.tools.protocol import PreparedCall, ToolOutput

NOT_RUN = "Not run: the run was stopped before this call began."
CUT_OFF = (
    "Not run: your answer reached the output limit, so the arguments of this call are cut off. Send it in smaller "
    "parts, for example the first part of a file with write, and the rest with several edits."
)

_URGENT_PHASES = ("approval", "question")

_log = logging.getLogger(__name__)


class _StepProgress:
    """Reports the progress of a step: a call that waits for the user, else the call whose phase changed last."""

    def __init__(self, handle: TurnHandle) -> None:
        self._handle = handle
        self._by_call: dict[str, Now] = {}
        self._reported: Now | None = None

    def set(self, call_id: str, phase: Phase, what: str) -> None:
        before = self._by_call.get(call_id)
        if before is not None and (before.phase, before.what) == (phase, what):
            return
        self._by_call.pop(call_id, None)
        self._by_call[call_id] = Now(phase, what, self._handle.now())
        self._report()

    def remove(self, call_id: str) -> None:
        if self._by_call.pop(call_id, None) is not None:
            self._report()

    def _report(self) -> None:
        if not self._by_call:
            return
        active = list(self._by_call.values())
        shown = next((now for now in active if now.phase in _URGENT_PHASES), active[-1])
        if shown != self._reported:
            self._reported = shown
            self._handle.progress(shown.phase, shown.what, since=shown.since)


class StepCalls:
    """The calls of one assistant message, and the tool message with their results."""

    def __init__(
        self,
        handle: TurnHandle,
        dependencies: TurnDependencies,
        answer: Message,
        *,
        attempt: int = 1,
        cut_call: str | None = None,
    ) -> None:
        """``cut_call``: the call whose arguments are incomplete because the answer reached the output limit."""
        self._handle = handle
        self._dependencies = dependencies
        self._answer = answer
        self._attempt = attempt
        self._cut_call = cut_call
        self.calls = calls_of(answer.parts)
        self._results: dict[str, ToolResult] = {}
        self._output_paths: dict[str, str] = {}
        """The files with the whole outputs of calls, where there are any."""
        self._started: set[str] = set()
        """The calls whose tool was started."""
        self._prepared: dict[str, PreparedCall | ToolError] = {}
        """The calls as they were understood, or why they were not."""
        self._progress = _StepProgress(handle)
        self._subagents: list[Subagent] = []
        self._denials: list[CallDenied] = []
        self._usage_guard = UsageGuard(handle)
        hooks = dependencies.hooks
        self._hooks = CallHooks(hooks, dependencies.toolbox.prepare) if hooks is not None else None
        self._is_published = False
        self._message = new_message(handle, "tool")

    @property
    def answer(self) -> Message:
        """The assistant message, with the sessions of the sub-agents that its calls started."""
        return self._answer

    def named_calls(self) -> tuple[ToolCall, ...]:
        """Return the calls with our own names of their tools."""
        return tuple(replace(call, name=self._tool_name(call.id)) for call in self.calls)

    def results(self) -> tuple[ToolResult, ...]:
        """Return the results so far, in the order of the calls."""
        return tuple(self._results[call.id] for call in self.calls if call.id in self._results)

    def message(self) -> Message:
        """Return the tool message with the results so far."""
        return replace(self._message, parts=self.results())

    def denials(self) -> tuple[CallDenied, ...]:
        """Return the calls that were denied, also those of sub-agents that nobody could be asked about."""
        ended = [subagent.run for subagent in self._subagents if subagent.run is not None]
        return (
            *self._denials,
            *(
                CallDenied(run.text, cause="unasked", why=f"a sub-agent: {run.error.message}")
                for run in ended
                if run.reason == "denied" and run.error is not None and run.error.code == "denied"
            ),
        )

    @property
    def stop_by_hook(self) -> str:
        """Why a hook ends the run after this step; empty if none does."""
        return self._hooks.stop if self._hooks is not None else ""

    def records(self) -> tuple[PutCallOutput | AddToolUse, ...]:
        """Return the records of the whole outputs, and the statistics of the day."""
        day = self._handle.now()[:10]
        writes: list[PutCallOutput | AddToolUse] = []
        for result in self.results():
            path = self._output_paths.get(result.call_id, "")
            size = len(result.text.encode())
            output = CallOutput(result.call_id, self._message.session_id, path, size, message_id=self._message.id)
            writes += [
                PutCallOutput(output),
                AddToolUse(day=day, tool=self._tool_name(result.call_id), failed=int(result.status != "ok")),
            ]
        return tuple(writes)

    def closed(self) -> Message:
        """Return the tool message with a result for every call, when nothing of the step runs any more."""
        return replace(
            self._message, parts=tuple(self._results.get(call.id) or self._stopped_result(call) for call in self.calls)
        )

    def spent(self) -> Spent | None:
        """Return what its sub-agents cost, unless that is already counted."""
        usage = sum((subagent.run.usage for subagent in self._subagents if subagent.run is not None), Usage())
        if usage == Usage() or self._usage_guard.is_counted:
            return None
        return Spent(self._dependencies.model.info.name, usage, steps=0, by_subagent=True)

    async def run(self) -> Message:
        """Run all calls and return the tool message. All results but the last are stored when they arrive."""
        for group in self._groups():
            await self._run_group(group)
        return self.message()

    def _groups(self) -> list[list[ToolCall]]:
        """Group neighbouring calls that may run in parallel. Every other call is a group of its own."""
        groups: list[list[ToolCall]] = []
        previous_parallel = False
        for call in self.calls:
            parallel = self._may_run_in_parallel(call)
            if parallel and previous_parallel:
                groups[-1].append(call)
            else:
                groups.append([call])
            previous_parallel = parallel
        return groups

    def _may_run_in_parallel(self, call: ToolCall) -> bool:
        prepared = self._prepare(call)
        return True if isinstance(prepared, ToolError) else prepared.tool.parallel  # an error is only a result

    def _prepare(self, call: ToolCall) -> PreparedCall | ToolError:
        found = self._prepared.get(call.id)
        if found is None:
            try:
                found = ToolError(CUT_OFF) if call.id == self._cut_call else self._dependencies.toolbox.prepare(call)
            except ToolError as error:
                found = error
            self._prepared[call.id] = found
        return found

    async def _run_group(self, calls: Sequence[ToolCall]) -> None:
        """Run calls until all have ended. A cancel or a store that cannot be written ends all of them."""
        slots = asyncio.Semaphore(self._dependencies.limits.tool_parallel)
        tasks = [asyncio.create_task(self._run_call(call, slots), name=f"tool:{call.id}") for call in calls]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            await _cancel_all(tasks)
        failures = [error for task in tasks if not task.cancelled() and (error := task.exception())]
        if failures:
            raise failures[0]

    async def _run_call(self, call: ToolCall, slots: asyncio.Semaphore) -> None:
        async with slots:
            started_at = time.monotonic()
            try:
                output = await self._output_of(call)
            except (StoreError, CommitRefused):
                raise
            except HoldfastError as error:
                if is_out_of_descriptors(error):
                    message = "the server has too many open files, so a tool could not run; raise `ulimit -n`"
                    raise OutOfDescriptors(message) from error
                output = ToolOutput(error.message, status="error")
            finally:
                self._progress.remove(call.id)
            if self._hooks is not None:
                await self._run_after_hooks(call, output)
            await self._add_result(call, output, time.monotonic() - started_at)

    async def _output_of(self, call: ToolCall) -> ToolOutput:
        prepared = self._prepare(call)
        if isinstance(prepared, ToolError):
            raise prepared
        self._progress.set(call.id, "tool", prepared.tool.name)
        if self._hooks is None:
            return await self._plan_and_run(call, prepared)
        judged = await self._hooks.before(call, prepared)
        if judged.denial is not None:
            self._denials.append(judged.denial)
            return ToolOutput(judged.denial.text, status="denied")
        self._prepared[call.id] = judged.prepared
        return await self._plan_and_run(call, judged.prepared, hook=judged.decision)

    async def _run_after_hooks(self, call: ToolCall, output: ToolOutput) -> None:
        prepared = self._prepare(call)
        is_over = output.status == "cancelled" or self._handle.stopping is not None
        if self._hooks is not None and call.id in self._started and isinstance(prepared, PreparedCall) and not is_over:
            redacted = replace(output, text=self._dependencies.tool_contexts.redact(output.text))
            await self._hooks.after(call, prepared, redacted)

    async def _plan_and_run(
        self, call: ToolCall, prepared: PreparedCall, *, hook: HookDecision | None = None
    ) -> ToolOutput:
        tool, arguments, _ = prepared
        what = tool.name
        context = self._dependencies.tool_contexts.context(
            self._handle,
            call,
            emit=self._emitter(call),
            progress=lambda phase: self._progress.set(call.id, phase, what),
            on_subagent=lambda subagent: self._add_subagent(call, subagent),
        )
        try:
            plan = await tool.plan(arguments, context)
            what = f"{tool.name}: {self._dependencies.tool_contexts.redact(plan.subject.title)}"
            self._progress.set(call.id, "tool", what)
            asked = call if self._hooks is None else replace(call, arguments=plain_arguments(prepared))
            permission = await self._dependencies.approver.permit(
                self._handle, asked, plan, on_wait=lambda: self._progress.set(call.id, "approval", what), hook=hook
            )
            if self._hooks is not None:
                self._hooks.add_records(call.id, permission.hooks)
            if isinstance(permission, CallDenied):
                self._denials.append(permission)
                output = ToolOutput(permission.text, status="denied", display=plan.display)
                return _with_approval(output, permission.approval)
            self._progress.set(call.id, "tool", what)
            self._started.add(call.id)
            output = await tool.run(arguments, context, replace(plan, read_only=permission.read_only))
            if context.after_edit is not None and (note := await context.after_edit.run(context)):
                output = replace(output, text=f"{output.text}\n{note}")
            shown = output if output.display or not plan.display else replace(output, display=plan.display)
            return _with_approval(shown, permission.approval)
        except (HoldfastError, asyncio.CancelledError):
            raise
        except Exception as error:  # a bug in a tool must not end the run
            _log.exception("run %s: tool %s failed", self._handle.run.id, call.name)
            raise ToolError(f"tool {call.name!r} failed with an unexpected {type(error).__name__}") from error

    def _emitter(self, call: ToolCall) -> Callable[[str], None]:
        """Return a function that publishes the live output of a call."""
        part = [part.id if isinstance(part, ToolCall) else None for part in self._answer.parts].index(call.id)

        def emit(text: str) -> None:
            self._handle.delta(
                self._answer.id, part, text=text, of="output", attempt=self._attempt, call_id=call.id, name=call.name
            )

        return emit

    async def _add_result(self, call: ToolCall, output: ToolOutput, seconds: float) -> None:
        if output.killed or output.left_running:
            self._handle.report(killed=output.killed, left_running=output.left_running)
        redact = self._dependencies.tool_contexts.redact
        self._results[call.id] = ToolResult(
            call_id=call.id,
            name=call.name,
            status=output.status,
            text=redact(self._with_notes(call, output.text)),
            files=output.files,
            display=_redacted(self._display(call, output), redact),
            duration=round(seconds, 3),
        )
        self._output_paths[call.id] = output.output_path
        is_last = len(self._results) == len(self.calls)
        if not is_last and self._handle.stopping is None:
            kind = MessageUpdated if self._is_published else MessageCreated
            self._is_published = True
            message = self.message()
            event = kind(at=self._handle.now(), session_id=message.session_id, message=message)
            await self._handle.commit([PutMessage(message)], [event])

    def _with_notes(self, call: ToolCall, text: str) -> str:
        """Add to a result how the call was understood, if that was not as it was written."""
        prepared = self._prepare(call)
        notes = () if isinstance(prepared, ToolError) else tuple(f"[note: {note}]" for note in prepared.notes)
        if self._hooks is not None:
            notes = (*notes, *self._hooks.notes(call.id))
        return "\n".join([text, *notes]) if notes else text

    def _display(self, call: ToolCall, output: ToolOutput) -> dict[str, Any]:
        """What clients show: with our name of the tool and its main argument, if the call is written otherwise."""
        prepared = self._prepare(call)
        if isinstance(prepared, ToolError):
            return output.display
        shown = output.display if self._hooks is None else {**output.display, **self._hooks.display(call.id)}
        understood: dict[str, Any] = {}
        if prepared.tool.name != call.name:
            understood["tool"] = prepared.tool.name
        title = main_argument(_given(prepared.arguments))
        if title != main_argument(call.arguments) and (title or understood):
            understood["title"] = title
        return {**shown, **understood} if understood else shown

    def _tool_name(self, call_id: str) -> str:
        """Our name of the tool that a call means, or the name in the call if it means none."""
        prepared = self._prepared.get(call_id)
        if prepared is None or isinstance(prepared, ToolError):
            return next(call.name for call in self.calls if call.id == call_id)
        return prepared.tool.name

    async def _add_subagent(self, call: ToolCall, subagent: Subagent) -> None:
        """Store the session of a sub-agent in its call, so that clients can find it."""
        self._subagents.append(subagent)
        parts = tuple(
            replace(part, child_session_id=subagent.session_id)
            if isinstance(part, ToolCall) and part.id == call.id
            else part
            for part in self._answer.parts
        )
        self._answer = replace(self._answer, parts=parts)
        event = MessageUpdated(at=self._handle.now(), session_id=self._answer.session_id, message=self._answer)
        await self._handle.commit([PutMessage(self._answer)], [event])

    def _stopped_result(self, call: ToolCall) -> ToolResult:
        text = CANCELLED if call.id in self._started else NOT_RUN
        return ToolResult(call_id=call.id, name=call.name, status="cancelled", text=text)


def _given(arguments: Any) -> dict[str, Any]:
    """The validated arguments of a call, without those that have their defaults."""
    if not isinstance(arguments, Struct):
        return dict(arguments)
    defaults = _defaults(type(arguments))
    return {name: value for name, value in asdict(arguments).items() if value != defaults.get(name)}


@cache
def _defaults(arguments: type[Struct]) -> dict[str, Any]:
    return {field.name: field.default for field in fields(arguments)}


def _with_approval(output: ToolOutput, approval: Approval | None) -> ToolOutput:
    """Say who approved or denied the call, so that every client can show it."""
    if approval is None or approval.decision is None:
        return output
    by = (approval.answered_by or "").partition("/")[0]
    return replace(output, display={**output.display, "approval": {"decision": approval.decision, "by": by}})


async def _cancel_all(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancel the tasks that still run and wait for all. Tools end within a limit; further cancels are ignored."""
    for task in tasks:
        task.cancel()
    while pending := [task for task in tasks if not task.done()]:
        with suppress(asyncio.CancelledError):
            await asyncio.wait(pending)
    for task in tasks:
        if not task.cancelled() and (error := task.exception()):
            _log.warning("%s failed: %r", task.get_name(), error)


def _redacted(value: Any, redact: Callable[[str], str]) -> Any:
    """Return the value with every text in it redacted."""
    match value:
        case str():
            return redact(value)
        case list() | tuple():
            return [_redacted(item, redact) for item in value]
        case dict():
            return {key: _redacted(item, redact) for key, item in value.items()}
    return value
