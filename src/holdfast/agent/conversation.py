"""The conversation as a turn sees it: the head, the messages since the last summary, and how much of the window they
take. Read once when the turn begins, then kept up to date with what the turn stores.
"""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.agent import compaction, history, prompt
from holdfast.agent.answer import Draft
from holdfast.agent.kit import Kit
from holdfast.agent.protocol import Seat, Spent
from holdfast.schema.events import MessageFinished, MessageUpdated, SessionUpdated
from holdfast.schema.messages import Context, Message, Part, text_of
from holdfast.schema.usage import Usage
from holdfast.store.writes import PutMessage, UpdateSession

_PAGE = 16
_PAST_THE_END = 1 << 62
_TITLE_WORDS = 8
_TITLE_CHARACTERS = 60


class Conversation:
    def __init__(self, seat: Seat, kit: Kit) -> None:
        self._seat = seat
        self._kit = kit
        self._messages: list[Message] = []
        self._size = 0
        """Tokens that the next request will take, as far as known."""
        self.head: tuple[str, ...] = ()

    async def begin(self) -> None:
        """Read what is there, look around, and tell the model what is new."""
        await self.load()
        gathered = await self._kit.surveyor.gather()
        self.head, known = prompt.known_context(self._messages)
        told: Context | None
        if self.head:
            told = prompt.addition(gathered, known)
        else:
            told = prompt.head(gathered, agent_prompt=self._kit.agent_prompt)
            self.head = told.blocks
        if told is not None:
            await self._tell(told)
        await self._name_session()

    async def load(self) -> None:
        self._messages = list(await self._kit.store.messages_since_summary(self._seat.run.session_id))
        self._size = _size_of(self._messages)

    async def new_head(self) -> Context:
        """For a conversation that goes on after a summary: caches start anew, so everything is told anew."""
        return prompt.head(await self._kit.surveyor.gather(), agent_prompt=self._kit.agent_prompt)

    def request_messages(self) -> tuple[Message, ...]:
        return history.request_messages(self._messages, images=self._kit.model.info.images)

    def is_too_long(self) -> bool:
        info = self._kit.model.info
        return compaction.is_due(self._size, context_window=info.context_window, max_output=info.max_output)

    def is_empty(self) -> bool:
        """Nothing was said since the last summary, or at all."""
        return not any(message.role == "assistant" for message in self._messages)

    def estimated_usage(self, answer: tuple[Part, ...]) -> Usage:
        """For a provider that tells none."""
        asked = compaction.estimated_tokens(self._messages) + int(sum(map(len, self.head)) / 3.6)
        said = compaction.estimated_tokens([replace(self._messages[-1], parts=answer)]) if self._messages else 0
        return Usage(input=asked, output=said, estimated=True)

    def note_size(self, usage: Usage) -> None:
        self._size = usage.context

    def append(self, message: Message) -> None:
        """A message that is stored, or about to be. Its number counts only for the order within the turn."""
        seq = max(message.seq, self._messages[-1].seq + 1 if self._messages else 1)
        self._messages.append(replace(message, seq=seq))
        if message.role != "assistant":
            self._size += compaction.estimated_tokens([message])

    def replace_last(self, message: Message) -> None:
        self._messages[-1] = replace(message, seq=self._messages[-1].seq)

    def restart(self, summary: Message) -> None:
        """From here on the summary stands for everything before it."""
        self._messages = [replace(summary, seq=self._messages[-1].seq + 1 if self._messages else 1)]
        self._size = _size_of(self._messages)

    async def store(self, message: Message, *, spent: Spent | None = None) -> None:
        event = MessageFinished(at=self._seat.now(), session_id=message.session_id, message=message)
        await self._seat.commit([PutMessage(message)], [event], spent=spent)

    async def discard(self, draft: Draft | None) -> None:
        """Close an answer that did not come, so that nothing of the step is left open."""
        if draft is not None:
            await self.store(draft.cut_off("error", "the conversation did not fit the model's window"))

    async def catch_up(self) -> None:
        """Prompts that joined are in the ledger: take them in, in their order."""
        known = {message.id for message in self._messages}
        fresh: list[Message] = []
        before: int | None = _PAST_THE_END
        while before is not None:
            page = await self._kit.store.messages(self._seat.run.session_id, limit=_PAGE, before=before)
            fresh = [message for message in page.items if message.id not in known] + fresh
            before = page.next if page.items and page.items[0].id not in known else None
        for message in fresh:
            if message.role == "user" and not message.unsent:
                self.append(message)

    async def _tell(self, told: Context) -> None:
        """The prompt of this run carries what the model is told with it."""
        own = [message for message in self._messages if message.run_id == self._seat.run.id and message.role == "user"]
        if not own:
            return
        message = replace(own[-1], parts=(told, *own[-1].parts))
        self._messages[self._messages.index(own[-1])] = message
        event = MessageUpdated(at=self._seat.now(), session_id=message.session_id, message=message)
        await self._seat.commit([PutMessage(message)], [event])

    async def _name_session(self) -> None:
        """The first words of the first prompt, until a better title is found."""
        session = self._seat.session
        if session.title:
            return
        said = next((text_of(message.parts) for message in self._messages if message.role == "user"), "")
        if title := first_words(said):
            at = self._seat.now()
            named = replace(session, title=title, busy=True, updated_at=at)
            write = UpdateSession(session_id=session.id, title=title, updated_at=at)
            await self._seat.commit([write], [SessionUpdated(at, session.id, named)])
            self._kit.titler.suggest(session.id, said)


def first_words(text: str) -> str:
    words = " ".join(text.split()[:_TITLE_WORDS])
    return words if len(words) <= _TITLE_CHARACTERS else words[: _TITLE_CHARACTERS - 1] + "…"


def _size_of(messages: list[Message]) -> int:
    """What the last answer was told to take, and an estimate of what came after it."""
    for place in range(len(messages) - 1, -1, -1):
        usage = messages[place].usage
        if usage is not None:
            return usage.context + compaction.estimated_tokens(messages[place + 1 :])
    return compaction.estimated_tokens(messages)
