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
from datetime import datetime

from msgspec.structs import replace

from holdfast.agent.kit import Denied, Kit
from holdfast.agent.protocol import Seat
from holdfast.errors import HoldfastError, ToolError
from holdfast.schema.events import MessageCreated, MessageUpdated
from holdfast.schema.messages import Message, ToolCall, ToolResult
from holdfast.schema.runs import Phase
from holdfast.store import CallOutput
from holdfast.store.writes import AddToolUse, PutCallOutput, PutMessage
from holdfast.tools.protocol import Output

_log = logging.getLogger(__name__)


class StepCalls:
    """The calls of one assistant message, and the tool message that answers them."""

    def __init__(self, seat: Seat, kit: Kit, asked: Message, *, attempt: int) -> None:
        self._seat = seat
        self._kit = kit
        self._asked = asked
        self._attempt = attempt
        self._results: dict[str, ToolResult] = {}
        self._wholes: dict[str, str] = {}
        self._doing: dict[str, tuple[Phase, str]] = {}
        self._announced = False
        self._message = Message(
            id=seat.new_id("msg"),
            session_id=asked.session_id,
            run_id=asked.run_id,
            role="tool",
            seq=0,
            created_at=seat.now(),
        )

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(part for part in self._asked.parts if isinstance(part, ToolCall))

    @property
    def asked(self) -> Message:
        """The assistant's message, with the child sessions that its calls made."""
        return self._asked

    def answered(self) -> Message:
        """The results so far, in the order of their calls."""
        return replace(self._message, parts=self.results())

    def results(self) -> tuple[ToolResult, ...]:
        return tuple(self._results[call.id] for call in self.calls if call.id in self._results)

    def records(self) -> tuple[PutCallOutput | AddToolUse, ...]:
        """Where each call's whole output is, and the day's statistics."""
        day = datetime.fromisoformat(self._seat.now()).date().isoformat()
        session_id, message_id = self._message.session_id, self._message.id
        return tuple(
            write
            for result in self.results()
            for write in (
                PutCallOutput(
                    CallOutput(
                        result.call_id,
                        session_id,
                        self._wholes[result.call_id],
                        size=len(result.text.encode()),
                        message_id=message_id,
                    )
                ),
                AddToolUse(day=day, tool=result.name, failed=int(result.status != "ok")),
            )
        )

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
            return self._kit.toolbox.find(call.name).parallel
        except ToolError:
            return True  # answered with an error at once

    async def _side_by_side(self, calls: Sequence[ToolCall]) -> None:
        room = asyncio.Semaphore(self._kit.bounds.tool_parallel)
        tasks = [asyncio.create_task(self._one(call, room), name=f"tool:{call.id}") for call in calls]
        try:
            for task in tasks:
                await asyncio.shield(task)
        except BaseException:  # a cancel, or a ledger that cannot be written: nothing of the step goes on
            for task in tasks:
                task.cancel()
            await _settled(tasks)
            raise

    async def _one(self, call: ToolCall, room: asyncio.Semaphore) -> None:
        async with room:
            began = time.monotonic()
            try:
                output = await self._attempted(call)
            except ToolError as error:
                output = Output(error.message, status="error")
            finally:
                self._doing.pop(call.id, None)
            await self._keep(call, output, time.monotonic() - began)

    async def _attempted(self, call: ToolCall) -> Output:
        if call.malformed is not None:
            raise ToolError(f"the arguments of {call.name!r} are no JSON object: {call.malformed[:200]!r}")
        tool = self._kit.toolbox.find(call.name)
        arguments = self._kit.toolbox.arguments(tool, call)
        self._show(call, "tool", call.name)
        context = self._kit.bench.context(
            self._seat,
            call,
            emit=self._emitter(call),
            progress=lambda phase: self._show(call, phase, call.name),
            adopted=lambda child: self._adopted(call, child),
        )
        try:
            plan = await tool.plan(arguments, context)
            self._show(call, "tool", f"{call.name}: {plan.subject.title}")
            permission = await self._kit.gate.permit(
                self._seat,
                call,
                plan,
                waiting=lambda: self._show(call, "approval", f"{call.name}: {plan.subject.title}"),
            )
            if isinstance(permission, Denied):
                return Output(permission.text, status="denied", display=plan.display)
            self._show(call, "tool", f"{call.name}: {plan.subject.title}")
            output = await tool.run(arguments, context, plan)
            return output if output.display or not plan.display else replace(output, display=plan.display)
        except (HoldfastError, asyncio.CancelledError):
            raise
        except Exception as error:  # a tool's own fault must not end the run, but must be found
            _log.exception("run %s: the tool %s failed", self._seat.run.id, call.name)
            raise ToolError(f"the tool {call.name!r} failed unexpectedly: {type(error).__name__}") from error

    def _emitter(self, call: ToolCall) -> Callable[[str], None]:
        """The call's live output, told as deltas of its part."""
        part = [part.id if isinstance(part, ToolCall) else None for part in self._asked.parts].index(call.id)

        def emit(text: str) -> None:
            self._seat.delta(
                self._asked.id, part, text=text, of="output", attempt=self._attempt, call_id=call.id, name=call.name
            )

        return emit

    async def _keep(self, call: ToolCall, output: Output, seconds: float) -> None:
        if output.killed or output.left_running:
            self._seat.report(killed=output.killed, left_running=output.left_running)
        self._results[call.id] = ToolResult(
            call_id=call.id,
            name=call.name,
            status=output.status,
            text=self._kit.bench.redact(output.text),
            files=output.files,
            display=output.display,
            duration=round(seconds, 3),
        )
        self._wholes[call.id] = output.whole
        is_last = len(self._results) == len(self.calls)
        if not is_last and self._seat.stopping is None:
            kind = MessageUpdated if self._announced else MessageCreated
            self._announced = True
            message = self.answered()
            event = kind(at=self._seat.now(), session_id=message.session_id, message=message)
            await self._seat.commit([PutMessage(message)], [event])

    async def _adopted(self, call: ToolCall, child_session_id: str) -> None:
        """A call made a child session: everyone can find it from the call."""
        parts = tuple(
            replace(part, child_session_id=child_session_id)
            if isinstance(part, ToolCall) and part.id == call.id
            else part
            for part in self._asked.parts
        )
        self._asked = replace(self._asked, parts=parts)
        event = MessageUpdated(at=self._seat.now(), session_id=self._asked.session_id, message=self._asked)
        await self._seat.commit([PutMessage(self._asked)], [event])

    def _show(self, call: ToolCall, phase: Phase, what: str) -> None:
        """A person who is waited for is more urgent to know than what runs beside."""
        self._doing[call.id] = (phase, what)
        urgent = [doing for doing in self._doing.values() if doing[0] in ("approval", "question")]
        self._seat.progress(*(urgent[0] if urgent else (phase, what)))


async def _settled(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Until all have ended, which tools do within a bound. Further cancels change nothing: one was enough."""
    while pending := [task for task in tasks if not task.done()]:
        with suppress(asyncio.CancelledError):
            await asyncio.wait(pending)
    for task in tasks:
        if not task.cancelled() and (error := task.exception()):
            _log.warning("%s failed while it was being stopped: %r", task.get_name(), error)


def denied(results: Sequence[ToolResult]) -> bool:
    """Whether any of them was denied."""
    return any(result.status == "denied" for result in results)
