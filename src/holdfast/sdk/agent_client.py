"""The asynchronous client of programs, with sessions and runs as objects."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from typing import Any, Generic, Self, TypeVar, Unpack, overload

from msgspec.structs import asdict

from holdfast.client.async_client import AsyncClient
from holdfast.client.client_environment import with_shell
from holdfast.client.local_server import LocalServer
from holdfast.client.server_address import ServerAddress, address_from_env
from holdfast.client.transcript import Transcript
from holdfast.errors import NotFound, RunNotCompleted, Unreachable
from holdfast.schema.events import (
    Delta,
    Event,
    MessageCreated,
    MessageFinished,
    MessageUpdated,
    Reset,
    RunFinished,
    Snapshot,
)
from holdfast.schema.messages import Message
from holdfast.schema.runs import (
    END_STATES,
    CancelScope,
    Queue,
    Receipt,
    Run,
    RunDecision,
    RunError,
    RunRequest,
    RunSettings,
    settings_of,
)
from holdfast.schema.sessions import WorkspaceView
from holdfast.schema.usage import Usage
from holdfast.sdk.event_handlers import EventHandlers
from holdfast.sdk.program_handlers import ProgramHandlers
from holdfast.sdk.prompt_options import PromptOptions, make_request, read_attachments
from holdfast.sdk.structured_output import OutputShape

T = TypeVar("T")


class PromptResult(Generic[T]):
    """How a run ended."""

    def __init__(self, run: Run, shape: OutputShape) -> None:
        self.run = run
        """The run as the server describes it."""
        self._shape = shape

    @property
    def ok(self) -> bool:
        """Whether the run has completed."""
        return self.run.state == "completed"

    @property
    def text(self) -> str:
        """The last text of the agent."""
        return self.run.text

    @property
    def state(self) -> str:
        return self.run.state

    @property
    def reason(self) -> str | None:
        return self.run.reason

    @property
    def error(self) -> RunError | None:
        return self.run.error

    @property
    def usage(self) -> Usage:
        return self.run.usage

    @property
    def output(self) -> T:
        """The answer as a value of the type that was asked for. Raises `RunNotCompleted` like `check`."""
        found: T = self._shape.read(self.check().run.output)
        return found

    def check(self) -> Self:
        """Return the result. Raises `RunNotCompleted` if the run did not complete."""
        run = self.run
        if not self.ok:
            why = f": {run.error.message}" if run.error else ""
            detail = {"run_id": run.id, "state": run.state, "reason": run.reason}
            raise RunNotCompleted(f"run {run.id!r} ended {run.state} ({run.reason}){why}", detail=detail)
        return self

    def __repr__(self) -> str:
        return f"PromptResult({self.run.id!r}, {self.state!r})"


class AgentRun(Generic[T]):
    """One accepted prompt. The run belongs to the server: it goes on if this program ends."""

    def __init__(
        self,
        client: AgentClient,
        run: Run,
        *,
        settings: RunSettings,
        shape: OutputShape,
        decision: RunDecision,
        cursor: str | None,
    ) -> None:
        self._client = client
        self._run = run
        self._settings = settings
        self._shape = shape
        self._cursor = cursor
        self.decision: RunDecision = decision
        """Whether it was ``started``, ``queued``, or ``steered`` into the active run."""

    @property
    def id(self) -> str:
        return self._run.id

    @property
    def session_id(self) -> str:
        return self._run.session_id

    @property
    def session(self) -> AgentSession:
        return AgentSession(self._client, self.session_id)

    async def wait(self, *, seconds: float | None = None) -> PromptResult[T]:
        """Wait until the run has ended. Raises `TimeoutError` after ``seconds``; the run goes on."""
        run = await self._client.handlers.run_unless_lost(self._client.wait_run(self.id, seconds=seconds))
        if run.state not in END_STATES:
            raise TimeoutError(f"run {self.id!r} has not ended within {seconds:g} s")
        return PromptResult(run, self._shape)

    async def cancel(self) -> Receipt:
        """Cancel this run and nothing else. The receipt says how it ended, and what was killed."""
        return await self._client.cancel_run(self.id)

    async def steer(self, prompt: str) -> AgentRun[None]:
        """Send a prompt that joins this run at its next step, or is queued if it cannot."""
        return await self._client.steer_session(self.session_id, prompt, settings=self._settings)

    async def events(self) -> AsyncIterator[Event]:
        """Iterate over the events of the session, from the acceptance of this run to its end."""
        async for event, _ in self._follow():
            if event is not None:
                yield event

    async def stream_text(self) -> AsyncIterator[str]:
        """Iterate over the text of the agent in this run as it is written. If a request is retried, it begins again."""
        shown: dict[str, str] = {}
        async for event, transcript in self._follow():
            for message in transcript.messages.values() if event is None else _messages_of(event, transcript):
                before, text = shown.get(message.id, ""), transcript.text(message.id)
                if message.role != "assistant" or message.run_id != self.id or text in ("", before):
                    continue
                is_next, shown[message.id] = bool(before) or not shown, text
                yield text[len(before) :] if is_next and text.startswith(before) else f"\n\n{text}"

    async def _follow(self) -> AsyncIterator[tuple[Event | None, Transcript]]:
        """Yields first nothing, with the messages that are known, and then each event."""
        transcript, cursor = Transcript(), self._cursor
        if cursor is None:  # it may have begun, and ended, before
            run = await self._client.get_run(self.id)
            messages, cursor = await self._client.all_messages(self.session_id)
            transcript.load(messages)
            yield None, transcript
            if run.state in END_STATES:
                yield _finished(run), transcript
                return
        async with self._client.events(session_id=self.session_id, after=cursor, transcript=transcript) as stream:
            async for event in stream:
                yield event, transcript
                if isinstance(event, RunFinished) and event.run.id == self.id:
                    return
                if isinstance(event, Reset):  # the end may be among the events that are gone
                    run = await self._client.get_run(self.id)
                    if run.state in END_STATES:
                        yield _finished(run), transcript
                        return

    def __repr__(self) -> str:
        return f"AgentRun({self.id!r}, session_id={self.session_id!r})"


class AgentSession:
    """One conversation. Its prompts run one after the other."""

    def __init__(self, client: AgentClient, session_id: str) -> None:
        self._client = client
        self.id = session_id

    @overload
    async def prompt(self, prompt: str, *, output: type[T], **options: Unpack[PromptOptions]) -> AgentRun[T]: ...
    @overload
    async def prompt(
        self, prompt: str, *, output: Mapping[str, Any], **options: Unpack[PromptOptions]
    ) -> AgentRun[Any]: ...
    @overload
    async def prompt(self, prompt: str, *, output: None = None, **options: Unpack[PromptOptions]) -> AgentRun[None]: ...
    async def prompt(self, prompt: str, *, output: Any = None, **options: Unpack[PromptOptions]) -> AgentRun[Any]:
        """Send a prompt. It is stored when this returns.

        ``output`` is the type of the answer (a msgspec struct, dataclass, TypedDict or pydantic model), or a JSON
        Schema. An answer that does not match is corrected once; then the run fails.
        """
        return await self._client.prompt_session(self.id, prompt, output=output, options=options)

    async def run(self, prompt: str, **options: Unpack[PromptOptions]) -> PromptResult[None]:
        """Send a prompt and wait for its end."""
        return await (await self.prompt(prompt, **options)).wait()

    async def steer(self, prompt: str) -> AgentRun[None]:
        """Send a prompt that joins the active run at its next step, or is queued if it cannot.

        It has the settings of the last prompt that this client sent to the session: a prompt joins only a run with the
        same settings.
        """
        return await self._client.steer_session(self.id, prompt)

    async def cancel(self, *, scope: CancelScope = "session") -> Receipt:
        """Cancel everything that was accepted so far, or only the ``active`` run."""
        return await self._client.cancel_session(self.id, scope=scope)

    async def pause(self) -> Queue:
        """Start no further prompts; the active run continues."""
        return await self._client.pause(self.id)

    async def resume(self) -> Queue:
        return await self._client.resume(self.id)

    async def queue(self) -> Queue:
        """The active run and the prompts that wait."""
        return (await self._client.session(self.id)).queue

    async def messages(self) -> list[Message]:
        return (await self._client.all_messages(self.id))[0]

    async def events(self, *, after: str | None = None) -> AsyncIterator[Event]:
        """Iterate over the events of the session, from now on or from a cursor, also of runs that others start.

        Other clients see that this one has the session open. The iteration ends only with the program.
        """
        async with self._client.events(session_id=self.id, viewing=self.id, after=after) as stream:
            async for event in stream:
                yield event

    async def delete(self) -> Receipt:
        """Cancel the runs of the session, and delete it with its messages."""
        return await self._client.delete_session(self.id)

    def __repr__(self) -> str:
        return f"AgentSession({self.id!r})"


class AgentClient(ProgramHandlers, AsyncClient):
    """Connects to the server for one directory, and starts it if needed. Use it in an ``async with`` block.

    It has all methods of the HTTP interface, too, such as `changes`, `undo` and `models`.
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
        """``server`` is ``unix:/PATH`` or ``http://host:port``; by default the server of ``HOLDFAST_SERVER``, or the
        user's own one, which is started unless ``start`` is false. ``name`` is how other clients see this one.
        """
        self._env = dict(os.environ if env is None else env)
        self._start_server = start
        named = ServerAddress.parse(server, name="server") if server else address_from_env(self._env)
        self._is_local = named is None
        token = None if named is None else token or self._env.get("HOLDFAST_TOKEN")
        super().__init__(named or ServerAddress(), token=token, name=name)
        self.directory = os.fspath(directory)
        """An absolute path once the client is connected."""
        self.handlers = EventHandlers(self)
        self._opened: WorkspaceView | None = None
        self._last_settings: dict[str, RunSettings] = {}
        """The settings of the last prompt of each session."""

    async def connect(self) -> Self:
        """Find or start the server, and open the directory. ``async with`` does that."""
        if self._opened is None:
            await asyncio.to_thread(self._find_server)
            self._opened = await self.open_workspace(self.directory)
        return self

    def _find_server(self) -> None:
        """Blocks: it reads the file system, and may start a process."""
        self.directory = os.path.abspath(self.directory)
        if self._is_local:
            local = LocalServer(env=self._env)
            self.address = local.address
            if self._start_server:
                local.ensure()
                self._revive = local.revive

    @property
    def workspace_id(self) -> str:
        """The id of the directory, for methods of the HTTP interface."""
        return self._workspace.id

    @property
    def _workspace(self) -> WorkspaceView:
        if self._opened is None:
            raise Unreachable("the client is not connected; use it in an `async with` block, or call `connect` first")
        return self._opened

    async def aclose(self) -> None:
        """Detach the tools and close all connections. Runs go on."""
        await self.handlers.close()
        await super().aclose()

    async def __aenter__(self) -> Self:
        try:
            return await self.connect()
        except BaseException:
            await self.aclose()
            raise

    async def new_session(self, *, title: str | None = None) -> AgentSession:
        session = await self.create_session(self.workspace_id, title=title)
        return AgentSession(self, session.id)

    async def open_session(self, session_id: str) -> AgentSession:
        """A session that exists, also one that another client works in."""
        await self.session(session_id)
        return AgentSession(self, session_id)

    @overload
    async def start(
        self, prompt: str, *, title: str | None = None, output: type[T], **options: Unpack[PromptOptions]
    ) -> AgentRun[T]: ...
    @overload
    async def start(
        self, prompt: str, *, title: str | None = None, output: Mapping[str, Any], **options: Unpack[PromptOptions]
    ) -> AgentRun[Any]: ...
    @overload
    async def start(
        self, prompt: str, *, title: str | None = None, output: None = None, **options: Unpack[PromptOptions]
    ) -> AgentRun[None]: ...
    async def start(
        self, prompt: str, *, title: str | None = None, output: Any = None, **options: Unpack[PromptOptions]
    ) -> AgentRun[Any]:
        """Send a prompt in a new session. With a ``run_id`` that is known, it is the run that has this id already."""
        if run_id := options.get("run_id"):
            try:
                known = await self.get_run(run_id)
            except NotFound:
                pass
            else:
                return await self.prompt_session(known.session_id, prompt, output=output, options=options)
        session = await self.new_session(title=title)
        return await self.prompt_session(session.id, prompt, output=output, options=options)

    @overload
    async def run(
        self, prompt: str, *, title: str | None = None, output: type[T], **options: Unpack[PromptOptions]
    ) -> PromptResult[T]: ...
    @overload
    async def run(
        self, prompt: str, *, title: str | None = None, output: Mapping[str, Any], **options: Unpack[PromptOptions]
    ) -> PromptResult[Any]: ...
    @overload
    async def run(
        self, prompt: str, *, title: str | None = None, output: None = None, **options: Unpack[PromptOptions]
    ) -> PromptResult[None]: ...
    async def run(
        self, prompt: str, *, title: str | None = None, output: Any = None, **options: Unpack[PromptOptions]
    ) -> PromptResult[Any]:
        """Send a prompt in a new session, and wait for its end."""
        run: AgentRun[Any] = await self.start(prompt, title=title, output=output, **options)
        return await run.wait()

    async def find_run(self, run_id: str) -> AgentRun[None]:
        """A run that was started before, by this program or another client. Its requests are answered here, too."""
        run = await self.get_run(run_id)
        await self.handlers.serve(run.session_id, workspace_id=self.workspace_id, shared=True)
        settings, shape = settings_of(run), OutputShape(None)
        return AgentRun(self, run, settings=settings, shape=shape, decision="started", cursor=None)

    async def prompt_session(
        self, session_id: str, prompt: str, *, output: Any, options: PromptOptions
    ) -> AgentRun[Any]:
        """Send a prompt to a session; see `AgentSession.prompt`."""
        shape = OutputShape(output)
        attachments = await asyncio.to_thread(read_attachments, options.get("attachments", ()))
        request = make_request(
            prompt,
            options,
            attachments=attachments,
            output_schema=shape.schema,
            interactive=self.handlers.answers,
        )
        return await self._send(session_id, request, shape=shape, shared=options.get("interactive", False))

    async def steer_session(
        self, session_id: str, prompt: str, *, settings: RunSettings | None = None
    ) -> AgentRun[None]:
        """Send a prompt that joins the active run of a session; see `AgentSession.steer`."""
        settings = settings or self._last_settings.get(session_id) or RunSettings(interactive=self.handlers.answers)
        request = RunRequest(prompt=prompt, delivery="steer", **asdict(settings))
        return await self._send(session_id, request, shape=OutputShape(None), shared=None)

    async def _send(
        self, session_id: str, request: RunRequest, *, shape: OutputShape, shared: bool | None
    ) -> AgentRun[Any]:
        await self.handlers.serve(session_id, workspace_id=self.workspace_id, shared=shared)
        # A run with an id of the caller's choice may have begun long ago: its events are found by its messages.
        cursor = None if request.run_id else (await self.session(session_id)).cursor
        request = with_shell(request, self._env, workspace=self._workspace, address=self.address)
        accepted = await self.start_run(session_id, request)
        settings = self._last_settings[session_id] = settings_of(request)
        return AgentRun(self, accepted.run, settings=settings, shape=shape, decision=accepted.decision, cursor=cursor)


def _messages_of(event: Event, transcript: Transcript) -> list[Message]:
    """The message that an event is about."""
    match event:
        case Delta(message_id=message_id) | Snapshot(message_id=message_id):
            found = transcript.messages.get(message_id)
            return [] if found is None else [found]
        case MessageCreated(message=message) | MessageUpdated(message=message) | MessageFinished(message=message):
            return [message]
    return []


def _finished(run: Run) -> RunFinished:
    return RunFinished(run.finished_at or "", run.session_id, run)
