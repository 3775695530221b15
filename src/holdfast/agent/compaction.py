"""Compaction: replaces a conversation by a summary for the model (`R12`). The original messages stay stored.

`PromptTurn` compacts when the context window is nearly full; `CompactTurn` is the turn of a `/compact` run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from holdfast.agent.conversation import Conversation
from holdfast.agent.message_builder import MessageBuilder
from holdfast.agent.model_answer import ModelAnswer, UsageGuard
from holdfast.agent.prompts import read_prompt
from holdfast.agent.protocol import Ending, Spent, TurnHandle, new_message
from holdfast.agent.run_outcome import outcome_of, stopped_outcome
from holdfast.agent.turn_dependencies import TurnDependencies
from holdfast.errors import HoldfastError, ModelContext, ModelMalformed
from holdfast.models.pricing import add_cost
from holdfast.models.protocol import ModelDelta, ModelRequest
from holdfast.schema.messages import Message, Part, Summary, Text, ToolResult, text_of
from holdfast.schema.runs import Outcome
from holdfast.schema.sessions import Todo

_SUMMARY_PROMPT = read_prompt("summary")
_MAX_SHORTENINGS = 3
"""How often a conversation is shortened that does not fit the window even for its summary."""
_MAX_RESULT_CHARACTERS = 2_000
_MAX_PROMPT_CHARACTERS = 8_000


class CompactTurn:
    """Replaces the conversation so far by its summary."""

    def __init__(self, dependencies: TurnDependencies) -> None:
        self._dependencies = dependencies

    async def run(self, handle: TurnHandle) -> Ending:
        conversation = Conversation(handle, self._dependencies)
        await conversation.load()
        if conversation.is_empty():
            return Ending(Outcome("completed", "end_turn", text="There is nothing to compact yet."))
        compaction = Compaction(handle, self._dependencies, conversation)
        try:
            return Ending(Outcome("completed", "end_turn", text=await compaction.run()))
        except asyncio.CancelledError:
            if handle.stopping is None:
                raise
            return Ending(stopped_outcome(handle.stopping), spent=compaction.spent())
        except HoldfastError as error:
            return Ending(outcome_of(error), spent=compaction.spent())


class Compaction:
    """One compaction within a run. It is cancelled with the run, and its request is retried like any other."""

    def __init__(self, handle: TurnHandle, dependencies: TurnDependencies, conversation: Conversation) -> None:
        self._handle = handle
        self._dependencies = dependencies
        self._conversation = conversation
        self._answer = _HiddenAnswer(handle)

    def spent(self) -> Spent | None:
        """Return what it cost so far, unless that is already counted."""
        builder, info = self._answer.builder, self._dependencies.model.info
        if self._answer.usage_guard.is_counted or (builder.usage is None and not builder.parts()):
            return None
        usage = builder.usage or self._conversation.estimate_usage(builder.parts())
        return Spent(info.name, add_cost(usage, info.price), steps=0)

    async def run(self) -> str:
        """Request the summary, store it, and continue the conversation from it. Returns the summary."""
        self._handle.progress("compacting")
        await self._request()
        answer = text_of(self._answer.builder.parts())
        if not answer.strip():
            raise ModelMalformed("the model returned no summary of the conversation; try again or start a new session")
        todos = await self._dependencies.store.todos(self._handle.run.session_id)
        text = complete_summary(answer, prompts=self._conversation.prompts, todos=todos)
        system_prompt = await self._conversation.new_system_prompt()
        message = new_message(self._handle, "user", (system_prompt, Summary(text)))
        await self._conversation.store(message, spent=self.spent())
        self._conversation.restart(message, system_prompt)
        return text

    async def _request(self) -> None:
        messages = self._conversation.request_messages()
        for level in range(_MAX_SHORTENINGS + 1):
            prompt = new_message(self._handle, "user", (Text(_SUMMARY_PROMPT),))
            request = ModelRequest(
                system=self._conversation.system,
                messages=(*shorten_messages(messages, level=level), prompt),
                tools=self._dependencies.toolbox.specs,
                cache_key=self._handle.run.session_id,
            )
            self._answer = _HiddenAnswer(self._handle)
            answer = ModelAnswer(self._handle, self._dependencies, phase="compacting")
            try:
                await answer.stream_into(self._answer, request)
            except ModelContext:
                continue
            return
        raise ModelContext("the conversation does not fit the model's context window, not even to be summarized")


class _HiddenAnswer:
    """An `AnswerSink` that shows and stores nothing: only a complete summary is used."""

    def __init__(self, handle: TurnHandle) -> None:
        self.attempt = 0
        self.builder = MessageBuilder(lambda: "call_ignored")
        self.usage_guard = UsageGuard(handle)

    async def begin_attempt(self) -> None:
        self.attempt += 1
        self.usage_guard.reset()
        self.builder = MessageBuilder(lambda: "call_ignored")

    def add(self, delta: ModelDelta) -> bool:
        self.builder.add(delta)
        return False

    async def save(self) -> None:
        return None


def shorten_messages(messages: Sequence[Message], *, level: int) -> tuple[Message, ...]:
    """Shorten a conversation. Level 1 cuts long texts and results; each further level also drops the older half."""
    if level == 0:
        return tuple(messages)
    kept = tuple(messages)
    for _ in range(level - 1):
        kept = _newer_half(kept)
    limit = _MAX_RESULT_CHARACTERS // level
    return tuple(replace(message, parts=tuple(_cut_part(part, limit) for part in message.parts)) for message in kept)


def _newer_half(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return the messages from a prompt near the middle on, so that no result loses its call."""
    starts = [index for index, message in enumerate(messages) if message.role == "user"]
    later = [index for index in starts if index >= len(messages) // 2]
    return messages[later[0] :] if later else messages[starts[-1] :] if starts else messages


def _cut_part(part: Part, limit: int) -> Part:
    if isinstance(part, ToolResult):
        return replace(part, text=_cut_text(part.text, limit), files=())
    if isinstance(part, Text):
        return replace(part, text=_cut_text(part.text, limit * 4))
    return part


def _cut_text(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return f"{text[: limit // 2]}\n[… {len(text) - limit} characters left out …]\n{text[-limit // 2 :]}"


def complete_summary(answer: str, *, prompts: Sequence[str], todos: Sequence[Todo]) -> str:
    """Add the prompts of the run and the stored task list to the summary that the model wrote."""
    blocks = [answer.strip()]
    if any(prompt.strip() for prompt in prompts):
        request = "\n\n".join(prompt.strip() for prompt in prompts if prompt.strip())
        blocks.append(f"## The request you are working on, word for word\n{_cut_text(request, _MAX_PROMPT_CHARACTERS)}")
    if todos:
        lines = "\n".join(f"- [{todo.status}] {todo.text}" for todo in todos)
        blocks.append(f"## Task list (as stored)\n{lines}")
    return "\n\n".join(blocks)
