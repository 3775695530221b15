"""The asynchronous client, for interfaces that run on an event loop. The HTTP library is loaded with the first call.

Everything that decides is shared with the synchronous client: the calls, how responses are read, and the rules for
trying again. A lost answer is asked for again with the same key, so that nothing is done twice.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, TypeVar, overload

from holdfast.client import endpoints
from holdfast.client.api_call import ApiCall, Method, QueryValue, api_call
from holdfast.client.async_http import HttpPool, body_of
from holdfast.client.base_client import BaseClient, OnLost, Revive
from holdfast.client.response_decoding import read_error
from holdfast.client.retry import LongPoll, Retry
from holdfast.client.server_address import ServerAddress
from holdfast.client.stream_state import StreamBroken, StreamState
from holdfast.client.transcript import Transcript
from holdfast.errors import HoldfastError, Unreachable
from holdfast.schema.events import Event
from holdfast.schema.messages import Message
from holdfast.schema.runs import END_STATES, Run

if TYPE_CHECKING:
    import httpx2

P = ParamSpec("P")
T = TypeVar("T")


class _EndpointMethod(Generic[P, T]):
    """A method that sends the call which ``make`` builds from its arguments."""

    def __init__(self, make: Callable[P, ApiCall[T]]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, client: None, owner: type[AsyncClient]) -> Self: ...
    @overload
    def __get__(self, client: AsyncClient, owner: type[AsyncClient]) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(
        self, client: AsyncClient | None, owner: type[AsyncClient]
    ) -> Self | Callable[P, Coroutine[Any, Any, T]]:
        if client is None:
            return self

        def send(*args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
            return client.send(self._make(*args, **kwargs))

        return send


class AsyncClient(BaseClient):
    """Talks to one server. Close it with `aclose`, or use it in an ``async with``."""

    def __init__(
        self,
        address: ServerAddress,
        *,
        token: str | None = None,
        name: str = "client",
        patience: float = 10.0,
        answer_seconds: float = 30.0,
        revive: Revive | None = None,
    ) -> None:
        """``patience``: seconds for which a lost connection is tried again; ``revive`` brings the server back."""
        super().__init__(
            address, token=token, name=name, patience=patience, answer_seconds=answer_seconds, revive=revive
        )
        self._pool = HttpPool(address, headers=self._headers)

    health = _EndpointMethod(endpoints.health)
    server = _EndpointMethod(endpoints.server)
    stop_server = _EndpointMethod(endpoints.stop_server)
    backup = _EndpointMethod(endpoints.backup)
    open_workspace = _EndpointMethod(endpoints.open_workspace)
    workspaces = _EndpointMethod(endpoints.workspaces)
    workspace = _EndpointMethod(endpoints.workspace)
    close_workspace = _EndpointMethod(endpoints.close_workspace)
    trust = _EndpointMethod(endpoints.trust)
    create_session = _EndpointMethod(endpoints.create_session)
    sessions = _EndpointMethod(endpoints.sessions)
    session = _EndpointMethod(endpoints.session)
    change_session = _EndpointMethod(endpoints.change_session)
    delete_session = _EndpointMethod(endpoints.delete_session)
    messages = _EndpointMethod(endpoints.messages)
    changes = _EndpointMethod(endpoints.changes)
    start_run = _EndpointMethod(endpoints.start_run)
    start_session = _EndpointMethod(endpoints.start_session)
    runs = _EndpointMethod(endpoints.runs)
    get_run = _EndpointMethod(endpoints.run)
    change_run = _EndpointMethod(endpoints.change_run)
    cancel_run = _EndpointMethod(endpoints.cancel_run)
    cancel_session = _EndpointMethod(endpoints.cancel_session)
    pause = _EndpointMethod(endpoints.pause)
    resume = _EndpointMethod(endpoints.resume)
    shell = _EndpointMethod(endpoints.shell)
    compact = _EndpointMethod(endpoints.compact)
    undo = _EndpointMethod(endpoints.undo)
    redo = _EndpointMethod(endpoints.redo)
    fork = _EndpointMethod(endpoints.fork)
    approvals = _EndpointMethod(endpoints.approvals)
    approval = _EndpointMethod(endpoints.approval)
    answer_approval = _EndpointMethod(endpoints.answer_approval)
    questions = _EndpointMethod(endpoints.questions)
    question = _EndpointMethod(endpoints.question)
    answer_question = _EndpointMethod(endpoints.answer_question)
    jobs = _EndpointMethod(endpoints.jobs)
    job = _EndpointMethod(endpoints.job)
    kill_job = _EndpointMethod(endpoints.kill_job)
    call_output = _EndpointMethod(endpoints.call_output)
    export = _EndpointMethod(endpoints.export)
    export_markdown = _EndpointMethod(endpoints.export_markdown)
    clients = _EndpointMethod(endpoints.clients)
    grants = _EndpointMethod(endpoints.grants)
    remove_grants = _EndpointMethod(endpoints.remove_grants)
    files = _EndpointMethod(endpoints.files)
    config = _EndpointMethod(endpoints.config)
    change_config = _EndpointMethod(endpoints.change_config)
    config_schema = _EndpointMethod(endpoints.config_schema)
    models = _EndpointMethod(endpoints.models)
    set_key = _EndpointMethod(endpoints.set_key)
    try_provider = _EndpointMethod(endpoints.try_provider)
    stats = _EndpointMethod(endpoints.stats)
    search = _EndpointMethod(endpoints.search)

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
        """Call any route; ``answer`` is the type of its answer, ``NoneType`` to ignore it."""
        return await self.send(api_call(method, path, body, answer=answer, query=query, wait=wait))

    async def send(self, call: ApiCall[T]) -> T:
        """The call's answer; a refusal is raised as its error."""
        return call.read(await self.send_raw(call))

    async def send_raw(self, call: ApiCall[Any]) -> bytes:
        """The answer's bytes, for answers that are not JSON (an export, a tool's output)."""
        retry = self._call_retry()
        while True:
            try:
                status, body = await self._pool.exchange(call, seconds=self._answer_seconds + call.wait)
            except Unreachable as error:
                await self._pause(retry.after_loss(error))
                continue
            if 200 <= status < 300:
                return body
            await self._pause(retry.after_refusal(read_error(status, body)))

    async def wait_run(self, run_id: str, *, seconds: float | None = None) -> Run:
        """The run when it has ended, or as it is after ``seconds``; across lost connections and restarts (`R9`)."""
        poll = LongPoll(seconds, clock=time.monotonic)
        while True:
            run = await self.get_run(run_id, wait=poll.next_wait())
            if run.state in END_STATES or poll.is_over:
                return run

    async def all_messages(self, session_id: str) -> tuple[list[Message], str | None]:
        """A session's messages in order, and the cursor at which its events continue."""
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
        on_lost: OnLost | None = None,
        give_up_after: float | None = None,
        raise_when_full: bool = False,
    ) -> AsyncEventStream:
        """Events after the cursor ``after`` (without one: from now on), for as long as you iterate.

        ``on_lost(error, seconds)`` is called when the connection was lost and is tried again after ``seconds``; a
        `Hello` follows when it is back. After ``give_up_after`` seconds without one, the error is raised. With
        ``raise_when_full``, `TooMany` is raised at once while the server has no free stream: poll, then iterate again.
        """
        return AsyncEventStream(
            self._pool,
            endpoints.events_target(workspace_id=workspace_id, session_id=session_id, viewing=viewing),
            self._stream_state(
                after=after, transcript=transcript, give_up_after=give_up_after, raise_when_full=raise_when_full
            ),
            on_lost=on_lost,
            pause=self._pause,
        )

    async def aclose(self) -> None:
        """End every connection, those of its streams too."""
        await self._pool.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _pause(self, retry: Retry) -> None:
        if retry.revive and self._revive is not None:
            await asyncio.to_thread(self._revive, pid=self._pool.peer, leave_stopped=self.leave_stopped)
        await asyncio.sleep(retry.seconds)


class AsyncEventStream:
    """An iterator of events that reconnects by itself; `transcript` has the exact text at every event.

    For one task at a time. Iterating may be cancelled at any time (by a time-out, for example): iterate again
    afterwards, and nothing is missing.
    """

    def __init__(
        self,
        pool: HttpPool,
        target: str,
        state: StreamState,
        *,
        on_lost: OnLost | None,
        pause: Callable[[Retry], Awaitable[None]],
    ) -> None:
        self._pool = pool
        self._target = target
        self._state = state
        self._on_lost = on_lost
        self._pause = pause
        self._response: httpx2.Response | None = None
        self._pieces: AsyncIterator[bytes] | None = None

    @property
    def cursor(self) -> str | None:
        """Where a later stream continues after the events handed out so far."""
        return self._state.cursor

    @property
    def transcript(self) -> Transcript:
        return self._state.transcript

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        while True:
            try:
                event = self._state.take()
                if event is not None:
                    return event
                await self._read()
            except (HoldfastError, StreamBroken) as error:
                await self._reconnect(error)
            except BaseException:
                await self.aclose()
                raise

    async def aclose(self) -> None:
        """End the connection; iterating again opens a new one at the cursor."""
        response, self._response, self._pieces = self._response, None, None
        if response is not None:
            await response.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _read(self) -> None:
        if self._pieces is None:
            self._pieces = await self._connect()
        self._state.feed(await self._pool.piece(self._pieces, seconds=self._state.silence))

    async def _connect(self) -> AsyncIterator[bytes]:
        headers, silence = self._state.connect(), self._state.silence
        self._response = await self._pool.open("GET", self._target, body=None, headers=headers, seconds=silence)
        if self._response.status_code != 200:
            body = await self._pool.rest(self._response, seconds=silence)
            raise read_error(self._response.status_code, body)
        self._state.connected()
        return body_of(self._response)

    async def _reconnect(self, error: HoldfastError | StreamBroken) -> None:
        await self.aclose()
        retry = self._state.after_loss(error)
        if self._on_lost is not None:
            self._on_lost(error, retry.seconds)
        await self._pause(retry)
