"""The asynchronous client, for interfaces that live on an event loop. The HTTP library is loaded with the first call.

It shares everything that decides with the command line's client: the calls, their reading, the fold, and what a stream
remembers. A lost answer is asked for again with the same key, so that nothing is done twice.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, TypeVar, overload

from holdfast.client import endpoints
from holdfast.client.api_call import Call, Method, QueryValue, call
from holdfast.client.async_http import Wire, body_of
from holdfast.client.identity import identity_headers
from holdfast.client.response_decoding import read_error
from holdfast.client.retry import Lost, RetryBudget, Revive, is_worth_another_try
from holdfast.client.server_address import Address
from holdfast.client.stream_state import Following, OutOfStep
from holdfast.client.transcript import Transcript
from holdfast.errors import HoldfastError, Stopping, Unreachable
from holdfast.schema.events import Event, Hello
from holdfast.schema.messages import Message
from holdfast.schema.runs import END_STATES, Run

if TYPE_CHECKING:
    import httpx2

P = ParamSpec("P")
T = TypeVar("T")

ANSWER_SECONDS = 30.0
_LONGEST_WAIT = 30.0


class _Sends(Generic[P, T]):
    """A method that sends the call which ``make`` makes of its arguments."""

    def __init__(self, make: Callable[P, Call[T]]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, client: None, owner: type[Client]) -> Self: ...
    @overload
    def __get__(self, client: Client, owner: type[Client]) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, client: Client | None, owner: type[Client]) -> Self | Callable[P, Coroutine[Any, Any, T]]:
        if client is None:
            return self

        def send(*args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
            return client.send(self._make(*args, **kwargs))

        return send


class Client:
    """Talks to one server. Close it with `aclose`, or use it in an ``async with``."""

    def __init__(
        self,
        address: Address,
        *,
        token: str | None = None,
        name: str = "client",
        patience: float = 10.0,
        answer_seconds: float = ANSWER_SECONDS,
        revive: Revive | None = None,
    ) -> None:
        """``patience``: seconds for which a lost connection is tried again; ``revive`` brings the server back."""
        self.address = address
        self._wire = Wire(address, headers=identity_headers(name, token=token))
        self._patience = patience
        self._answer_seconds = answer_seconds
        self._revive = revive

    health = _Sends(endpoints.health)
    server = _Sends(endpoints.server)
    stop_server = _Sends(endpoints.stop_server)
    backup = _Sends(endpoints.backup)
    open_workspace = _Sends(endpoints.open_workspace)
    workspaces = _Sends(endpoints.workspaces)
    workspace = _Sends(endpoints.workspace)
    close_workspace = _Sends(endpoints.close_workspace)
    trust = _Sends(endpoints.trust)
    create_session = _Sends(endpoints.create_session)
    sessions = _Sends(endpoints.sessions)
    session = _Sends(endpoints.session)
    change_session = _Sends(endpoints.change_session)
    delete_session = _Sends(endpoints.delete_session)
    messages = _Sends(endpoints.messages)
    changes = _Sends(endpoints.changes)
    start_run = _Sends(endpoints.start_run)
    start_session = _Sends(endpoints.start_session)
    runs = _Sends(endpoints.runs)
    get_run = _Sends(endpoints.run)
    change_run = _Sends(endpoints.change_run)
    cancel_run = _Sends(endpoints.cancel_run)
    cancel_session = _Sends(endpoints.cancel_session)
    pause = _Sends(endpoints.pause)
    resume = _Sends(endpoints.resume)
    shell = _Sends(endpoints.shell)
    compact = _Sends(endpoints.compact)
    undo = _Sends(endpoints.undo)
    redo = _Sends(endpoints.redo)
    fork = _Sends(endpoints.fork)
    approvals = _Sends(endpoints.approvals)
    approval = _Sends(endpoints.approval)
    answer_approval = _Sends(endpoints.answer_approval)
    questions = _Sends(endpoints.questions)
    question = _Sends(endpoints.question)
    answer_question = _Sends(endpoints.answer_question)
    jobs = _Sends(endpoints.jobs)
    job = _Sends(endpoints.job)
    kill_job = _Sends(endpoints.kill_job)
    call_output = _Sends(endpoints.call_output)
    export = _Sends(endpoints.export)
    export_markdown = _Sends(endpoints.export_markdown)
    clients = _Sends(endpoints.clients)
    grants = _Sends(endpoints.grants)
    remove_grants = _Sends(endpoints.remove_grants)
    files = _Sends(endpoints.files)
    config = _Sends(endpoints.config)
    change_config = _Sends(endpoints.change_config)
    config_schema = _Sends(endpoints.config_schema)
    models = _Sends(endpoints.models)
    set_key = _Sends(endpoints.set_key)
    try_provider = _Sends(endpoints.try_provider)
    stats = _Sends(endpoints.stats)
    search = _Sends(endpoints.search)

    async def request(
        self,
        method: Method,
        path: str,
        body: object,
        answer: type[T],
        *,
        query: Mapping[str, QueryValue] | None = None,
        wait: float = 0.0,
    ) -> T:
        """Any route; ``answer`` is the type of what it answers, ``NoneType`` where that does not matter."""
        return await self.send(call(method, path, body, answer=answer, query=query, wait=wait))

    async def send(self, call: Call[T]) -> T:
        """The call's answer, or the leaf of our error tree that it means."""
        return call.read(await self.send_raw(call))

    async def send_raw(self, call: Call[Any]) -> bytes:
        """The answer's bytes, for what is no JSON (an export, a tool's output)."""
        patience = RetryBudget(self._patience, clock=time.monotonic)
        while True:
            try:
                status, body = await self._wire.exchange(call, seconds=self._answer_seconds + call.wait)
            except Unreachable as error:
                await self._wait(patience, error)
                continue
            if 200 <= status < 300:
                return body
            refusal = read_error(status, body)
            if not isinstance(refusal, Stopping) or self._revive is None:
                raise refusal
            await self._wait(patience, refusal)  # nothing of it was done; the next server takes it

    async def wait_run(self, run_id: str, *, seconds: float | None = None) -> Run:
        """The run when it has ended, or as it is when the time is over; over lost connections and restarts (`R9`)."""
        until = None if seconds is None else time.monotonic() + seconds
        while True:
            left = _LONGEST_WAIT if until is None else min(_LONGEST_WAIT, max(until - time.monotonic(), 0.0))
            run = await self.get_run(run_id, wait=left)
            if run.state in END_STATES or (until is not None and time.monotonic() >= until):
                return run

    async def all_messages(self, session_id: str) -> tuple[list[Message], str | None]:
        """A session's messages in order, and the cursor from which events go on."""
        first = page = await self.messages(session_id, after="0")
        found = list(page.items)
        while page.next is not None:
            page = await self.messages(session_id, after=page.next)
            found.extend(page.items)
        return found, first.cursor

    def events(
        self,
        *,
        workspace_id: str | None = None,
        session_id: str | None = None,
        viewing: str | None = None,
        after: str | None = None,
        transcript: Transcript | None = None,
        on_lost: Lost | None = None,
        give_up_after: float | None = None,
    ) -> EventStream:
        """What happens from the cursor ``after`` on (from now on without one), for as long as you iterate.

        ``on_lost(error, wait)`` is called when the connection was lost and is tried again after ``wait`` seconds; a
        `Hello` says that it is back. After ``give_up_after`` seconds without one, the error is raised.
        """
        target = endpoints.events_target(workspace_id=workspace_id, session_id=session_id, viewing=viewing)
        following = Following(after=after, transcript=transcript or Transcript(), random=random.random)
        return EventStream(
            self._wire,
            target,
            following,
            patience=RetryBudget(give_up_after, clock=time.monotonic),
            on_lost=on_lost,
            revive=self._revive,
        )

    async def _wait(self, patience: RetryBudget, error: HoldfastError) -> None:
        wait = patience.next_wait(error)
        if self._revive is not None:
            await asyncio.to_thread(self._revive)
        await asyncio.sleep(wait)

    async def aclose(self) -> None:
        """Ends every connection, those of its streams too."""
        await self._wire.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class EventStream:
    """An iterator of events that reconnects by itself; `transcript` has the exact text at every event.

    For one task at a time. It may be cancelled in the middle (a time-out, for example): go on iterating afterwards, and
    nothing is missing.
    """

    def __init__(
        self,
        wire: Wire,
        target: str,
        following: Following,
        *,
        patience: RetryBudget,
        on_lost: Lost | None,
        revive: Revive | None,
    ) -> None:
        self._wire = wire
        self._target = target
        self._following = following
        self._patience = patience
        self._on_lost = on_lost
        self._revive = revive
        self._response: httpx2.Response | None = None
        self._pieces: AsyncIterator[bytes] | None = None
        self._ended_cleanly = False

    @property
    def cursor(self) -> str | None:
        """Where a later stream goes on after the events handed out so far."""
        return self._following.cursor

    @property
    def transcript(self) -> Transcript:
        return self._following.transcript

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        while True:
            try:
                event = self._following.take()
                if event is None:
                    await self._more()
                    continue
            except (HoldfastError, OutOfStep) as error:
                await self._lost(error)
                continue
            except BaseException:
                await self._disconnect()
                raise
            if isinstance(event, Hello):
                self._patience.succeeded()
            return event

    async def aclose(self) -> None:
        """Ends the connection; iterating again opens a new one at the cursor."""
        await self._disconnect()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _more(self) -> None:
        if self._pieces is None:
            await self._connect()
        assert self._pieces is not None
        piece = await self._wire.piece(self._pieces, seconds=self._following.silence)
        if piece is None:
            self._ended_cleanly = True
            raise Unreachable("the server ended the stream")
        self._following.feed(piece)

    async def _connect(self) -> None:
        cursor = self._following.cursor
        headers = {"Accept": "text/event-stream"} | ({} if cursor is None else {"Last-Event-ID": cursor})
        self._following.connected()
        silence = self._following.silence
        response = await self._wire.open("GET", self._target, body=None, headers=headers, seconds=silence)
        self._response = response
        if response.status_code != 200:
            raise read_error(response.status_code, await self._wire.rest(response, seconds=silence))
        self._ended_cleanly = False
        self._pieces = body_of(response)

    async def _disconnect(self) -> None:
        response, self._response, self._pieces = self._response, None, None
        if response is not None:
            await response.aclose()

    async def _lost(self, error: HoldfastError | OutOfStep) -> None:
        await self._disconnect()
        if not is_worth_another_try(error):
            raise error
        wait = self._following.wait_after_loss()
        self._patience.check(error)
        if self._on_lost is not None:
            self._on_lost(error, wait)
        if self._revive is not None and isinstance(error, Unreachable) and not self._ended_cleanly:
            await asyncio.to_thread(self._revive)
        await asyncio.sleep(wait)
