"""The conversation of a turn: the system prompt, the messages since the last summary, and their size in tokens.

It is read once when the turn begins and then kept up to date with what the turn stores, so that the cost of a step does
not grow with the conversation. A long one is kept for the next turn (`kept_conversations.py`), which then reads only
what came after it.
"""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.agent import context_window, request_messages, system_prompt
from holdfast.agent.kept_conversations import KeptConversation
from holdfast.agent.prompt_expansion import PromptExpansion
from holdfast.agent.protocol import Spent, TurnHandle, new_message
from holdfast.agent.reminders import Reminder, RunLimits, due_reminder
from holdfast.agent.turn_dependencies import TurnDependencies
from holdfast.models.wires.request_cache import RequestCache
from holdfast.schema.events import KnownDurable, MessageFinished, MessageUpdated, SessionUpdated
from holdfast.schema.messages import Context, Message, Notice, Part, sent_text_of
from holdfast.schema.usage import Usage
from holdfast.store.writes import AnyWrite, PutMessage, UpdateRun, UpdateSession

_PAGE = 16
_PAST_THE_END = 1 << 62
_TOLD_ONCE = ("job:", "limit:")
"""Subjects of reminders that are not told again after a compaction. Nested instructions are."""
_TITLE_WORDS = 8
_TITLE_CHARACTERS = 60


class Conversation:
    def __init__(self, handle: TurnHandle, dependencies: TurnDependencies) -> None:
        self._handle = handle
        self._dependencies = dependencies
        self._run_seq = handle.run.seq
        self._last_seq = 0
        self._known: set[str] = set()
        """The ids of the messages in it."""
        self._sent: list[Message] = []
        """The messages as requests have them. It only grows, and its messages stay the same objects."""
        self._fresh: list[Message] = []
        """Stored messages that came after the last request."""
        self._size = 0
        """Tokens that the next request will take, as far as known."""
        self._estimate = 0
        """The same by our own estimate, for providers that report no usage."""
        self._is_empty = True
        self.converted = RequestCache()
        self.has_joined_runs = False
        self.prompts: list[str] = []
        """The prompts of this run and of the runs that joined it, unchanged."""
        self.system: tuple[str, ...] = ()
        """The blocks of the system prompt."""
        self.facts: dict[str, str] = {}
        """What the model knows, by subject."""
        self._writes: list[AnyWrite] = []
        """What `begin` changed, and reminders. It is committed with the row of the next answer."""
        self._events: list[KnownDurable] = []
        self._untitled_prompt: str | None = None
        self._conditions = system_prompt.RunConditions.of(
            dependencies.model.info,
            mode=dependencies.mode,
            interactive=handle.run.interactive,
            agent=dependencies.agent,
            role=dependencies.role,
        )

    async def begin(self) -> None:
        """Read the messages, gather the context, and add what is new to the prompt."""
        kept = self._take_kept()
        messages = await (self._read() if kept is None else self._read_after(kept))
        gathered = await self._dependencies.context_gatherer.gather()
        messages = await self._expand_prompt(messages)
        self.system, known = (kept.system, kept.facts) if kept else system_prompt.known_context(messages)
        context: Context | None
        if self.system:
            context = system_prompt.render_changes(gathered, conditions=self._conditions, known=known)
            context = await self._with_reminder(context, known)
        else:
            context = system_prompt.render_system_prompt(gathered, conditions=self._conditions)
            self.system = context.blocks
        self.facts = known if context is None else context.facts
        if context is not None:
            messages = self._add_context(messages, context)
        if kept is None:
            self._start_with(messages)
        else:
            for message in messages:
                self.append(message)
        self._name_session(messages)
        self._name_model()

    def keep(self) -> None:
        """Keep it for the next turn: this one has ended well, and everything in it is stored."""
        kept = self._dependencies.kept_conversations
        if kept is not None and not self.has_joined_runs:
            kept.put(
                self._handle.session.id,
                KeptConversation(
                    run_seq=self._run_seq,
                    images=self._dependencies.model.info.images,
                    last_seq=self._last_seq,
                    known=self._known,
                    sent=self._sent,
                    fresh=self._fresh,
                    size=self._size,
                    estimate=self._estimate,
                    system=self.system,
                    facts=self.facts,
                    converted=self.converted,
                ),
            )

    def _take_kept(self) -> KeptConversation | None:
        kept, session = self._dependencies.kept_conversations, self._handle.session
        if kept is None or not session.title:
            return None
        return kept.take(session.id, run_seq=self._run_seq, images=self._dependencies.model.info.images)

    async def _read_after(self, kept: KeptConversation) -> list[Message]:
        """Continue a conversation that was kept. Returns the messages after it."""
        self._last_seq, self._known, self._sent, self._fresh = kept.last_seq, kept.known, kept.sent, kept.fresh
        self._size, self._estimate, self._is_empty, self.converted = kept.size, kept.estimate, False, kept.converted
        return [*reversed(await self._unknown_messages())]

    async def _with_reminder(self, context: Context | None, known: dict[str, str]) -> Context | None:
        """Add what happened since the last run to the context of the prompt."""
        observed = await self._dependencies.observer.observe(calls=())
        reminder = due_reminder(observed, limits=RunLimits(run_id=self._handle.run.id), known=known)
        if reminder is None:
            return context
        if context is None:
            return Context(changed=reminder.text, facts=known | reminder.facts)
        changed = f"{context.changed}\n\n{reminder.text}"
        return replace(context, changed=changed, facts=context.facts | reminder.facts)

    def remind(self, reminder: Reminder) -> Message:
        """Add a reminder at the end. The caller stores it, or has it stored with the row of the next answer."""
        self.facts = self.facts | reminder.facts
        message = new_message(self._handle, "user", (Context(changed=reminder.text, facts=self.facts),))
        self.append(message)
        return message

    def store_with_opening(self, message: Message) -> None:
        """Commit a message that was added with the row of the next answer."""
        self._writes.append(PutMessage(message))
        self._events.append(MessageFinished(at=self._handle.now(), session_id=message.session_id, message=message))

    def opening(self) -> tuple[list[AnyWrite], list[KnownDurable]]:
        """Return what must be committed before the next request: what `begin` changed, and reminders."""
        return self._writes, self._events

    def opened(self) -> None:
        """The opening is committed."""
        self._writes, self._events = [], []
        if self._untitled_prompt is not None:
            self._dependencies.titler.suggest(self._handle.session.id, self._untitled_prompt)
            self._untitled_prompt = None

    async def load(self) -> None:
        """Read the messages and the system prompt that was last sent, for a turn that adds nothing."""
        messages = await self._read()
        self.system, self.facts = system_prompt.known_context(messages)
        self._start_with(messages)

    async def new_system_prompt(self) -> Context:
        """Render the system prompt anew after a compaction. The provider's cache is invalid then anyway."""
        gathered = await self._dependencies.context_gatherer.gather()
        context = system_prompt.render_system_prompt(gathered, conditions=self._conditions)
        told = {subject: value for subject, value in self.facts.items() if subject.startswith(_TOLD_ONCE)}
        return replace(context, facts=context.facts | told)

    def request_messages(self) -> tuple[Message, ...]:
        """Return the messages of the next request. Every call must have its result."""
        self._sent += request_messages.following_messages(self._fresh, images=self._dependencies.model.info.images)
        self._fresh.clear()
        return tuple(self._sent)

    def is_too_long(self) -> bool:
        info = self._dependencies.model.info
        return context_window.is_compaction_due(
            self._size, context_window=info.context_window, max_output=info.max_output
        )

    def is_empty(self) -> bool:
        """Return whether there is no answer since the last summary."""
        return self._is_empty

    def estimate_usage(self, answer: tuple[Part, ...]) -> Usage:
        """Estimate the usage of an answer, for a provider that reports none."""
        tokens = self._estimate + context_window.estimate_text(self.system)
        return Usage(input=tokens, output=context_window.estimate_parts(answer), estimated=True)

    def note_size(self, usage: Usage) -> None:
        self._size = usage.context

    def append(self, message: Message) -> None:
        """Add a message that is stored or about to be. Its `seq` only sets the order within the turn."""
        self._last_seq = max(message.seq, self._last_seq + 1)
        self._fresh.append(replace(message, seq=self._last_seq))
        self._known.add(message.id)
        estimate = context_window.estimate_parts(message.parts)
        self._estimate += estimate
        if message.role == "assistant":
            self._is_empty = False
        else:
            self._size += estimate

    def append_missing(self, message: Message) -> None:
        """Add a message unless it is there already."""
        if message.id not in self._known:
            self.append(message)

    def replace_last(self, message: Message) -> None:
        self._fresh[-1] = replace(message, seq=self._fresh[-1].seq)

    def restart(self, summary: Message, context: Context) -> None:
        """Continue from a summary that replaces everything before it."""
        self.system, self.facts = context.blocks, context.facts
        self._start_with([replace(summary, seq=self._last_seq + 1)])

    async def store(self, message: Message, *, spent: Spent | None = None) -> None:
        event = MessageFinished(at=self._handle.now(), session_id=message.session_id, message=message)
        await self._handle.commit([PutMessage(message)], [event], spent=spent)

    async def catch_up(self) -> None:
        """Add the stored prompts of the runs that joined, in their order."""
        for message in reversed(await self._unknown_messages()):
            if message.role == "user" and not message.unsent:
                message = await self._expanded(message)
                self.append(message)
                self.prompts.append(sent_text_of(message.parts))

    async def _unknown_messages(self) -> list[Message]:
        """Return the stored messages after the last known one, the latest first."""
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
        run, dependencies = self._handle.run, self._dependencies
        if dependencies.read_messages is not None:
            messages = list(await dependencies.read_messages())
        else:
            messages = list(await dependencies.store.messages_since_summary(run.session_id))
        self.prompts = [sent_text_of(message.parts) for message in messages if _is_prompt_of(message, run.id)]
        return messages

    async def _expand_prompt(self, messages: list[Message]) -> list[Message]:
        """Expand the prompt of this run if it calls a command."""
        run_id = self._handle.run.id
        expanded = [await self._expanded(one) if _is_prompt_of(one, run_id) else one for one in messages]
        self.prompts = [sent_text_of(message.parts) for message in expanded if _is_prompt_of(message, run_id)]
        return expanded

    async def _expanded(self, message: Message) -> Message:
        expanded = await PromptExpansion(self._handle, self._dependencies).expand(message)
        if expanded is None:
            return message
        self._writes.append(PutMessage(expanded))
        self._events.append(MessageUpdated(at=self._handle.now(), session_id=message.session_id, message=expanded))
        return expanded

    def _start_with(self, messages: list[Message]) -> None:
        self._last_seq = messages[-1].seq if messages else 0
        self._known = {message.id for message in messages}
        self._sent = list(request_messages.request_messages(messages, images=self._dependencies.model.info.images))
        self._fresh = []
        self._size = _size_of(messages)
        self._estimate = sum(context_window.estimate_parts(message.parts) for message in messages)
        self._is_empty = not any(message.role == "assistant" for message in messages)

    def _add_context(self, messages: list[Message], context: Context) -> list[Message]:
        """Store the context in the prompt of this run."""
        run_id = self._handle.run.id
        index = next((at for at in reversed(range(len(messages))) if _is_prompt_of(messages[at], run_id)), None)
        if index is None:
            return messages
        message = replace(messages[index], parts=(context, *messages[index].parts))
        self._writes.append(PutMessage(message))
        self._events.append(MessageUpdated(at=self._handle.now(), session_id=message.session_id, message=message))
        return [*messages[:index], message, *messages[index + 1 :]]

    def _name_session(self, messages: list[Message]) -> None:
        """Use the first words of the first prompt as the title, until the titler finds a better one."""
        session = self._handle.session
        if session.title:
            return
        prompt = next((sent_text_of(message.parts) for message in messages if message.role == "user"), "")
        if title := first_words(prompt):
            at = self._handle.now()
            named = replace(session, title=title, busy=True, updated_at=at)
            self._writes.append(UpdateSession(session_id=session.id, title=title, updated_at=at))
            self._events.append(SessionUpdated(at, session.id, named))
            self._untitled_prompt = prompt

    def _name_model(self) -> None:
        """Store the model of a run that was accepted without one."""
        if self._handle.run.model is None:
            self._writes.append(UpdateRun(run_id=self._handle.run.id, model=self._dependencies.model.info.name))


def first_words(text: str) -> str:
    words = " ".join(text.split()[:_TITLE_WORDS])
    return words if len(words) <= _TITLE_CHARACTERS else words[: _TITLE_CHARACTERS - 1] + "…"


def _is_prompt_of(message: Message, run_id: str) -> bool:
    """A user message that has only a context or a notice is a reminder."""
    is_reminder = all(isinstance(part, Context | Notice) for part in message.parts)
    return message.run_id == run_id and message.role == "user" and not is_reminder


def _size_of(messages: list[Message]) -> int:
    """Return the context size that the last answer reported, plus an estimate of what came after it."""
    for index in range(len(messages) - 1, -1, -1):
        usage = messages[index].usage
        if usage is not None:
            return usage.context + sum(context_window.estimate_parts(later.parts) for later in messages[index + 1 :])
    return sum(context_window.estimate_parts(message.parts) for message in messages)
