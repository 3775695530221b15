"""Compaction: replaces a conversation by a summary for the model (`R12`). The original messages stay stored.

`PromptTurn` compacts when the context window is nearly full; `CompactTurn` is the turn of a `/compact` run. The summary
is requested without tools, a second time if the model does not write one, and then made without the model: an answer of
the model never makes a compaction fail. The last prompts, the task list and the files in use are kept word for word.
"""

from __future__ import annotations

import asyncio

from holdfast.agent.conversation import Conversation
from holdfast.agent.message_builder import MessageBuilder
from holdfast.agent.model_answer import ModelAnswer, UsageGuard
from holdfast.agent.prompts import read_prompt
from holdfast.agent.protocol import Ending, Spent, TurnHandle, new_message
from holdfast.agent.run_outcome import outcome_of, stopped_outcome
from holdfast.agent.summary_text import (
    MAX_LEVEL,
    complete_summary,
    earlier_prompts,
    files_in_use,
    mechanical_summary,
    plain_conversation,
)
from holdfast.agent.turn_dependencies import TurnDependencies
from holdfast.agent.turn_hooks import hook_notices
from holdfast.errors import HoldfastError, ModelContext
from holdfast.models.pricing import add_cost
from holdfast.models.protocol import ModelDelta, ModelRequest
from holdfast.schema.messages import Notice, Summary, Text, text_of
from holdfast.schema.runs import Outcome

_SUMMARY_PROMPT = read_prompt("summary")
_SUMMARY_AGAIN = read_prompt("summary_again")
_FILE_CHARACTERS_PER_TOKEN = 0.5
"""How many characters of files in use are kept per token of the window: about an eighth of the window."""
_MAX_FILE_CHARACTERS = 60_000


class CompactTurn:
    """Replaces the conversation so far by its summary."""

    def __init__(self, dependencies: TurnDependencies) -> None:
        self._dependencies = dependencies

    async def run(self, handle: TurnHandle) -> Ending:
        conversation = Conversation(handle, self._dependencies)
        await conversation.load()
        if conversation.is_empty():
            return Ending(Outcome("completed", "end_turn", text="There is nothing to compact yet."))
        instruction = handle.run.arguments.get("instruction")
        compaction = Compaction(
            handle, self._dependencies, conversation, instruction=instruction if isinstance(instruction, str) else ""
        )
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

    def __init__(
        self, handle: TurnHandle, dependencies: TurnDependencies, conversation: Conversation, *, instruction: str = ""
    ) -> None:
        """``instruction`` is the user's wish for the summary."""
        self._handle = handle
        self._dependencies = dependencies
        self._conversation = conversation
        self._instruction = instruction
        self._answer = _HiddenAnswer(handle)

    def spent(self) -> Spent | None:
        """Return what it cost so far, unless that is already counted."""
        builder, info = self._answer.builder, self._dependencies.model.info
        if self._answer.usage_guard.is_counted or (builder.usage is None and not builder.parts()):
            return None
        usage = builder.usage or self._conversation.estimate_usage(builder.parts())
        return Spent(info.name, add_cost(usage, info.price), steps=0)

    async def run(self) -> str:
        """Make the summary, store it, and continue the conversation from it. Returns the summary."""
        self._handle.progress("compacting")
        run, store = self._handle.run, self._dependencies.store
        notices = await self._run_hooks()
        answer = await self._request()
        stored = await store.messages_since_summary(run.session_id)
        prompts = self._conversation.prompts
        text = complete_summary(
            answer or mechanical_summary(stored),
            prompts=prompts,
            earlier=[prompt for prompt in earlier_prompts(stored, run_id=run.id) if prompt not in prompts],
            todos=await store.todos(run.session_id),
        )
        window = self._dependencies.model.info.context_window
        characters = int(window * _FILE_CHARACTERS_PER_TOKEN) if window else _MAX_FILE_CHARACTERS
        files = await self._dependencies.observer.read_files(
            files_in_use(stored), characters=min(characters, _MAX_FILE_CHARACTERS)
        )
        system_prompt = await self._conversation.new_system_prompt()
        message = new_message(self._handle, "user", (system_prompt, Summary(text, files), *notices))
        await self._conversation.store(message, spent=self.spent())
        self._conversation.restart(message, system_prompt)
        return text

    async def _run_hooks(self) -> tuple[Notice, ...]:
        """Run the hooks of a compaction. What they add is a wish for the summary. Returns what people are told."""
        hooks = self._dependencies.hooks
        if hooks is None or not hooks.listens("compaction"):
            return ()
        trigger = "request" if self._handle.run.kind == "compact" else "auto"
        verdict = await hooks.run("compaction", trigger=trigger, instruction=self._instruction)
        self._instruction = "\n".join(text for text in (self._instruction.strip(), verdict.context) if text)
        return hook_notices(verdict)

    async def _request(self) -> str:
        """Return the summary that the model writes; empty if it writes none."""
        wish = f"\n\nThe user asks of this summary: {self._instruction.strip()}" if self._instruction.strip() else ""
        summary = await self._ask(_SUMMARY_PROMPT + wish)
        if summary:
            return summary
        if spent := self.spent():
            await self._handle.commit([], spent=spent)
        return await self._ask(f"{_SUMMARY_PROMPT}{wish}\n\n{_SUMMARY_AGAIN}")

    async def _ask(self, prompt: str) -> str:
        """Ask without tools. A conversation that does not fit the window even for its summary is shortened."""
        messages = self._conversation.request_messages()
        for level in range(MAX_LEVEL + 1):
            request = ModelRequest(
                system=self._conversation.system,
                messages=(
                    *plain_conversation(messages, level=level),
                    new_message(self._handle, "user", (Text(prompt),)),
                ),
                cache_key=self._handle.run.session_id,
            )
            self._answer = _HiddenAnswer(self._handle)
            answer = ModelAnswer(self._handle, self._dependencies, phase="compacting")
            try:
                stop = await answer.stream_into(self._answer, request)
            except ModelContext:
                continue
            return "" if stop.reason == "refused" else text_of(self._answer.builder.parts()).strip()
        return ""


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
