"""One session as it is shown: its messages and events become blocks, a queue and a state. Pure and incremental.

A message's blocks are made when they are read, and only if something in them has changed, so a delta costs the same in
a long session as in a short one. Every change is the replacement of a value with an id: events that are applied again
after a newer snapshot lead to the same view.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from typing import TypeAlias

from holdfast.client.context_composition import ContextShare, context_shares
from holdfast.client.message_blocks import message_blocks, queued_prompt, turn_end_block
from holdfast.client.view_values import ActiveTurn, Block, QueueState, SessionTranscript
from holdfast.schema.events import Delta, Snapshot
from holdfast.schema.messages import Message, ToolCall, ToolResult
from holdfast.schema.open_texts import OpenTexts
from holdfast.schema.runs import END_STATES, Now, Queue, Run
from holdfast.schema.sessions import Todo

EntryKey: TypeAlias = tuple[int, int, str]
"""The place of an entry: the position of its message, then 0 for the message and 1 for the end of a run."""


class TranscriptEntry:
    """The blocks of one message, or the end of one run."""

    __slots__ = ("_blocks", "_fold", "_message", "_run_id", "key", "revision")

    def __init__(self, fold: TranscriptFold, key: EntryKey, *, message: Message | None, run_id: str) -> None:
        self.key = key
        self.revision = 0
        """Grows with each change. Equal revisions of an entry have equal blocks."""
        self._fold = fold
        self._message = message
        self._run_id = run_id
        self._blocks: tuple[Block, ...] | None = None

    @property
    def message(self) -> Message | None:
        return self._message

    @property
    def blocks(self) -> tuple[Block, ...]:
        if self._blocks is None:
            self._blocks = self._fold.make_blocks(self._message, self._run_id)
        return self._blocks

    def change(self, revision: int, message: Message | None = None) -> None:
        self._message = message or self._message
        self._blocks = None
        self.revision = revision


class TranscriptFold:
    """The entries of one session in order, with its queue, active run and todos."""

    def __init__(self, session_id: str, *, open_texts: OpenTexts) -> None:
        self.session_id = session_id
        self.entries: list[TranscriptEntry] = []
        """In order. New entries are nearly always added at the end."""
        self.revision = 0
        """Grows with each change of an entry."""
        self.layout = 0
        """Grows when an entry is added before the end, or removed."""
        self.older: str | None = None
        self.todos: tuple[Todo, ...] = ()
        self.results: dict[str, ToolResult] = {}
        self.asks: dict[str, str] = {}
        self.runs: dict[str, Run] = {}
        self.context_tokens = 0
        self._open = open_texts
        self._queue = Queue(session_id)
        self._now: dict[str, Now] = {}
        self._by_message: dict[str, TranscriptEntry] = {}
        self._by_run: dict[str, TranscriptEntry] = {}
        """The entries of the ends of runs."""
        self._message_of_call: dict[str, str] = {}
        self._last_message: dict[str, tuple[int, str]] = {}
        """The position of the last message of each turn, and the model that wrote its last answer."""
        self._context_seq = -1
        self._messages_of_run: dict[str, list[str]] = {}
        self._changed: list[TranscriptEntry] = []
        self._shares: tuple[int, tuple[ContextShare, ...]] | None = None

    # What is shown.

    def view(self) -> SessionTranscript:
        """The whole session as one value."""
        return SessionTranscript(
            session_id=self.session_id,
            blocks=tuple(block for entry in self.entries for block in entry.blocks),
            older=self.older,
            queue=self.queue,
            active=self.active,
            todos=self.todos,
            context_tokens=self.context_tokens,
        )

    @property
    def queue(self) -> QueueState:
        return QueueState(
            queued=tuple(queued_prompt(run_id, self.runs.get(run_id)) for run_id in self._queue.run_ids),
            waiting=tuple(queued_prompt(run_id, self.runs.get(run_id)) for run_id in self._queue.waiting),
            paused=self._queue.paused,
        )

    @property
    def active(self) -> ActiveTurn | None:
        run = self.runs.get(self._queue.active or "")
        if run is None or run.state in END_STATES:
            return None
        return ActiveTurn(run.id, run.kind, run.state, run.started_at, self._now.get(run.id) or run.now)

    @property
    def queued(self) -> int:
        return len(self._queue.run_ids)

    @property
    def context_shares(self) -> tuple[ContextShare, ...]:
        """What the context consists of, as far as the messages are loaded."""
        if self._shares is None or self._shares[0] != self.revision:
            messages = (entry.message for entry in self.entries)
            found = context_shares((m for m in messages if m is not None), total=self.context_tokens)
            self._shares = (self.revision, found)
        return self._shares[1]

    def take_changed(self) -> list[TranscriptEntry]:
        """The entries that changed since the last call, in the order of their changes."""
        changed, self._changed = self._changed, []
        return list(dict.fromkeys(changed))

    def output(self, call_id: str) -> str | None:
        return self._open.output(call_id)

    def has_message(self, message_id: str) -> bool:
        return message_id in self._by_message

    def make_blocks(self, message: Message | None, run_id: str) -> tuple[Block, ...]:
        if message is not None:
            return message_blocks(message, self._open.parts(message.id), self)
        run = self.runs[run_id]
        return (turn_end_block(run, model=self._last_message[run_id][1]),)

    # What changes it.

    def load(self, messages: Iterable[Message], runs: Iterable[Run], *, older: str | None) -> None:
        """Add a page of messages, and the runs that they belong to."""
        self.older = older
        for run in runs:
            self.put_run(run)
        for message in messages:
            self.put_message(message)

    def set_queue(self, queue: Queue) -> None:
        self._queue = queue

    def put_run(self, run: Run) -> None:
        """Store a run. Its prompt and its end are shown again."""
        self.runs[run.id] = run
        if run.state in ("active", "stopping") and run.host_run_id is None:
            self._queue = Queue(
                self.session_id,
                run_ids=tuple(run_id for run_id in self._queue.run_ids if run_id != run.id),
                waiting=self._queue.waiting,
                active=run.id,
                paused=self._queue.paused,
            )
        if run.state in END_STATES:
            self._now.pop(run.id, None)
        for message_id in self._messages_of_run.get(run.id, ()):
            self._mark(self._by_message[message_id])
            self._note_last(self._by_message[message_id].key[0], run_id=run.id, model=None)
        self._show_end(run)

    def set_progress(self, run_id: str, now: Now) -> None:
        if run_id not in self.runs or self.runs[run_id].state not in END_STATES:
            self._now[run_id] = now

    def put_message(self, message: Message) -> None:
        entry = self._by_message.get(message.id)
        self._open.close_stored(message)
        for part in message.parts:
            match part:
                case ToolCall():
                    self._message_of_call[part.id] = message.id
                case ToolResult():
                    self.results[part.call_id] = part
                    self._mark_call(part.call_id)
                case _:
                    pass
        if entry is None:
            entry = TranscriptEntry(self, (message.seq, 0, message.id), message=message, run_id=message.run_id)
            self._by_message[message.id] = entry
            self._messages_of_run.setdefault(message.run_id, []).append(message.id)
            self._insert(entry)
        self._mark(entry, message)
        if message.usage is not None and message.seq >= self._context_seq:
            self._context_seq, self.context_tokens = message.seq, message.usage.context
        self._note_last(message.seq, run_id=message.run_id, model=message.model)

    def finish_message(self, message: Message) -> None:
        self.put_message(message)
        self._open.drop(message.id)

    def append(self, delta: Delta) -> bool:
        if not self._open.append(delta):
            return False
        self._mark_message(delta.message_id)
        return True

    def replace_open(self, snapshot: Snapshot) -> None:
        self._open.replace(snapshot)
        self._mark_message(snapshot.message_id)

    def drop_open(self, message_id: str) -> None:
        self._open.drop(message_id)
        self._mark_message(message_id)

    def set_ask(self, call_id: str, ask_id: str | None) -> None:
        """A call waits for an approval or a question; ``None``: no longer."""
        if ask_id is None:
            self.asks.pop(call_id, None)
        else:
            self.asks[call_id] = ask_id
        self._mark_call(call_id)

    def _mark_message(self, message_id: str) -> None:
        if entry := self._by_message.get(message_id):
            self._mark(entry)

    def _mark_call(self, call_id: str) -> None:
        if message_id := self._message_of_call.get(call_id):
            self._mark_message(message_id)

    def _mark(self, entry: TranscriptEntry, message: Message | None = None) -> None:
        self.revision += 1
        entry.change(self.revision, message)
        if not self._changed or self._changed[-1] is not entry:
            self._changed.append(entry)

    def _insert(self, entry: TranscriptEntry) -> None:
        if self.entries and entry.key < self.entries[-1].key:
            insort(self.entries, entry, key=lambda other: other.key)
            self.layout += 1
        else:
            self.entries.append(entry)

    def _note_last(self, seq: int, *, run_id: str, model: str | None) -> None:
        """The end of a turn is shown below the last of its messages, also those of the runs that joined it."""
        run = self.runs.get(run_id)
        turn = run.host_run_id if run is not None and run.host_run_id else run_id
        last, last_model = self._last_message.get(turn, (-1, ""))
        self._last_message[turn] = (max(seq, last), (model if model and seq >= last else last_model) or "")
        if turn in self.runs:
            self._show_end(self.runs[turn])

    def _show_end(self, run: Run) -> None:
        known = self._last_message.get(run.id)
        if run.state not in END_STATES or run.host_run_id is not None or run.started_at is None or known is None:
            return
        key = (known[0], 1, run.id)
        entry = self._by_run.get(run.id)
        if entry is not None and entry.key != key:
            self.entries.remove(entry)
            self.layout += 1
            entry = None
        if entry is None:
            entry = self._by_run[run.id] = TranscriptEntry(self, key, message=None, run_id=run.id)
            self._insert(entry)
        self._mark(entry)
