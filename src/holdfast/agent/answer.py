"""One answer of the model: asked, streamed, folded, kept; asked again where that is worth it (`R13`).

The message's row is committed before the request is sent (`R14`). While it streams, every delta goes to whoever
watches; what has come is stored at each part's end and at most every half second. A failed attempt's text is replaced,
never continued. Cancelled at any point, `Draft.cut_off` is what had been streamed.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from contextlib import aclosing
from typing import Protocol

from msgspec.structs import replace

from holdfast.agent.fold import Closed, Fold, Grew
from holdfast.agent.protocol import Seat
from holdfast.errors import ModelError, ModelNetwork, StoreUnwritable
from holdfast.models.protocol import Model, ModelDelta, Request, Stop
from holdfast.models.retry import retry_wait
from holdfast.schema.events import DeltaKind, MessageCreated, MessageUpdated, RunRetrying
from holdfast.schema.messages import Finish, FinishReason, Message, Part, ToolCall
from holdfast.schema.runs import Phase
from holdfast.schema.usage import Usage
from holdfast.store.writes import PutMessage

SAVE_SECONDS = 0.5

_log = logging.getLogger(__name__)


class Draft:
    """The assistant's message while it is being made."""

    def __init__(self, seat: Seat, model: str) -> None:
        self._seat = seat
        self.message = Message(
            id=seat.new_id("msg"),
            session_id=seat.run.session_id,
            run_id=seat.run.id,
            role="assistant",
            seq=0,
            created_at=seat.now(),
            model=model,
        )
        self.attempt = 0
        self.fold = self._new_fold()
        self._closed: set[int] = set()
        self._saved_at = 0.0
        self._dirty = False

    async def open(self) -> None:
        """The row, before the request."""
        await self._seat.commit([PutMessage(self.message)], [self._event(MessageCreated, self.message)])

    async def begin_attempt(self) -> None:
        """Another attempt: what the last one said is taken back, in the ledger and before everyone's eyes."""
        self.attempt += 1
        if self.attempt == 1:
            return
        self._seat.attempt(self.message.id, self.attempt)
        self.fold = self._new_fold()
        self._closed, self._dirty = set(), False
        await self._seat.commit([PutMessage(self.message)], [self._event(MessageUpdated, self.message)])

    async def add(self, delta: ModelDelta) -> None:
        closed = False
        for change in self.fold.add(delta):
            match change:
                case Grew(part, of, text):
                    self._grow(part, of, text)
                case Closed(part):
                    self._closed.add(part)
                    closed = True
        if closed:
            await self._save(told=True)
        elif self._dirty and time.monotonic() - self._saved_at >= SAVE_SECONDS:
            await self._save(told=False)

    def _grow(self, part: int, of: DeltaKind, text: str) -> None:
        call_id, name = self.fold.call(part)
        self._seat.delta(self.message.id, part, text=text, of=of, attempt=self.attempt, call_id=call_id, name=name)
        self._dirty = True

    async def _save(self, *, told: bool) -> None:
        """Store what has come; tell everyone only of parts that are complete."""
        self._saved_at, self._dirty = time.monotonic(), False
        stored = replace(self.message, parts=self.fold.parts())
        events = [self._event(MessageUpdated, replace(self.message, parts=self._told_parts()))] if told else []
        try:
            await self._seat.commit([PutMessage(stored)], events)
        except StoreUnwritable:
            _log.warning("run %s: a part could not be stored yet; the answer goes on", self._seat.run.id)
            self._dirty = True

    def _told_parts(self) -> tuple[Part, ...]:
        parts = self.fold.parts()
        count = next((number for number in range(len(parts)) if number not in self._closed), len(parts))
        return parts[:count]

    def finished(self, reason: FinishReason, detail: str = "", usage: Usage | None = None) -> Message:
        return replace(self.message, parts=(*self.fold.parts(), Finish(reason, detail)), usage=usage)

    def cut_off(self, reason: FinishReason, detail: str = "") -> Message:
        """As far as it came; calls whose arguments never ended were never asked for."""
        return replace(self.message, parts=(*self.fold.complete_parts(), Finish(reason, detail)), usage=self.fold.usage)

    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(part for part in self.fold.parts() if isinstance(part, ToolCall))

    def _new_fold(self) -> Fold:
        return Fold(lambda: self._seat.new_id("call"))

    def _event(
        self, kind: type[MessageCreated] | type[MessageUpdated], message: Message
    ) -> MessageCreated | MessageUpdated:
        return kind(at=self._seat.now(), session_id=message.session_id, message=message)


class Sink(Protocol):
    """Where an answer goes."""

    attempt: int
    """Counts from 1."""
    fold: Fold

    async def begin_attempt(self) -> None: ...

    async def add(self, delta: ModelDelta) -> None: ...


class Asking:
    """Asks a model, again where the policy allows it."""

    def __init__(
        self, seat: Seat, model: Model, *, phase: Phase | None = None, jitter: Callable[[], float] = random.random
    ) -> None:
        self._seat = seat
        self._model = model
        self._phase = phase
        """What is shown meanwhile, instead of the answer's own progress."""
        self._jitter = jitter

    async def ask(self, sink: Sink, request: Request) -> Stop:
        """Streams the answer into the sink. Raises the last `ModelError` when it is not worth another attempt."""
        while True:
            await sink.begin_attempt()
            try:
                return await self._attempt(sink, request)
            except ModelError as error:
                await self._wait_to_retry(sink, error)

    async def _attempt(self, sink: Sink, request: Request) -> Stop:
        name = self._model.info.name
        self._seat.progress(self._phase or "first_token", name)
        waiting = True
        async with aclosing(self._model.stream(request)) as stream:
            async for delta in stream:
                if waiting:
                    waiting = False
                    self._seat.progress(self._phase or "streaming", name)
                await sink.add(delta)
        if sink.fold.stop is None:
            raise ModelNetwork(f"the answer of {name!r} ended before it was complete")
        return sink.fold.stop

    async def _wait_to_retry(self, sink: Sink, error: ModelError) -> None:
        wait = retry_wait(error, attempt=sink.attempt, jitter=self._jitter())
        if wait is None:
            raise error
        event = RunRetrying(
            at=self._seat.now(),
            session_id=self._seat.run.session_id,
            run_id=self._seat.run.id,
            attempt=sink.attempt,
            cause=error.error_code,
            message=error.message,
            wait=round(wait, 3),
        )
        await self._seat.commit([], [event])
        self._seat.progress("retry", f"in {wait:.0f} s: {error.error_code}")
        await asyncio.sleep(wait)
