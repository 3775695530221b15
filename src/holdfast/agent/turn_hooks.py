"""What hooks say about a whole turn: its session, its prompts, and its end."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from holdfast.agent.conversation import Conversation
from holdfast.agent.protocol import Ending, TurnHandle, new_message
from holdfast.agent.turn_dependencies import TurnHooks
from holdfast.schema.hooks import HookVerdict, describe_hook
from holdfast.schema.messages import Message, Notice
from holdfast.schema.runs import Outcome, RunError


class PromptHooks:
    """The hooks of one turn that answers prompts."""

    def __init__(self, hooks: TurnHooks, handle: TurnHandle, conversation: Conversation) -> None:
        self._hooks = hooks
        self._handle = handle
        self._conversation = conversation
        self._is_sent_back = False
        """Whether the agent was sent back from its end. That happens once."""

    async def begin(self) -> Ending | None:
        """Run the hooks of the session and of the prompt. Returns the end of a run whose prompt is refused."""
        if self._hooks.listens("session_start"):
            source = "new" if self._conversation.is_empty() else "resumed"
            await self._add(await self._hooks.run("session_start", source=source))
        return await self.judge_prompts(self._conversation.prompts)

    async def judge_prompts(self, prompts: Sequence[str]) -> Ending | None:
        """Run the hooks of prompts, also of those that joined."""
        if not self._hooks.listens("prompt"):
            return None
        for prompt in prompts:
            verdict = await self._hooks.run("prompt", prompt=prompt)
            if verdict.decision == "deny" or verdict.stop:
                return self._refused(verdict)
            await self._add(verdict)
        return None

    @property
    def listens_to_end(self) -> bool:
        return self._hooks.listens("before_end")

    async def before_end(self, outcome: Outcome) -> tuple[Message | None, bool]:
        """Run the hooks before the end. Returns what is added to the conversation, and whether the turn goes on."""
        verdict = await self._hooks.run("before_end", answer=outcome.text, sent_back=self._is_sent_back)
        goes_on = verdict.decision == "deny" and not verdict.stop and not self._is_sent_back
        if not verdict.records:
            return None, False
        if not goes_on:
            return hook_message(self._handle, verdict), False
        self._is_sent_back = True
        told = f"You are not done yet, says a hook of the user: {verdict.reason}"
        message = hook_message(self._handle, replace(verdict, context=told))
        self._conversation.append(message)
        return message, True

    async def _add(self, verdict: HookVerdict) -> None:
        if verdict.records:
            message = hook_message(self._handle, verdict)
            self._conversation.append(message)
            await self._conversation.store(message)

    def _refused(self, verdict: HookVerdict) -> Ending:
        """End the run before its first request. What `Conversation.begin` changed is stored with the end."""
        writes, events = self._conversation.opening()
        reason = f"the prompt was refused: {verdict.reason or verdict.stop}"
        outcome = Outcome("failed", "denied", error=RunError("denied_by_hook", reason))
        message = hook_message(self._handle, replace(verdict, context=""))
        return Ending(outcome, messages=(message,), writes=tuple(writes), events=tuple(events))


def hook_notices(verdict: HookVerdict) -> tuple[Notice, ...]:
    """A line for people about each hook that ran."""
    return tuple(
        Notice("hook_failed" if record.outcome == "failed" else "hook", describe_hook(record))
        for record in verdict.records
    )


def hook_message(handle: TurnHandle, verdict: HookVerdict) -> Message:
    """The hooks that ran, for people, and what they added, for the model."""
    added = (Notice("hook_context", verdict.context, for_model=True),) if verdict.context else ()
    return new_message(handle, "user", (*hook_notices(verdict), *added))
