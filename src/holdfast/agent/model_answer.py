"""One answer of the model: asked, streamed, folded, kept; asked again where that is worth it (`R13`).

The message's row is committed before the request is sent (`R14`). While it streams, every delta goes to whoever
watches; what has come is stored at each part's end and at most every half second. A failed attempt's text is replaced,
never continued. Cancelled at any point, `Draft.cut_off` is what had been streamed.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Protocol

from msgspec.structs import replace

from holdfast.agent.message_builder import Closed, MessageBuilder
from holdfast.agent.protocol import Spent, TurnHandle
from holdfast.agent.turn_dependencies import TurnDependencies
from holdfast.agent.usage_guard import UsageGuard
from holdfast.errors import ModelError, ModelNetwork, StoreUnwritable
from holdfast.models.pricing import priced
from holdfast.models.protocol import ModelDelta, ModelRequest, Stop
from holdfast.models.retry import retry_wait
from holdfast.schema.events import KnownDurable, MessageCreated, MessageUpdated, RunRetrying
from holdfast.schema.messages import Finish, FinishReason, Message, Part, ToolCall
from holdfast.schema.runs import Phase
from holdfast.schema.usage import Usage
from holdfast.store.writes import AnyWrite, PutMessage

SAVE_SECONDS = 0.5

_log = logging.getLogger(__name__)


class Draft:
    """The assistant's message while it is being made."""

    def __init__(self, handle: TurnHandle, model: str) -> None:
        self._handle = handle
        self.message = Message(
            id=handle.new_id("msg"),
            session_id=handle.run.session_id,
            run_id=handle.run.id,
            role="assistant",
            seq=0,
            created_at=handle.now(),
            model=model,
        )
        self.bill = UsageGuard(handle)
        self.attempt = 0
        self.fold = self._new_fold()
        self._told = 0
        """Parts that everyone has been told whole."""
        self._saved_at = 0.0
        self._dirty = False

    async def open(self, writes: Sequence[AnyWrite] = (), events: Sequence[KnownDurable] = ()) -> None:
        """The row, before the request, in one commit with what comes before it."""
        created = self._event(MessageCreated, self.message)
        await self._handle.commit([*writes, PutMessage(self.message)], [*events, created])

    async def begin_attempt(self) -> None:
        """Another attempt: what the last one said is taken back, in the ledger and before everyone's eyes."""
        self.attempt += 1
        self.bill.open()
        if self.attempt == 1:
            return
        self._handle.attempt(self.message.id, self.attempt)
        self.fold = self._new_fold()
        self._told, self._dirty = 0, False
        await self._handle.commit([PutMessage(self.message)], [self._event(MessageUpdated, self.message)])

    def add(self, delta: ModelDelta) -> bool:
        """Pass it on; whether what has come is to be saved now."""
        fold, ended = self.fold, False
        for change in fold.add(delta):
            if isinstance(change, Closed):
                ended = True
                continue
            part = change.part
            call_id, name = fold.call(part)
            self._handle.delta(
                self.message.id,
                part,
                text=change.text,
                of=change.of,
                attempt=self.attempt,
                call_id=call_id,
                name=name,
            )
            self._dirty = True
        return ended or (self._dirty and time.monotonic() - self._saved_at >= SAVE_SECONDS)

    async def save(self) -> None:
        """Store what has come; tell everyone of parts that are complete, if any is new."""
        self._saved_at, self._dirty = time.monotonic(), False
        parts, told = self.fold.parts(), self.fold.closed
        events = []
        if told > self._told:
            self._told = told
            events = [self._event(MessageUpdated, replace(self.message, parts=parts[:told]))]
        try:
            await self._handle.commit([PutMessage(replace(self.message, parts=parts))], events)
        except StoreUnwritable:
            _log.warning("run %s: a part could not be stored yet; the answer goes on", self._handle.run.id)
            self._dirty = True

    def finished(self, reason: FinishReason, detail: str = "", *, usage: Usage) -> Message:
        return replace(self.message, parts=(*self.fold.parts(), Finish(reason, detail)), usage=usage)

    def cut_off(self, reason: FinishReason, detail: str = "", *, usage: Usage | None = None) -> Message:
        """As far as it came; calls whose arguments never ended were never asked for."""
        return replace(self.message, parts=(*self.fold.complete_parts(), Finish(reason, detail)), usage=usage)

    def calls(self) -> tuple[ToolCall, ...]:
        return calls_of(self.fold.parts())

    def _new_fold(self) -> MessageBuilder:
        return MessageBuilder(lambda: self._handle.new_id("call"))

    def _event(
        self, kind: type[MessageCreated] | type[MessageUpdated], message: Message
    ) -> MessageCreated | MessageUpdated:
        return kind(at=self._handle.now(), session_id=message.session_id, message=message)


def calls_of(parts: tuple[Part, ...]) -> tuple[ToolCall, ...]:
    return tuple(part for part in parts if isinstance(part, ToolCall))


class Sink(Protocol):
    """Where an answer goes."""

    attempt: int
    """Counts from 1."""
    fold: MessageBuilder

    async def begin_attempt(self) -> None: ...

    def add(self, delta: ModelDelta) -> bool:
        """Whether `save` is due."""
        ...

    async def save(self) -> None: ...


class ModelAnswer:
    """Asks a model, again where the policy allows it."""

    def __init__(
        self,
        handle: TurnHandle,
        dependencies: TurnDependencies,
        *,
        phase: Phase | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._handle = handle
        self._dependencies = dependencies
        self._phase = phase
        """What is shown meanwhile, instead of the answer's own progress."""
        self._jitter = jitter

    async def ask(self, sink: Sink, request: ModelRequest) -> Stop:
        """Streams the answer into the sink. Raises the last `ModelError` when it is not worth another attempt."""
        while True:
            await sink.begin_attempt()
            try:
                return await self._attempt(sink, request)
            except ModelError as error:
                await self._wait_to_retry(sink, error)

    async def _attempt(self, sink: Sink, request: ModelRequest) -> Stop:
        model = self._dependencies.model
        name = model.info.name
        self._handle.progress(self._phase or "first_token", name)
        waiting = self._phase is None
        async with aclosing(model.stream(request)) as stream:
            async for delta in stream:
                if waiting:
                    waiting = False
                    self._handle.progress("streaming", name)
                if sink.add(delta):
                    await sink.save()
        if sink.fold.stop is None:
            raise ModelNetwork(f"the answer of {name!r} ended before it was complete")
        return sink.fold.stop

    async def _wait_to_retry(self, sink: Sink, error: ModelError) -> None:
        wait = retry_wait(error, attempt=sink.attempt, jitter=self._jitter())
        if wait is None:
            raise error
        event = RunRetrying(
            at=self._handle.now(),
            session_id=self._handle.run.session_id,
            run_id=self._handle.run.id,
            attempt=sink.attempt,
            cause=error.error_code,
            message=error.message,
            wait=round(wait, 3),
        )
        await self._handle.commit([], [event], spent=self._lost(sink))
        self._handle.progress("retry", f"in {wait:.0f} s: {error.error_code}")
        await self._dependencies.pause(wait)

    def _lost(self, sink: Sink) -> Spent | None:
        """What the failed attempt cost, where the provider told it."""
        usage, info = sink.fold.usage, self._dependencies.model.info
        return None if usage is None else Spent(info.name, priced(usage, info.price), steps=0)
