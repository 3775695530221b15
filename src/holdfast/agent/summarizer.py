"""Making the summary that takes the place of a conversation too long for the window. The originals stay stored."""

from __future__ import annotations

from holdfast.agent.compaction import SUMMARY_REQUEST, shortened, summary_of
from holdfast.agent.conversation import Conversation
from holdfast.agent.message_builder import MessageBuilder
from holdfast.agent.model_answer import ModelAnswer
from holdfast.agent.protocol import Spent, TurnHandle
from holdfast.agent.turn_dependencies import TurnDependencies
from holdfast.agent.usage_guard import UsageGuard
from holdfast.errors import ModelContext, ModelMalformed
from holdfast.models.pricing import priced
from holdfast.models.protocol import ModelDelta, ModelRequest
from holdfast.schema.messages import Message, Part, Summary, Text, text_of

SHORTENINGS = 3
"""How often a conversation that does not even fit for being summarized is cut down further."""


class Summarizer:
    """One compaction inside a run (`R12`); cancelled with it, and retried like any request."""

    def __init__(self, handle: TurnHandle, dependencies: TurnDependencies, talk: Conversation) -> None:
        self._handle = handle
        self._dependencies = dependencies
        self._talk = talk
        self._collector = Collector(handle)

    def spent(self) -> Spent | None:
        """What it cost so far and is not counted yet."""
        fold, info = self._collector.fold, self._dependencies.model.info
        if self._collector.bill.is_paid or (fold.usage is None and not fold.parts()):
            return None
        usage = fold.usage or self._talk.estimated_usage(fold.parts())
        return Spent(info.name, priced(usage, info.price), steps=0)

    async def run(self) -> str:
        """Ask for the summary, store it, and let the conversation go on from it."""
        self._handle.progress("compacting")
        await self._ask()
        said = text_of(self._collector.fold.parts())
        if not said.strip():
            raise ModelMalformed("the model gave no summary of the conversation; try again or start a new session")
        todos = await self._dependencies.store.todos(self._handle.run.session_id)
        text = summary_of(said, prompts=self._talk.prompts, todos=todos)
        head = await self._talk.new_head()
        message = self._message((head, Summary(text)))
        await self._talk.store(message, spent=self.spent())
        self._talk.restart(message, head)
        return text

    async def _ask(self) -> None:
        messages = self._talk.request_messages()
        for level in range(SHORTENINGS + 1):
            request = ModelRequest(
                system=self._talk.head,
                messages=(*shortened(messages, level=level), self._message((Text(SUMMARY_REQUEST),))),
                tools=self._dependencies.toolbox.specs,
                cache_key=self._handle.run.session_id,
            )
            self._collector = Collector(self._handle)
            try:
                await ModelAnswer(self._handle, self._dependencies, phase="compacting").ask(self._collector, request)
            except ModelContext:
                continue
            return
        raise ModelContext("the conversation does not fit the model's window, not even to be summarized")

    def _message(self, parts: tuple[Part, ...]) -> Message:
        return Message(
            id=self._handle.new_id("msg"),
            session_id=self._handle.run.session_id,
            run_id=self._handle.run.id,
            role="user",
            seq=0,
            created_at=self._handle.now(),
            parts=parts,
        )


class Collector:
    """Takes an answer in without showing it to anyone."""

    def __init__(self, handle: TurnHandle) -> None:
        self.attempt = 0
        self.fold = MessageBuilder(lambda: "call_ignored")
        self.bill = UsageGuard(handle)

    async def begin_attempt(self) -> None:
        self.attempt += 1
        self.bill.open()
        self.fold = MessageBuilder(lambda: "call_ignored")

    def add(self, delta: ModelDelta) -> bool:
        self.fold.add(delta)
        return False

    async def save(self) -> None:
        """It is kept nowhere: a summary counts only when it is whole."""
