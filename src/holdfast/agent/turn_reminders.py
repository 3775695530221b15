"""Reminds the model in the course of a turn: looks at what happened since the last step and adds what is due."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from holdfast.agent.conversation import Conversation
from holdfast.agent.protocol import TurnHandle
from holdfast.agent.reminders import SILENT_STEPS, RunLimits, due_reminder
from holdfast.agent.turn_dependencies import TurnDependencies
from holdfast.schema.messages import Message, ToolCall
from holdfast.schema.sessions import Todo

_TODO_TOOL = "todos"


class TurnReminders:
    """The reminders of one turn. The prompt itself begins with what happened before it (`Conversation.begin`)."""

    def __init__(self, handle: TurnHandle, dependencies: TurnDependencies, conversation: Conversation) -> None:
        self._handle = handle
        self._dependencies = dependencies
        self._conversation = conversation
        self._todos_step = 0
        """The step at which the model last looked at its task list, or was reminded of it."""

    async def add_due(self, calls: Sequence[ToolCall]) -> Message | None:
        """Add what the model should know before its next step. ``calls`` are those of the last step.

        Returns the message that was added to the conversation. It must be stored.
        """
        observed = await self._dependencies.observer.observe(calls=calls)
        steps = self._handle.run.steps
        if any(call.name == _TODO_TOOL for call in calls):
            self._todos_step = steps
        neglected: tuple[Todo, ...] = ()
        if steps - self._todos_step >= SILENT_STEPS:
            self._todos_step = steps
            neglected = await self._dependencies.store.todos(self._handle.run.session_id)
        reminder = due_reminder(observed, limits=self._limits(), known=self._conversation.facts, neglected=neglected)
        return None if reminder is None else self._conversation.remind(reminder)

    def _limits(self) -> RunLimits:
        run, limits = self._handle.run, self._dependencies.limits
        return RunLimits(
            run_id=run.id,
            steps=run.steps,
            max_steps=limits.max_steps,
            cost=run.usage.cost,
            max_cost=limits.max_cost,
            seconds=_seconds_between(run.started_at, self._handle.now()) if limits.max_seconds else 0.0,
            max_seconds=limits.max_seconds,
        )


def _seconds_between(start: str | None, end: str) -> float:
    if start is None:
        return 0.0
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()
