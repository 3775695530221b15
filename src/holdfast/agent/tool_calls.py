"""The tool calls of one step: planned, permitted, run, answered. Every call gets exactly one result.

Calls that may run beside each other do, up to a limit; the others wait for all before them. A failure is a result,
never the end of the run. Each call is a task of its own: a cancel goes to all of them, and what they still answer (what
was killed, what lives on) is kept.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from holdfast.agent.model_answer import calls_of
from holdfast.agent.progress import StepProgress
from holdfast.agent.protocol import Child, Spent, TurnHandle
from holdfast.agent.turn_dependencies import Denied, TurnDependencies
from holdfast.agent.unfinished_messages import CANCELLED
from holdfast.agent.usage_guard import UsageGuard
from holdfast.errors import HoldfastError, StoreError, StoreUnwritable, ToolError
from holdfast.schema.events import MessageCreated, MessageUpdated
from holdfast.schema.messages import Message, ResultStatus, ToolCall, ToolResult
from holdfast.schema.usage import Usage
from holdfast.store import CallOutput
from holdfast.store.writes import AddToolUse, PutCallOutput, PutMessage
from holdfast.tools.protocol import ToolOutput

NOT_RUN = "Not run: the run was stopped before this call began."

_log = logging.getLogger(__name__)


class StepCalls:
    """The calls of one assistant message, and the tool message that answers them."""

    def __init__(self, handle: TurnHandle, dependencies: TurnDependencies, asked: Message, *, attempt: int = 1) -> None:
        self._handle = handle
        self._dependencies = dependencies
        self._asked = asked
        self._attempt = attempt
        self.calls = calls_of(asked.parts)
        self._results: dict[str, ToolResult] = {}
        self._wholes: dict[str, str] = {}
        """Files with whole outputs, where there are any."""
        self._begun: set[str] = set()
        """Calls whose tool has been started."""
        self._doing = StepProgress(handle)
        self._children: list[Child] = []
        self._bill = UsageGuard(handle)
        self._announced = False
        self._message = Message(
            id=handle.new_id("msg"),
            session_id=asked.session_id,
            run_id=asked.run_id,
            role="tool",
            seq=0,
            created_at=handle.now(),
        )

    @property
    def asked(self) -> Message:
        """The assistant's message, with the child sessions that its calls made."""
        return self._asked

    def results(self) -> tuple[ToolResult, ...]:
        """So far, in the order of their calls."""
        return tuple(self._results[call.id] for call in self.calls if call.id in self._results)

    def answered(self) -> Message:
        """With the results so far."""
        return replace(self._message, parts=self.results())

    def records(self) -> tuple[PutCallOutput | AddToolUse, ...]:
        """Where each call's whole output is, and the day's statistics."""
        day = self._handle.now()[:10]
        writes: list[PutCallOutput | AddToolUse] = []
        for result in self.results():
            path = self._wholes.get(result.call_id, "")
            size = len(result.text.encode())
            output = CallOutput(result.call_id, self._message.session_id, path, size, message_id=self._message.id)
            writes += [PutCallOutput(output), AddToolUse(day=day, tool=result.name, failed=int(result.status != "ok"))]
        return tuple(writes)

    def closed(self) -> Message:
        """Every call answered, when nothing of the step runs any more: those that were stopped, as stopped."""
        return replace(
            self._message, parts=tuple(self._results.get(call.id) or self._stopped(call) for call in self.calls)
        )

    def spent(self) -> Spent | None:
        """What its sub-agents cost and is not counted yet."""
        usage = sum((child.run.usage for child in self._children if child.run is not None), Usage())
        if usage == Usage() or self._bill.is_paid:
            return None
        return Spent(self._dependencies.model.info.name, usage, steps=0, by_subagent=True)

    async def run(self) -> Message:
        """All calls; the tool message that answers them. Everything but the last result is stored as it comes."""
        for group in self._groups():
            await self._side_by_side(group)
        return self.answered()

    def _groups(self) -> list[list[ToolCall]]:
        """Neighbours that may run in parallel together, every other call alone."""
        groups: list[list[ToolCall]] = []
        together = False
        for call in self.calls:
            parallel = self._may_run_in_parallel(call)
            if parallel and together:
                groups[-1].append(call)
            else:
                groups.append([call])
            together = parallel
        return groups

    def _may_run_in_parallel(self, call: ToolCall) -> bool:
        try:
            return self._dependencies.toolbox.find(call.name).parallel
        except ToolError:
            return True  # answered with an error at once

    async def _side_by_side(self, calls: Sequence[ToolCall]) -> None:
        """Until all have ended. After a cancel, or when the ledger cannot be written, nothing of the step goes on."""
        room = asyncio.Semaphore(self._dependencies.bounds.tool_parallel)
        tasks = [asyncio.create_task(self._one(call, room), name=f"tool:{call.id}") for call in calls]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            await _end(tasks)
        failures = [error for task in tasks if not task.cancelled() and (error := task.exception())]
        if failures:
            raise failures[0]

    async def _one(self, call: ToolCall, room: asyncio.Semaphore) -> None:
        async with room:
            began = time.monotonic()
            try:
                output = await self._attempted(call)
            except (StoreError, StoreUnwritable):
                raise
            except HoldfastError as error:
                output = ToolOutput(error.message, status="error")
            finally:
                self._doing.over(call.id)
            await self._keep(call, output, time.monotonic() - began)

    async def _attempted(self, call: ToolCall) -> ToolOutput:
        if call.malformed is not None:
            raise ToolError(f"the arguments of {call.name!r} are no JSON object: {call.malformed[:200]!r}")
        tool = self._dependencies.toolbox.find(call.name)
        arguments = self._dependencies.toolbox.arguments(tool, call)
        self._doing.now(call.id, "tool", call.name)
        what = call.name
        context = self._dependencies.bench.context(
            self._handle,
            call,
            emit=self._emitter(call),
            progress=lambda phase: self._doing.now(call.id, phase, what),
            adopted=lambda child: self._adopted(call, child),
        )
        try:
            plan = await tool.plan(arguments, context)
            what = f"{call.name}: {self._dependencies.bench.redact(plan.subject.title)}"
            self._doing.now(call.id, "tool", what)
            permission = await self._dependencies.gate.permit(
                self._handle, call, plan, waiting=lambda: self._doing.now(call.id, "approval", what)
            )
            if isinstance(permission, Denied):
                return ToolOutput(permission.text, status="denied", display=plan.display)
            self._doing.now(call.id, "tool", what)
            self._begun.add(call.id)
            output = await tool.run(arguments, context, plan)
            return output if output.display or not plan.display else replace(output, display=plan.display)
        except (HoldfastError, asyncio.CancelledError):
            raise
        except Exception as error:  # a tool's own fault must not end the run, but must be found
            _log.exception("run %s: the tool %s failed", self._handle.run.id, call.name)
            raise ToolError(f"the tool {call.name!r} failed unexpectedly: {type(error).__name__}") from error

    def _emitter(self, call: ToolCall) -> Callable[[str], None]:
        """The call's live output, told as deltas of its part."""
        part = [part.id if isinstance(part, ToolCall) else None for part in self._asked.parts].index(call.id)

        def emit(text: str) -> None:
            self._handle.delta(
                self._asked.id, part, text=text, of="output", attempt=self._attempt, call_id=call.id, name=call.name
            )

        return emit

    async def _keep(self, call: ToolCall, output: ToolOutput, seconds: float) -> None:
        if output.killed or output.left_running:
            self._handle.report(killed=output.killed, left_running=output.left_running)
        redact = self._dependencies.bench.redact
        self._results[call.id] = ToolResult(
            call_id=call.id,
            name=call.name,
            status=output.status,
            text=redact(output.text),
            files=output.files,
            display=_redacted(output.display, redact),
            duration=round(seconds, 3),
        )
        self._wholes[call.id] = output.output_path
        is_last = len(self._results) == len(self.calls)
        if not is_last and self._handle.stopping is None:
            kind = MessageUpdated if self._announced else MessageCreated
            self._announced = True
            message = self.answered()
            event = kind(at=self._handle.now(), session_id=message.session_id, message=message)
            await self._handle.commit([PutMessage(message)], [event])

    async def _adopted(self, call: ToolCall, child: Child) -> None:
        """A call made a child session: everyone can find it from the call."""
        self._children.append(child)
        parts = tuple(
            replace(part, child_session_id=child.session_id)
            if isinstance(part, ToolCall) and part.id == call.id
            else part
            for part in self._asked.parts
        )
        self._asked = replace(self._asked, parts=parts)
        event = MessageUpdated(at=self._handle.now(), session_id=self._asked.session_id, message=self._asked)
        await self._handle.commit([PutMessage(self._asked)], [event])

    def _stopped(self, call: ToolCall) -> ToolResult:
        return stopped(call, CANCELLED if call.id in self._begun else NOT_RUN)


def stopped(call: ToolCall, text: str = NOT_RUN) -> ToolResult:
    """What a call is answered that was stopped before it had a result."""
    status: ResultStatus = "cancelled"
    return ToolResult(call_id=call.id, name=call.name, status=status, text=text)


def denied(results: Sequence[ToolResult]) -> bool:
    """Whether any of them was denied."""
    return any(result.status == "denied" for result in results)


async def _end(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Stops those that still run, which tools do within a bound. Further cancels change nothing: one was enough."""
    for task in tasks:
        task.cancel()
    while pending := [task for task in tasks if not task.done()]:
        with suppress(asyncio.CancelledError):
            await asyncio.wait(pending)
    for task in tasks:
        if not task.cancelled() and (error := task.exception()):
            _log.warning("%s failed: %r", task.get_name(), error)


def _redacted(value: Any, redact: Callable[[str], str]) -> Any:
    """The same value with every text in it redacted."""
    match value:
        case str():
            return redact(value)
        case list() | tuple():
            return [_redacted(item, redact) for item in value]
        case dict():
            return {key: _redacted(item, redact) for key, item in value.items()}
    return value
