"""The conversation as a turn sees it: the head, the messages since the last summary, and how much of the window they
take. Read once when the turn begins, then kept up to date with what the turn stores, so that a step costs what it adds
and not what was there before.
"""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.agent import compaction, request_messages, system_prompt
from holdfast.agent.protocol import Spent, TurnHandle
from holdfast.agent.turn_dependencies import TurnDependencies
from holdfast.schema.events import KnownDurable, MessageFinished, MessageUpdated, SessionUpdated
from holdfast.schema.messages import Context, Message, Part, text_of
from holdfast.schema.usage import Usage
from holdfast.store.writes import AnyWrite, PutMessage, UpdateRun, UpdateSession

_PAGE = 16
_PAST_THE_END = 1 << 62
_TITLE_WORDS = 8
_TITLE_CHARACTERS = 60


class Conversation:
    def __init__(self, handle: TurnHandle, dependencies: TurnDependencies) -> None:
        self._handle = handle
        self._dependencies = dependencies
        self._last_seq = 0
        self._known: set[str] = set()
        """Ids of the messages that are in it."""
        self._sent: list[Message] = []
        """As requests have them; it only grows, and each message in it stays the same object."""
        self._fresh: list[Message] = []
        """What came since the last request, as stored."""
        self._size = 0
        """Tokens that the next request will take, as far as known."""
        self._estimate = 0
        """The same by our own count, for providers that tell none."""
        self._is_empty = True
        self.prompts: list[str] = []
        """What the person asked of this run, word for word, those that joined it included."""
        self.head: tuple[str, ...] = ()
        self._writes: list[AnyWrite] = []
        self._events: list[KnownDurable] = []
        """What beginning the turn changed; stored with its first answer's row."""
        self._untitled: str | None = None

    async def begin(self) -> None:
        """Read what is there, look around, and tell the model what is new."""
        messages = await self._read()
        gathered = await self._dependencies.surveyor.gather()
        self.head, known = system_prompt.known_context(messages)
        told: Context | None
        if self.head:
            told = system_prompt.addition(gathered, known)
        else:
            told = system_prompt.head(gathered, agent_prompt=self._dependencies.agent_prompt)
            self.head = told.blocks
        if told is not None:
            messages = self._tell(messages, told)
        self._start_with(messages)
        self._name_session(messages)
        self._name_model()

    def opening(self) -> tuple[list[AnyWrite], list[KnownDurable]]:
        """What is to be stored before the first request; nothing after that."""
        return self._writes, self._events

    def opened(self) -> None:
        """It is stored."""
        self._writes, self._events = [], []
        if self._untitled is not None:
            self._dependencies.titler.suggest(self._handle.session.id, self._untitled)
            self._untitled = None

    async def load(self) -> None:
        """Read what is there and the head as it was last sent, for a turn that tells nothing new."""
        messages = await self._read()
        self.head, _ = system_prompt.known_context(messages)
        self._start_with(messages)

    async def new_head(self) -> Context:
        """For a conversation that goes on after a summary: caches start anew, so everything is told anew."""
        return system_prompt.head(
            await self._dependencies.surveyor.gather(), agent_prompt=self._dependencies.agent_prompt
        )

    def request_messages(self) -> tuple[Message, ...]:
        """For a request now; every call must have its result."""
        self._sent += request_messages.following_messages(self._fresh, images=self._dependencies.model.info.images)
        self._fresh.clear()
        return tuple(self._sent)

    def is_too_long(self) -> bool:
        info = self._dependencies.model.info
        return compaction.is_due(self._size, context_window=info.context_window, max_output=info.max_output)

    def is_empty(self) -> bool:
        """Nothing was said since the last summary, or at all."""
        return self._is_empty

    def estimated_usage(self, answer: tuple[Part, ...]) -> Usage:
        """For a provider that tells none."""
        asked = self._estimate + compaction.estimated_text(self.head)
        return Usage(input=asked, output=compaction.estimated_parts(answer), estimated=True)

    def note_size(self, usage: Usage) -> None:
        self._size = usage.context

    def append(self, message: Message) -> None:
        """A message that is stored, or about to be. Its number counts only for the order within the turn."""
        self._last_seq = max(message.seq, self._last_seq + 1)
        self._fresh.append(replace(message, seq=self._last_seq))
        self._known.add(message.id)
        estimate = compaction.estimated_parts(message.parts)
        self._estimate += estimate
        if message.role == "assistant":
            self._is_empty = False
        else:
            self._size += estimate

    def replace_last(self, message: Message) -> None:
        self._fresh[-1] = replace(message, seq=self._fresh[-1].seq)

    def restart(self, summary: Message, head: Context) -> None:
        """From here on the summary stands for everything before it."""
        self.head = head.blocks
        self._start_with([replace(summary, seq=self._last_seq + 1)])

    async def store(self, message: Message, *, spent: Spent | None = None) -> None:
        event = MessageFinished(at=self._handle.now(), session_id=message.session_id, message=message)
        await self._handle.commit([PutMessage(message)], [event], spent=spent)

    async def catch_up(self) -> None:
        """Prompts that joined are in the ledger: take them in, in their order."""
        for message in reversed(await self._since_known()):
            if message.role == "user" and not message.unsent:
                self.append(message)
                self.prompts.append(text_of(message.parts))

    async def _since_known(self) -> list[Message]:
        """What the ledger has behind the last message that is in here, the latest first."""
        found: list[Message] = []
        before: int | None = _PAST_THE_END
        while before is not None:
            page = await self._dependencies.store.messages(self._handle.run.session_id, limit=_PAGE, before=before)
            for message in reversed(page.items):
                if message.id in self._known:
                    return found
                found.append(message)
            before = page.next
        return found

    async def _read(self) -> list[Message]:
        run = self._handle.run
        messages = list(await self._dependencies.store.messages_since_summary(run.session_id))
        self.prompts = [text_of(message.parts) for message in messages if _is_prompt_of(message, run.id)]
        return messages

    def _start_with(self, messages: list[Message]) -> None:
        self._last_seq = messages[-1].seq if messages else 0
        self._known = {message.id for message in messages}
        self._sent = list(request_messages.request_messages(messages, images=self._dependencies.model.info.images))
        self._fresh = []
        self._size = _size_of(messages)
        self._estimate = sum(compaction.estimated_parts(message.parts) for message in messages)
        self._is_empty = not any(message.role == "assistant" for message in messages)

    def _tell(self, messages: list[Message], told: Context) -> list[Message]:
        """The prompt of this run carries what the model is told with it."""
        run_id = self._handle.run.id
        place = next((at for at in reversed(range(len(messages))) if _is_prompt_of(messages[at], run_id)), None)
        if place is None:
            return messages
        message = replace(messages[place], parts=(told, *messages[place].parts))
        self._writes.append(PutMessage(message))
        self._events.append(MessageUpdated(at=self._handle.now(), session_id=message.session_id, message=message))
        return [*messages[:place], message, *messages[place + 1 :]]

    def _name_session(self, messages: list[Message]) -> None:
        """The first words of the first prompt, until a better title is found."""
        session = self._handle.session
        if session.title:
            return
        said = next((text_of(message.parts) for message in messages if message.role == "user"), "")
        if title := first_words(said):
            at = self._handle.now()
            named = replace(session, title=title, busy=True, updated_at=at)
            self._writes.append(UpdateSession(session_id=session.id, title=title, updated_at=at))
            self._events.append(SessionUpdated(at, session.id, named))
            self._untitled = said

    def _name_model(self) -> None:
        """A run that named none is told with the one it got."""
        if self._handle.run.model is None:
            self._writes.append(UpdateRun(run_id=self._handle.run.id, model=self._dependencies.model.info.name))


def first_words(text: str) -> str:
    words = " ".join(text.split()[:_TITLE_WORDS])
    return words if len(words) <= _TITLE_CHARACTERS else words[: _TITLE_CHARACTERS - 1] + "…"


def _is_prompt_of(message: Message, run_id: str) -> bool:
    return message.run_id == run_id and message.role == "user"


def _size_of(messages: list[Message]) -> int:
    """What the last answer was told to take, and an estimate of what came after it."""
    for place in range(len(messages) - 1, -1, -1):
        usage = messages[place].usage
        if usage is not None:
            return usage.context + sum(compaction.estimated_parts(later.parts) for later in messages[place + 1 :])
    return sum(compaction.estimated_parts(message.parts) for message in messages)
