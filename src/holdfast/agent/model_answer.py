"""One answer of the model: requested, streamed, stored, and requested again where a retry is worth it (`R13`).

The row of the message is committed while the model is asked: before the commit nothing of the answer is shown, and a
refused commit closes the request (`R14`). Each delta is published at once and appended to
the draft of the message, which survives a crash (`E3`). Complete parts of a long answer are committed before its end.
The text of a failed attempt is replaced, never continued. After a cancel at any point, `AnswerDraft.cut_off` returns
what was streamed.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, Protocol

from msgspec.structs import replace

from holdfast.agent.message_builder import MessageBuilder, PartClosed
from holdfast.agent.protocol import Spent, TurnHandle, new_message
from holdfast.agent.request_messages import reminder
from holdfast.agent.turn_dependencies import TurnDependencies
from holdfast.config import StreamRedactor
from holdfast.errors import CommitRefused, ModelError, ModelMalformed, ModelNetwork
from holdfast.models.pricing import add_cost
from holdfast.models.protocol import ModelDelta, ModelRequest, Stop
from holdfast.models.retry import retry_wait
from holdfast.schema.events import DeltaKind, KnownDurable, MessageCreated, MessageUpdated, RunRetrying
from holdfast.schema.messages import Finish, FinishReason, Message, Part, Text, ToolCall
from holdfast.schema.runs import Phase
from holdfast.schema.usage import Usage
from holdfast.store.writes import AnyWrite, PutMessage

_SAVE_SECONDS = 0.5
"""Parts that are complete for so long are committed when the next part begins. The last ones share the commit of the
end."""

_HELD_SECONDS = 0.1
"""Letters that may begin a known key are shown if the model pauses for so long."""
_EMPTY_ANSWER = "empty_answer"
_ANSWER_AGAIN = "Your answer was empty. Go on with the task; if it is done, say so and what the result is."

_log = logging.getLogger(__name__)


class UsageGuard:
    """Ensures that the usage of a request, or of the sub-agents of a step, is counted exactly once.

    If a cancel arrives during the commit that counts it, the commit may or may not have been made. The usage of the run
    shows which, because nothing else of the run is counted meanwhile.
    """

    def __init__(self, handle: TurnHandle) -> None:
        self._handle = handle
        self.reset()

    def reset(self) -> None:
        self._before = self._handle.run.usage

    @property
    def is_counted(self) -> bool:
        return self._handle.run.usage != self._before


class AnswerSink(Protocol):
    """Receives a streamed answer."""

    attempt: int
    """Counts from 1."""
    builder: MessageBuilder

    async def begin_attempt(self) -> None: ...

    def add(self, delta: ModelDelta) -> bool:
        """Add a delta. Returns whether `save` must be called now."""
        ...

    async def save(self) -> None: ...


class AnswerDraft:
    """The assistant message while it is streamed: an `AnswerSink` that publishes and stores it."""

    def __init__(self, handle: TurnHandle, model: str, *, redactor: Callable[[], StreamRedactor]) -> None:
        """``redactor`` makes the redactor of one part, because a secret can be split between deltas.

        Characters that may begin a secret are published with the next delta, at the end of the part, or, if there are
        only one or two, after a short pause.
        """
        self._handle = handle
        self._redactor = redactor
        self._redactors: dict[int, tuple[StreamRedactor, DeltaKind]] = {}
        self._release_timer: asyncio.TimerHandle | None = None
        self.message = new_message(handle, "assistant", model=model)
        self.usage_guard = UsageGuard(handle)
        self.attempt = 0
        self.builder = self._new_builder()
        self._published_parts = 0
        """How many complete parts have been published."""
        self._saved_at = time.monotonic()

    def opening(self) -> tuple[AnyWrite, KnownDurable]:
        """Return the row and its event. `add` must wait until they are committed."""
        return PutMessage(self.message), self._event(MessageCreated, self.message)

    async def begin_attempt(self) -> None:
        """Begin an attempt. The text of the attempt before is removed, stored and published."""
        self.attempt += 1
        self.usage_guard.reset()
        if self.attempt == 1:
            return
        self._handle.attempt(self.message.id, self.attempt)
        self.builder = self._new_builder()
        self._stop_timer()
        self._redactors.clear()
        self._published_parts, self._saved_at = 0, time.monotonic()
        await self._commit(self.message)

    def add(self, delta: ModelDelta) -> bool:
        self._stop_timer()
        part_opened = False
        for change in self.builder.add(delta):
            if isinstance(change, PartClosed):
                self._flush(change.part)
                continue
            found = self._redactors.get(change.part)
            if found is None:
                found = self._redactors[change.part] = (self._redactor(), change.of)
            text = found[0].feed(change.text)
            if text or not change.text:
                self._publish(change.part, text, change.of)
            if found[0].can_release:
                self._start_timer(change.part)
            part_opened = part_opened or change.opened
        return (
            part_opened
            and self.builder.closed > self._published_parts
            and time.monotonic() - self._saved_at >= _SAVE_SECONDS
        )

    def _start_timer(self, part: int) -> None:
        self._stop_timer()
        self._release_timer = asyncio.get_running_loop().call_later(_HELD_SECONDS, self._release, part)

    def _stop_timer(self) -> None:
        if self._release_timer is not None:
            self._release_timer.cancel()
            self._release_timer = None

    def _release(self, part: int) -> None:
        """Publish letters that are held back, because the model pauses."""
        self._release_timer = None
        if (found := self._redactors.get(part)) and (text := found[0].release()):
            self._publish(part, text, found[1])

    def _flush(self, part: int) -> None:
        """Publish what the redactor of a part still holds back."""
        if (found := self._redactors.get(part)) and (rest := found[0].flush()):
            self._publish(part, rest, found[1])

    def _publish(self, part: int, text: str, of: DeltaKind) -> None:
        call_id, name = self.builder.call(part)
        self._handle.delta(self.message.id, part, text=text, of=of, attempt=self.attempt, call_id=call_id, name=name)

    async def save(self) -> None:
        """Store and publish the complete parts."""
        self._saved_at = time.monotonic()
        complete = self.builder.closed
        try:
            await self._commit(replace(self.message, parts=self.builder.parts()[:complete]))
        except CommitRefused:
            _log.warning("run %s: a part could not be stored yet; the answer continues", self._handle.run.id)
        else:
            self._published_parts = complete

    async def _commit(self, message: Message) -> None:
        await self._handle.commit([PutMessage(message, self.attempt)], [self._event(MessageUpdated, message)])

    def finished(self, reason: FinishReason, detail: str = "", *, usage: Usage) -> Message:
        self._stop_timer()
        return replace(self.message, parts=(*self.builder.parts(), Finish(reason, detail)), usage=usage)

    def cut_off(self, reason: FinishReason, detail: str = "", *, usage: Usage | None = None) -> Message:
        """Return the message so far, without calls whose arguments are incomplete."""
        self._stop_timer()
        return replace(self.message, parts=(*self.builder.complete_parts(), Finish(reason, detail)), usage=usage)

    def calls(self) -> tuple[ToolCall, ...]:
        return calls_of(self.builder.parts())

    def _new_builder(self) -> MessageBuilder:
        return MessageBuilder(lambda: self._handle.new_id("call"), seconds=time.monotonic)

    def _event(
        self, kind: type[MessageCreated] | type[MessageUpdated], message: Message
    ) -> MessageCreated | MessageUpdated:
        return kind(at=self._handle.now(), session_id=message.session_id, message=message)


def calls_of(parts: tuple[Part, ...]) -> tuple[ToolCall, ...]:
    return tuple(part for part in parts if isinstance(part, ToolCall))


class ModelAnswer:
    """Requests an answer from the model, with retries."""

    def __init__(
        self,
        handle: TurnHandle,
        dependencies: TurnDependencies,
        *,
        phase: Phase | None = None,
        retry_empty: bool = False,
    ) -> None:
        """``retry_empty``: an answer without text and calls is an error that is retried."""
        self._handle = handle
        self._dependencies = dependencies
        self._phase = phase
        """Shown as progress instead of the state of the answer."""
        self._retry_empty = retry_empty

    async def stream_into(
        self, sink: AnswerSink, request: ModelRequest, *, opening: asyncio.Task[Any] | None = None
    ) -> Stop:
        """Stream the answer into the sink. Raises the last `ModelError` if it is not worth a retry.

        The sink gets nothing before ``opening`` is done. If that fails, the request is closed and its error raised.
        """
        if opening is None:
            return await self._stream(sink, request, _nothing)
        try:
            async with _closed_on_failure(opening):
                return await self._stream(sink, request, lambda: asyncio.shield(opening))
        finally:
            await finish_opening(opening)

    async def _stream(self, sink: AnswerSink, request: ModelRequest, opened: Callable[[], Awaitable[None]]) -> Stop:
        asked = request
        while True:
            await sink.begin_attempt()
            try:
                return await self._attempt(sink, asked, opened)
            except ModelError as error:
                await opened()
                await self._wait_to_retry(sink, error)
                if error.error_code == _EMPTY_ANSWER:
                    again = new_message(self._handle, "user", (Text(reminder(_ANSWER_AGAIN)),))
                    asked = replace(request, messages=(*request.messages, again))

    async def _attempt(self, sink: AnswerSink, request: ModelRequest, opened: Callable[[], Awaitable[None]]) -> Stop:
        model = self._dependencies.model
        name = model.info.name
        self._handle.progress(self._phase or "first_token", name)
        is_first = True
        async with aclosing(model.stream(request)) as stream:
            async for delta in stream:
                if is_first:
                    is_first = False
                    await opened()
                    if self._phase is None:
                        self._handle.progress("streaming", name)
                if sink.add(delta):
                    await sink.save()
        await opened()
        if sink.builder.stop is None:
            raise ModelNetwork(f"the answer of {name!r} ended before it was complete")
        if self._retry_empty and sink.builder.is_empty and sink.builder.stop.reason in ("end_turn", "tool_use"):
            raise ModelMalformed(f"the answer of {name!r} is empty", code=_EMPTY_ANSWER)
        return sink.builder.stop

    async def _wait_to_retry(self, sink: AnswerSink, error: ModelError) -> None:
        wait = retry_wait(error, attempt=sink.attempt, jitter=random.random())
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
        await self._handle.commit([], [event], spent=self._spent_on_attempt(sink))
        self._handle.progress("retry", error.error_code, seconds=wait)
        await self._dependencies.pause(wait)

    def _spent_on_attempt(self, sink: AnswerSink) -> Spent | None:
        """Return what a failed attempt cost, if the provider reported it."""
        usage, info = sink.builder.usage, self._dependencies.model.info
        return None if usage is None else Spent(info.name, add_cost(usage, info.price), steps=0)


async def _nothing() -> None:
    return None


@asynccontextmanager
async def _closed_on_failure(opening: asyncio.Task[Any]) -> AsyncIterator[None]:
    """Stop what runs inside as soon as the task fails, and raise its error."""
    loop = asyncio.get_running_loop()
    scope = asyncio.timeout(None)
    is_inside = True

    def stop_if_failed(done: asyncio.Task[Any]) -> None:
        if is_inside and (done.cancelled() or done.exception() is not None):
            scope.reschedule(loop.time())

    try:
        async with scope:
            opening.add_done_callback(stop_if_failed)
            try:
                yield
            finally:
                is_inside = False  # a callback that is about to be called cannot be removed any more
                opening.remove_done_callback(stop_if_failed)
    except TimeoutError:
        if not scope.expired():
            raise
        await opening


async def finish_opening(opening: asyncio.Task[Any]) -> None:
    """Cancel the task if the caller ends before it, and wait for it. A commit that was posted is written to its end."""
    opening.cancel()
    while not opening.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait((opening,))
    if not opening.cancelled():
        opening.exception()  # read it, or asyncio reports an error that was never retrieved
