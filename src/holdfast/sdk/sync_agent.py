"""The synchronous client of programs. It runs the asynchronous one in a thread of its own, so both behave the same."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from typing import Any, Generic, Self, TypeVar, Unpack, overload

from holdfast.client.sync_client import SyncClient
from holdfast.errors import Unreachable
from holdfast.schema.events import Event
from holdfast.schema.messages import Message
from holdfast.schema.runs import CancelScope, Queue, Receipt, RunDecision
from holdfast.sdk.agent_client import AgentClient, AgentRun, AgentSession, PromptResult
from holdfast.sdk.program_handlers import ProgramHandlers
from holdfast.sdk.prompt_options import PromptOptions

T = TypeVar("T")


class LoopThread:
    """An event loop in a thread. It does not keep the program alive."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="holdfast", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something on the loop and wait for it. It is cancelled if the wait is interrupted."""
        if self._loop.is_closed():
            work.close()
            raise Unreachable("the client is closed; open another one, or stay in its `with` block")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def iterate(self, values: AsyncIterator[T]) -> Iterator[T]:
        end = object()

        async def following() -> Any:
            return await anext(values, end)

        async def close() -> None:
            if aclose := getattr(values, "aclose", None):
                await aclose()

        try:
            while (value := self.run(following())) is not end:
                yield value
        finally:
            self.run(close())

    def close(self) -> None:
        self.run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class SyncAgentRun(Generic[T]):
    """One accepted prompt; see `AgentRun`."""

    def __init__(self, thread: LoopThread, run: AgentRun[T]) -> None:
        self._thread = thread
        self._run = run

    @property
    def id(self) -> str:
        return self._run.id

    @property
    def session_id(self) -> str:
        return self._run.session_id

    @property
    def decision(self) -> RunDecision:
        return self._run.decision

    @property
    def session(self) -> SyncAgentSession:
        return SyncAgentSession(self._thread, self._run.session)

    def wait(self, *, seconds: float | None = None) -> PromptResult[T]:
        """Wait until the run has ended. Raises `TimeoutError` after ``seconds``; the run goes on."""
        return self._thread.run(self._run.wait(seconds=seconds))

    def cancel(self) -> Receipt:
        """Cancel this run and nothing else."""
        return self._thread.run(self._run.cancel())

    def steer(self, prompt: str) -> SyncAgentRun[None]:
        """Send a prompt that joins this run at its next step, or is queued if it cannot."""
        return SyncAgentRun(self._thread, self._thread.run(self._run.steer(prompt)))

    def events(self) -> Iterator[Event]:
        """Iterate over the events of the session, from the acceptance of this run to its end."""
        return self._thread.iterate(self._run.events())

    def stream_text(self) -> Iterator[str]:
        """Iterate over the text of the agent in this run as it is written."""
        return self._thread.iterate(self._run.stream_text())

    def __repr__(self) -> str:
        return f"SyncAgentRun({self.id!r}, session_id={self.session_id!r})"


class SyncAgentSession:
    """One conversation; see `AgentSession`."""

    def __init__(self, thread: LoopThread, session: AgentSession) -> None:
        self._thread = thread
        self._session = session

    @property
    def id(self) -> str:
        return self._session.id

    @overload
    def prompt(self, prompt: str, *, output: type[T], **options: Unpack[PromptOptions]) -> SyncAgentRun[T]: ...
    @overload
    def prompt(
        self, prompt: str, *, output: Mapping[str, Any], **options: Unpack[PromptOptions]
    ) -> SyncAgentRun[Any]: ...
    @overload
    def prompt(self, prompt: str, *, output: None = None, **options: Unpack[PromptOptions]) -> SyncAgentRun[None]: ...
    def prompt(self, prompt: str, *, output: Any = None, **options: Unpack[PromptOptions]) -> SyncAgentRun[Any]:
        """Send a prompt. It is stored when this returns."""
        run: AgentRun[Any] = self._thread.run(self._session.prompt(prompt, output=output, **options))
        return SyncAgentRun(self._thread, run)

    def run(self, prompt: str, **options: Unpack[PromptOptions]) -> PromptResult[None]:
        """Send a prompt and wait for its end."""
        return self._thread.run(self._session.run(prompt, **options))

    def steer(self, prompt: str) -> SyncAgentRun[None]:
        """Send a prompt that joins the active run at its next step, or is queued if it cannot."""
        return SyncAgentRun(self._thread, self._thread.run(self._session.steer(prompt)))

    def cancel(self, *, scope: CancelScope = "session") -> Receipt:
        """Cancel everything that was accepted so far, or only the ``active`` run."""
        return self._thread.run(self._session.cancel(scope=scope))

    def pause(self) -> Queue:
        return self._thread.run(self._session.pause())

    def resume(self) -> Queue:
        return self._thread.run(self._session.resume())

    def queue(self) -> Queue:
        return self._thread.run(self._session.queue())

    def messages(self) -> list[Message]:
        return self._thread.run(self._session.messages())

    def events(self, *, after: str | None = None) -> Iterator[Event]:
        """Iterate over the events of the session, from now on or from a cursor, also of runs that others start."""
        return self._thread.iterate(self._session.events(after=after))

    def delete(self) -> Receipt:
        """Cancel the runs of the session, and delete it with its messages."""
        return self._thread.run(self._session.delete())

    def __repr__(self) -> str:
        return f"SyncAgentSession({self.id!r})"


class SyncAgentClient(ProgramHandlers, SyncClient):
    """Connects to the server for one directory, and starts it if needed. Use it in a ``with`` block; see `AgentClient`.

    Sessions and runs may be used from any thread, the methods of the HTTP interface from one at a time.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str] = ".",
        *,
        server: str | None = None,
        token: str | None = None,
        name: str = "sdk",
        start: bool = True,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._client = AgentClient(directory, server=server, token=token, name=name, start=start, env=env)
        super().__init__(self._client.address, name=name)
        self.handlers = self._client.handlers
        self._headers = self._client._headers  # noqa: SLF001 - one client for the server: two connections, one identity
        self._thread: LoopThread | None = None

    def connect(self) -> Self:
        """Find or start the server, and open the directory. ``with`` does that."""
        if self._thread is None:
            self._thread = LoopThread()
        self._thread.run(self._client.connect())
        self.address, self._revive = self._client.address, self._client._revive  # noqa: SLF001
        return self

    @property
    def directory(self) -> str:
        return self._client.directory

    @property
    def workspace_id(self) -> str:
        return self._client.workspace_id

    def close(self) -> None:
        """Detach the tools and close all connections. Runs go on."""
        super().close()
        if self._thread is not None:
            thread, self._thread = self._thread, None
            try:
                thread.run(self._client.aclose())
            finally:
                thread.close()

    def __enter__(self) -> Self:
        try:
            return self.connect()
        except BaseException:
            self.close()
            raise

    @property
    def _loop(self) -> LoopThread:
        if self._thread is None:
            raise Unreachable("the client is not connected; use it in a `with` block, or call `connect` first")
        return self._thread

    def new_session(self, *, title: str | None = None) -> SyncAgentSession:
        return SyncAgentSession(self._loop, self._loop.run(self._client.new_session(title=title)))

    def open_session(self, session_id: str) -> SyncAgentSession:
        """A session that exists, also one that another client works in."""
        return SyncAgentSession(self._loop, self._loop.run(self._client.open_session(session_id)))

    @overload
    def start(
        self, prompt: str, *, title: str | None = None, output: type[T], **options: Unpack[PromptOptions]
    ) -> SyncAgentRun[T]: ...
    @overload
    def start(
        self, prompt: str, *, title: str | None = None, output: Mapping[str, Any], **options: Unpack[PromptOptions]
    ) -> SyncAgentRun[Any]: ...
    @overload
    def start(
        self, prompt: str, *, title: str | None = None, output: None = None, **options: Unpack[PromptOptions]
    ) -> SyncAgentRun[None]: ...
    def start(
        self, prompt: str, *, title: str | None = None, output: Any = None, **options: Unpack[PromptOptions]
    ) -> SyncAgentRun[Any]:
        """Send a prompt in a new session. With a ``run_id`` that is known, it is the run that has this id already."""
        run: AgentRun[Any] = self._loop.run(self._client.start(prompt, title=title, output=output, **options))
        return SyncAgentRun(self._loop, run)

    @overload
    def run(
        self, prompt: str, *, title: str | None = None, output: type[T], **options: Unpack[PromptOptions]
    ) -> PromptResult[T]: ...
    @overload
    def run(
        self, prompt: str, *, title: str | None = None, output: Mapping[str, Any], **options: Unpack[PromptOptions]
    ) -> PromptResult[Any]: ...
    @overload
    def run(
        self, prompt: str, *, title: str | None = None, output: None = None, **options: Unpack[PromptOptions]
    ) -> PromptResult[None]: ...
    def run(
        self, prompt: str, *, title: str | None = None, output: Any = None, **options: Unpack[PromptOptions]
    ) -> PromptResult[Any]:
        """Send a prompt in a new session, and wait for its end."""
        found: PromptResult[Any] = self._loop.run(self._client.run(prompt, title=title, output=output, **options))
        return found

    def find_run(self, run_id: str) -> SyncAgentRun[None]:
        """A run that was started before, by this program or another client."""
        return SyncAgentRun(self._loop, self._loop.run(self._client.find_run(run_id)))
