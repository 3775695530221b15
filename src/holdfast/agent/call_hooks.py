"""What hooks say about the tool calls of one step: before a call is planned, and after it ran.

An input that a hook replaced is judged again from the start: all hooks see it, and then the rules and the user. Hooks
that never agree on an input deny the call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from holdfast.agent.turn_dependencies import CallDenied, TurnHooks
from holdfast.errors import ToolError
from holdfast.schema.base import encode
from holdfast.schema.hooks import HookDecision, HookRecord, HookVerdict
from holdfast.schema.messages import ToolCall
from holdfast.tools.protocol import PreparedCall, ToolOutput

_MAX_ROUNDS = 3
"""How often the hooks are asked about one call."""
_MAX_INPUT = 2_000
"""Characters of a changed input that are repeated to the model."""
_MAX_OUTPUT = 100_000
"""Characters of a result that hooks get."""


class JudgedCall(NamedTuple):
    """A call as the hooks left it."""

    prepared: PreparedCall
    decision: HookDecision | None = None
    """``ask``: the user must be asked. ``allow``: the call needs no approval that the mode ``auto`` would give."""
    denial: CallDenied | None = None


class CallHooks:
    """The hooks of the calls of one step."""

    def __init__(self, hooks: TurnHooks, prepare: Callable[[ToolCall], PreparedCall]) -> None:
        """``prepare`` reads a call whose input a hook replaced. It raises `ToolError`."""
        self._hooks = hooks
        self._read_call = prepare
        self._records: dict[str, list[HookRecord]] = {}
        self._notes: dict[str, list[str]] = {}
        self.stop = ""
        """Why a hook ends the run."""

    def notes(self, call_id: str) -> Sequence[str]:
        """What the model is told beside the result."""
        return self._notes.get(call_id, ())

    def display(self, call_id: str) -> dict[str, Any]:
        """What clients show: the hooks that ran."""
        self.add_records(call_id, self._hooks.take_notified(call_id))
        records = self._records.get(call_id)
        return {"hooks": [msgspec.to_builtins(record) for record in records]} if records else {}

    def add_records(self, call_id: str, records: Sequence[HookRecord]) -> None:
        if records:
            self._records.setdefault(call_id, []).extend(records)

    async def before(self, call: ToolCall, prepared: PreparedCall) -> JudgedCall:
        """Let the hooks judge a call."""
        if not self._hooks.listens("before_tool"):
            return JudgedCall(prepared)
        asked = False
        first = given = plain_arguments(prepared)
        for _ in range(_MAX_ROUNDS):
            name = prepared.tool.name
            verdict = await self._hooks.run("before_tool", tool=name, input=given, call_id=call.id)
            self._take(call.id, verdict)
            if verdict.decision == "deny" or verdict.stop:
                return JudgedCall(prepared, denial=_denial(verdict.reason or verdict.stop))
            asked = asked or verdict.decision == "ask"
            if verdict.input is None or verdict.input == given:
                return self._judged(call.id, prepared, "ask" if asked else verdict.decision, is_new=given != first)
            prepared = self._prepare(call, name, verdict.input)
            if (changed := plain_arguments(prepared)) == given:
                return self._judged(call.id, prepared, "ask" if asked else verdict.decision, is_new=given != first)
            given = changed
        return JudgedCall(prepared, denial=_denial("the hooks do not agree on the input of the call"))

    async def after(self, call: ToolCall, prepared: PreparedCall, output: ToolOutput) -> None:
        """Let the hooks see a result. A cancel ends them and keeps the result."""
        if not self._hooks.listens("after_tool"):
            return
        try:
            verdict = await self._hooks.run(
                "after_tool",
                tool=prepared.tool.name,
                input=plain_arguments(prepared),
                call_id=call.id,
                status=output.status,
                output=output.text[:_MAX_OUTPUT],
            )
        except asyncio.CancelledError:  # the call has its result; the task of the call ends with it
            return
        self._take(call.id, verdict)
        if verdict.decision == "deny":
            self._notes.setdefault(call.id, []).append(f"[{verdict.reason}]")

    def _take(self, call_id: str, verdict: HookVerdict) -> None:
        self.add_records(call_id, verdict.records)
        if verdict.context:
            self._notes.setdefault(call_id, []).append(f"[{verdict.context}]")
        self.stop = self.stop or verdict.stop

    def _judged(
        self, call_id: str, prepared: PreparedCall, decision: HookDecision | None, *, is_new: bool
    ) -> JudgedCall:
        if is_new:
            shown = encode(plain_arguments(prepared)).decode()
            shown = shown if len(shown) <= _MAX_INPUT else f"{shown[:_MAX_INPUT]} […]"
            self._notes.setdefault(call_id, []).append(f"[a hook changed the input of this call to {shown}]")
        return JudgedCall(prepared, decision)

    def _prepare(self, call: ToolCall, name: str, given: dict[str, Any]) -> PreparedCall:
        try:
            return self._read_call(replace(call, name=name, arguments=given, malformed=None))
        except ToolError as error:
            raise ToolError(
                f"a hook changed the input of this call to one that cannot be used: {error.message}"
            ) from None


def plain_arguments(prepared: PreparedCall) -> dict[str, Any]:
    """The arguments of a call as hooks get them: with our names, and with defaults."""
    found = msgspec.to_builtins(prepared.arguments)
    return found if isinstance(found, dict) else {}


def _denial(reason: str) -> CallDenied:
    text = f"Denied by a hook of the user: {reason}. Do not try to get around it; go another way or say what you need."
    return CallDenied(text, "hook", reason)
