"""The command line's client: synchronous, on plain sockets, without an event loop.

It shares everything that decides with the asynchronous one: the calls, their reading, the fold, and what a stream
remembers. A lost answer is asked for again with the same key, so that nothing is done twice.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Generic, ParamSpec, Self, TypeVar, overload

from holdfast.client import endpoints
from holdfast.client.api_call import Call, Method, QueryValue, call
from holdfast.client.identity import identity_headers
from holdfast.client.response_decoding import read_error
from holdfast.client.retry import Lost, RetryBudget, Revive, is_worth_another_try
from holdfast.client.server_address import Address
from holdfast.client.server_liveness import what_became_of
from holdfast.client.stream_state import Following, OutOfStep
from holdfast.client.sync_http import Connection
from holdfast.client.transcript import Transcript
from holdfast.errors import HoldfastError, Stopping, TooMany, Unreachable
from holdfast.schema.events import Event, Hello
from holdfast.schema.messages import Message
from holdfast.schema.runs import END_STATES, Run

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
    def __get__(self, client: None, owner: type[SyncClient]) -> Self: ...
    @overload
    def __get__(self, client: SyncClient, owner: type[SyncClient]) -> Callable[P, T]: ...
    def __get__(self, client: SyncClient | None, owner: type[SyncClient]) -> Self | Callable[P, T]:
        if client is None:
            return self

        def send(*args: P.args, **kwargs: P.kwargs) -> T:
            return client.send(self._make(*args, **kwargs))

        return send


class SyncClient:
    """Talks to one server, from one thread at a time. Close it, or use it in a ``with``."""

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
        self._headers = identity_headers(name, token=token)
        self._connection = Connection(address, headers=self._headers)
        self._patience = patience
        self._answer_seconds = answer_seconds
        self._revive = revive
        self.leaves_stopped = False
        """Set by whoever waits: a server that was stopped on purpose is not started again, but told (`Stopping`)."""

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

    def request(
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
        return self.send(call(method, path, body, answer=answer, query=query, wait=wait))

    def send(self, call: Call[T]) -> T:
        """The call's answer, or the leaf of our error tree that it means."""
        return call.read(self.send_raw(call))

    def send_raw(self, call: Call[Any]) -> bytes:
        """The answer's bytes, for what is no JSON (an export, a tool's output)."""
        patience = RetryBudget(self._patience, clock=time.monotonic)
        while True:
            was_open = self._connection.is_open
            try:
                head, body = self._connection.exchange(
                    call.method,
                    call.target,
                    body=call.body,
                    headers=call.headers,
                    seconds=self._answer_seconds + call.wait,
                )
            except Unreachable as error:
                if not was_open:  # else it was merely kept for too long
                    self._wait(patience, error)
                continue
            if 200 <= head.status < 300:
                return body
            refusal = read_error(head.status, body)
            if not isinstance(refusal, Stopping) or self._revive is None or self.leaves_stopped:
                raise refusal
            self._wait(patience, refusal)  # nothing of it was done; the next server takes it

    def wait_run(self, run_id: str, *, seconds: float | None = None) -> Run:
        """The run when it has ended, or as it is when the time is over; over lost connections and restarts (`R9`)."""
        until = None if seconds is None else time.monotonic() + seconds
        while True:
            left = _LONGEST_WAIT if until is None else min(_LONGEST_WAIT, max(until - time.monotonic(), 0.0))
            run = self.get_run(run_id, wait=left)
            if run.state in END_STATES or (until is not None and time.monotonic() >= until):
                return run

    def all_messages(self, session_id: str) -> tuple[list[Message], str | None]:
        """A session's messages in order, and the cursor from which events go on."""
        first = page = self.messages(session_id, after="0")
        found = list(page.items)
        while page.next is not None:
            page = self.messages(session_id, after=page.next)
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
        raise_when_full: bool = False,
    ) -> EventStream:
        """What happens from the cursor ``after`` on (from now on without one), for as long as you iterate.

        ``on_lost(error, wait)`` is called when the connection was lost and is tried again after ``wait`` seconds; a
        `Hello` says that it is back. After ``give_up_after`` seconds without one, the error is raised. With
        ``raise_when_full``, `TooMany` is raised at once while the server has no stream to give: ask otherwise, then
        iterate again.
        """
        target = endpoints.events_target(workspace_id=workspace_id, session_id=session_id, viewing=viewing)
        following = Following(after=after, transcript=transcript or Transcript(), random=random.random)
        connection = Connection(self.address, headers=self._headers)
        patience = RetryBudget(give_up_after, clock=time.monotonic)
        return EventStream(
            connection,
            target,
            following,
            patience=patience,
            on_lost=on_lost,
            revive=self._bring_back,
            leaves_stopped=self.leaves_stopped,
            raise_when_full=raise_when_full,
        )

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _wait(self, patience: RetryBudget, error: HoldfastError) -> None:
        wait = patience.next_wait(error)
        self._bring_back()
        time.sleep(wait)

    def _bring_back(self) -> None:
        """The local server, unless it was stopped and shall stay so."""
        if self._revive is None:
            return
        if not self.leaves_stopped or self.address.path is None:
            self._revive()
            return
        match what_became_of(self.address.path, self._connection.peer):
            case "stopped":
                raise Stopping("the server was stopped")
            case "died":
                self._revive()
            case "listens":
                pass  # the next attempt reaches it


class EventStream:
    """An iterator of events that reconnects by itself; `transcript` has the exact text at every event.

    An interrupt (Ctrl-C) may come in the middle: go on iterating afterwards, and nothing is missing.
    """

    def __init__(
        self,
        connection: Connection,
        target: str,
        following: Following,
        *,
        patience: RetryBudget,
        on_lost: Lost | None,
        revive: Revive,
        leaves_stopped: bool,
        raise_when_full: bool,
    ) -> None:
        self._connection = connection
        self._target = target
        self._following = following
        self._patience = patience
        self._on_lost = on_lost
        self._revive = revive
        self._leaves_stopped = leaves_stopped
        self._raise_when_full = raise_when_full
        self._pieces: Iterator[bytes] | None = None
        self._ended_cleanly = False

    @property
    def cursor(self) -> str | None:
        """Where a later stream goes on after the events handed out so far."""
        return self._following.cursor

    @property
    def transcript(self) -> Transcript:
        return self._following.transcript

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        while True:
            try:
                event = self._following.take()
                if event is None:
                    self._more()
                    continue
            except (HoldfastError, OutOfStep) as error:
                self._lost(error)
                continue
            except BaseException:
                self.close()
                raise
            if isinstance(event, Hello):
                self._patience.succeeded()
            return event

    def close(self) -> None:
        """Ends the connection; iterating again opens a new one at the cursor."""
        self._pieces = None
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _more(self) -> None:
        if self._pieces is None:
            self._pieces = self._connect()
        self._connection.allow(self._following.silence)
        piece = next(self._pieces, None)
        if piece is None:
            self._ended_cleanly = True
            raise Unreachable("the server ended the stream")
        self._following.feed(piece)

    def _connect(self) -> Iterator[bytes]:
        cursor = self._following.cursor
        headers = {"Accept": "text/event-stream"} | ({} if cursor is None else {"Last-Event-ID": cursor})
        self._following.connected()
        silence = self._following.silence
        head = self._connection.begin("GET", self._target, body=None, headers=headers, seconds=silence)
        if head.status != 200:
            raise read_error(head.status, b"".join(self._connection.pieces(head)))
        self._ended_cleanly = False
        return self._connection.pieces(head)

    def _lost(self, error: HoldfastError | OutOfStep) -> None:
        self.close()
        if not is_worth_another_try(error) or (self._raise_when_full and isinstance(error, TooMany)):
            raise error
        wait = self._following.wait_after_loss()
        self._patience.check(error)
        if self._on_lost is not None:
            self._on_lost(error, wait)
        if isinstance(error, Unreachable) and (not self._ended_cleanly or self._leaves_stopped):
            self._revive()
        time.sleep(wait)
