"""One MCP server of a workspace: it is started, watched, connected again when it is lost, and stopped.

One task owns the connection. It announces every change of the state. Calls run in tasks of the server, so that a
cancelled caller never waits for a server that does not read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.config.settings import NetworkSettings
from holdfast.errors import BadRequest, HoldfastError, ToolError
from holdfast.extend.mcp.login_store import LoginStore, SecretFile
from holdfast.extend.mcp.running_calls import CallHandlers, RunningCall
from holdfast.extend.mcp.sampling_requests import NOT_ALLOWED
from holdfast.extend.mcp.server_config import McpServerConfig, server_environment
from holdfast.extend.mcp.server_log import ServerLog
from holdfast.extend.mcp.tool_definitions import McpToolDefinition, ServerTools, clean_text, read_tools
from holdfast.schema.extensions import ExtensionState, ExtensionStatus
from holdfast.tasks import OwnedTasks
from holdfast.tools.process.command_process import CommandLauncher, CommandSpec, RunningCommand

if TYPE_CHECKING:
    from holdfast.extend.mcp.login_flow import LoginCallback
    from holdfast.extend.mcp.mcp_session import McpSession

MAX_MESSAGE = 10 << 20
"""Bytes of one message of a server."""
_MAX_INSTRUCTIONS = 8_000
_MAX_ERROR = 500
_STDERR_CHUNK = 1 << 14
_CANCEL_SECONDS = 0.5
"""How long a cancelled call may take to tell the server."""
_READ_SECONDS = 3_600.0
"""How long a server that talks HTTP may send nothing: a person may take long to answer its question."""
_LONGEST_CALL = 86_400.0
"""The library's limit of a call. `RunningCall` has the configured one."""
_LOGIN_SECONDS = 300.0
"""How long a person may take to log in."""

_logger = logging.getLogger(__name__)


class McpTimes(msgspec.Struct, frozen=True, kw_only=True):
    """How a connection is watched, in seconds."""

    start: float = 0.5
    """The wait before a server is started, unless something waits for it: the prompt that starts it comes first."""
    ping: float = 30.0
    """Between two pings."""
    ping_answer: float = 20.0
    first_retry: float = 1.0
    """The wait before the first attempt to connect again. It doubles with each failed one."""
    longest_retry: float = 60.0
    first_attempts: int = 3
    """How often a server that never worked is tried."""
    close: float = 3.0
    relist: float = 1.0
    """Shortest time between two readings of a changed list."""


class ServerSurroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What a server needs from its workspace."""

    directory: Path
    env: Mapping[str, str]
    secret: Callable[[], Collection[str]]
    """Names of variables that hold keys."""
    network: NetworkSettings
    launcher: CommandLauncher
    announce: Callable[[ExtensionStatus], Awaitable[None]]
    new_id: Callable[[], str]
    now: Callable[[], str]
    secrets: SecretFile
    names_of_others: Callable[[str], Collection[str]]
    """The names of all tools of other servers."""
    times: McpTimes


class _Lost(Exception):
    """The connection of a server that was ready ended."""


class McpServer:
    def __init__(self, config: McpServerConfig, surroundings: ServerSurroundings, *, is_login: bool = False) -> None:
        """``is_login``: a person is there to log in, if the server asks for it."""
        self.config = config
        self._is_login = is_login
        self.login_address = ""
        """The address that the person opens to log in, as soon as it is known."""
        self._login_shown = asyncio.Event()
        self._callback: LoginCallback | None = None
        self.surroundings = surroundings
        self.log = ServerLog(now=surroundings.now)
        self.tools = ServerTools()
        self.prompts: tuple[dict[str, Any], ...] = ()
        self.resources: tuple[dict[str, Any], ...] = ()
        self.resource_templates: tuple[dict[str, Any], ...] = ()
        self.instructions = ""
        self._state: ExtensionState = "disabled"
        self._detail = config.problem
        if config.problem:
            self._state = "failed"
        self._session: McpSession | None = None
        self._task: asyncio.Task[None] | None = None
        self._calls = OwnedTasks()
        self._running: dict[asyncio.Task[Any], RunningCall] = {}
        self._wake = asyncio.Event()
        self._changed_lists: set[str] = set()
        self._lost = ""
        self._stopping = False
        self._retry_now = asyncio.Event()
        self._hurry = asyncio.Event()
        self._settled = asyncio.Event()
        """Whether it is not starting."""
        self._settled.set()
        self._is_connected = False
        """Whether the latest connection was ready."""
        self._has_worked = False
        """Whether any connection was ready."""
        self._is_modern = False
        self._refused: int | None = None
        """The last HTTP error of the server."""
        self._uses_sse = config.transport == "sse"

    @property
    def status(self) -> ExtensionStatus:
        return ExtensionStatus("mcp", self.config.name, self._state, self._detail, self.config.source)

    @property
    def is_ready(self) -> bool:
        return self._state == "ready"

    @property
    def is_starting(self) -> bool:
        return self._state == "starting"

    def start(self) -> None:
        """Start in the background, unless it is disabled, broken or started."""
        if self._task is None and self.config.enabled and not self.config.problem:
            self._state, self._detail = "starting", ""
            self._settled.clear()
            self._task = asyncio.create_task(self._run(), name=f"mcp:{self.config.name}")

    def retry(self) -> None:
        """Connect now, if it is not connected."""
        self._retry_now.set()

    def hurry(self) -> None:
        """Start without a wait."""
        self._hurry.set()

    async def wait_settled(self) -> None:
        """Wait until it is not starting any more. Its start time-out limits that."""
        self.hurry()
        await self._settled.wait()

    async def close(self) -> None:
        """End the connection and the process."""
        self._stopping = True
        self._hurry.set()
        self._wake.set()
        self._retry_now.set()
        if self._task is not None:
            if self._session is not None:
                await asyncio.wait({self._task}, timeout=self.surroundings.times.close)
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=self.surroundings.times.close)
        await self._calls.finish(seconds=_CANCEL_SECONDS)
        self._settled.set()

    async def call(
        self, tool: str, arguments: dict[str, Any], *, progress: Callable[[str], None], handlers: CallHandlers
    ) -> dict[str, Any]:
        """Call a tool. A cancel is sent to the server. Raises `ToolError`."""
        session = self._ready_session()
        work = session.call_tool(tool, arguments, seconds=_LONGEST_CALL, show=progress)
        task = self._calls.spawn(work, name=f"mcp:{self.config.name}:{tool}", may_fail=True)
        running = self._running[task] = RunningCall(handlers, seconds=self.config.timeout)
        try:
            async with running.limit():
                return await self._finish(task)
        except TimeoutError:
            message = f"the MCP server {self.config.name!r} did not answer within {self.config.timeout:g} s"
            raise ToolError(message, code="mcp_timeout") from None
        finally:
            del self._running[task]

    async def get_prompt(self, name: str, arguments: dict[str, str]) -> dict[str, Any]:
        work = self._ready_session().get_prompt(name, arguments)
        return await self._finish(self._calls.spawn(work, name=f"mcp:{self.config.name}:prompt", may_fail=True))

    async def read_resource(self, uri: str) -> dict[str, Any]:
        work = self._ready_session().read_resource(uri)
        return await self._finish(self._calls.spawn(work, name=f"mcp:{self.config.name}:resource", may_fail=True))

    def definition(self, tool: str) -> McpToolDefinition | None:
        """Return the current definition of a tool, by the server's name."""
        return next((found for found in self.tools.definitions if found.tool == tool), None)

    def _ready_session(self) -> McpSession:
        if self._session is None or not self.is_ready:
            detail = f": {self._detail}" if self._detail else ""
            raise ToolError(f"the MCP server {self.config.name!r} is not ready ({self._state}{detail})")
        return self._session

    async def _finish(self, task: asyncio.Task[dict[str, Any]]) -> dict[str, Any]:
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            own = asyncio.current_task()
            if task.cancelled() and own is not None and not own.cancelling():
                raise ToolError(f"the MCP server {self.config.name!r} was stopped during the call") from None
            task.cancel()
            await asyncio.wait({task}, timeout=_CANCEL_SECONDS)
            raise
        except ToolError as error:
            if error.error_code == "mcp_closed":
                self._note_lost("the connection was closed")
                message = f"the MCP server {self.config.name!r} was lost during the call, which may have had an effect"
                raise ToolError(message, code=error.error_code) from None
            if error.error_code == "mcp_timeout":
                message = f"the MCP server {self.config.name!r} did not answer within {self.config.timeout:g} s"
                raise ToolError(message, code=error.error_code) from None
            raise ToolError(f"the MCP server {self.config.name!r}: {error.message}", code=error.error_code) from None

    async def _run(self) -> None:
        """Keep the server connected until it is closed."""
        times = self.surroundings.times
        failures = 0
        await self._wait_for(self._hurry, times.start)
        while not self._should_stop():
            self._is_connected = False
            try:
                await self._connect_and_serve()
            except Exception as error:  # noqa: BLE001 - the library raises errors of many others, in groups
                failures = 1 if self._is_connected else failures + 1
                if not self._is_connected and self._is_tried_otherwise(error):
                    continue
                await self._fail(_leaf(error))
            if self._should_stop():
                return
            if self._state == "needs_auth" or (not self._has_worked and failures >= times.first_attempts):
                await self._retry_now.wait()
                failures = 0
            else:
                await self._pause(min(times.first_retry * 2 ** (failures - 1), times.longest_retry))
            if self._retry_now.is_set() and not self._should_stop():
                self._retry_now.clear()
                self._settled.clear()
                await self._set("starting", "")

    async def _pause(self, seconds: float) -> None:
        await self._wait_for(self._retry_now, seconds)

    async def _wait_for(self, event: asyncio.Event, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            pass

    async def _fail(self, error: BaseException) -> None:
        if self.config.url and self._is_login_needed(error):
            await self._set("needs_auth", f"log in with 'holdfast mcp login {self.config.name}'")
            return
        if isinstance(error, TimeoutError) and not self._is_connected:
            text = f"it was not ready within {self.config.start_timeout:g} s"
        elif isinstance(error, RuntimeError) and self._lost:  # uvloop's words about a pipe that was closed
            text = self._lost
        else:
            text = describe_error(error)
        if self._has_worked:
            text = f"{text}; it is being connected again"
        self.log.add(text)
        await self._set("failed", text)

    def _is_login_needed(self, error: BaseException) -> bool:
        from holdfast.extend.mcp.login_flow import LoginNeeded

        return isinstance(error, LoginNeeded) or (self._refused == 401 and not self._is_login)

    def _is_tried_otherwise(self, error: BaseException) -> bool:
        """Whether the same server is to be tried with another transport or handshake at once."""
        from holdfast.extend.mcp.mcp_session import is_unknown_handshake

        if not self._is_modern and is_unknown_handshake(_leaf(error)):
            self._is_modern = True
            return True
        if self.config.url and self.config.transport is None and not self._uses_sse and self._refused in (404, 405):
            self._uses_sse = True
            return True
        return False

    async def _connect_and_serve(self) -> None:
        self._lost, self._changed_lists = "", set()
        self._wake.clear()
        await asyncio.to_thread(import_module, "holdfast.extend.mcp.mcp_session")
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(_LOGIN_SECONDS if self._is_login else self.config.start_timeout):
                session = await stack.enter_async_context(self._open_session())
                await self._read_lists(session, {"tools", "prompts", "resources"})
                self.instructions = clean_text(session.instructions, limit=_MAX_INSTRUCTIONS)
            self._session = session
            self._is_connected = self._has_worked = True
            try:
                await self._set("ready", self._describe())
                await self._serve(session)
            finally:
                self._session = None

    async def _serve(self, session: McpSession) -> None:
        times = self.surroundings.times
        while not self._should_stop():
            if self._lost:
                raise _Lost(self._lost)
            try:
                async with asyncio.timeout(times.ping):
                    await self._wake.wait()
                self._wake.clear()
            except TimeoutError:
                await self._ping(session)
            if self._changed_lists and not self._should_stop():
                changed, self._changed_lists = self._changed_lists, set()
                await self._read_lists(session, changed)
                await self._set("ready", self._describe())
                await self._pause(times.relist)

    async def _ping(self, session: McpSession) -> None:
        if not session.can_ping:
            return
        try:
            async with asyncio.timeout(self.surroundings.times.ping_answer):
                await session.ping()
        except TimeoutError:
            raise _Lost("it does not answer any more") from None
        except ToolError as error:
            if error.error_code == "mcp_closed":
                raise _Lost("the connection was closed") from None

    async def _read_lists(self, session: McpSession, kinds: Collection[str]) -> None:
        if "tools" in kinds and session.offers_tools:
            self.tools = read_tools(
                self.config.name,
                await session.list_tools(),
                allowed=self.config.tools,
                disabled=self.config.disabled_tools,
                taken=self.surroundings.names_of_others(self.config.name),
            )
        if "prompts" in kinds and session.offers_prompts:
            self.prompts = tuple(await session.list_prompts())
        if "resources" in kinds and session.offers_resources:
            self.resources = tuple(await session.list_resources())
            self.resource_templates = tuple(await session.list_resource_templates())

    def _describe(self) -> str:
        counts = (
            (len(self.tools.definitions), "tool"),
            (len(self.prompts), "prompt"),
            (len(self.resources), "resource"),
        )
        parts = [f"{count} {what}{'' if count == 1 else 's'}" for count, what in counts if count or what == "tool"]
        return "; ".join([", ".join(parts), *self.tools.notes])

    @asynccontextmanager
    async def _open_session(self) -> AsyncIterator[McpSession]:
        from holdfast.extend.mcp.mcp_session import SessionHandlers, open_session

        handlers = SessionHandlers(
            elicit=self._elicit,
            sample=self._sample,
            may_sample=self.config.sampling,
            list_changed=self._note_change,
            report=self.log.add,
        )
        opened = self._open_process() if self.config.command else self._open_http()
        async with (
            opened as transport,
            open_session(
                transport,
                handlers,
                directory=self.surroundings.directory,
                seconds=max(self.config.timeout, self.config.start_timeout),
                is_modern=self._is_modern,
            ) as session,
        ):
            yield session

    @asynccontextmanager
    async def _open_process(self) -> AsyncIterator[Any]:
        from holdfast.extend.mcp.mcp_session import open_stdio

        around = self.surroundings
        command = CommandSpec(
            self.config.command,
            around.directory,
            server_environment(self.config, around.env, secret=around.secret()),
            mark=around.new_id(),
            piped=True,
        )
        running = await around.launcher.start(command)
        tasks = OwnedTasks()
        _ = tasks.spawn(self._read_errors(running), name=f"mcp:{self.config.name}:stderr")
        _ = tasks.spawn(self._watch_exit(running), name=f"mcp:{self.config.name}:exit")
        try:
            yield open_stdio(running, max_message=MAX_MESSAGE, report=self.log.add)
        finally:
            await _end_process(running)
            await tasks.finish(seconds=_CANCEL_SECONDS)
            running.stop_reading()

    @asynccontextmanager
    async def _open_http(self) -> AsyncIterator[Any]:
        from holdfast.extend.mcp.http_limits import HttpRefusals, make_client
        from holdfast.extend.mcp.mcp_session import open_http, open_sse

        assert self.config.url is not None
        self._refused = None
        refusals = HttpRefusals()
        async with AsyncExitStack() as stack:
            auth = await self._make_auth(stack)
            client = await asyncio.to_thread(
                make_client,
                self.config.url,
                self.surroundings.network,
                headers=self.config.headers,
                max_message=MAX_MESSAGE,
                refusals=refusals,
                read_seconds=max(_READ_SECONDS, self.config.timeout),
                auth=auth,
            )
            try:
                if self._uses_sse:
                    yield open_sse(self.config.url, client, seconds=self.config.start_timeout)
                else:
                    await stack.enter_async_context(client)
                    yield open_http(self.config.url, client, max_message=MAX_MESSAGE)
            finally:
                self._refused = refusals.status

    async def _make_auth(self, stack: AsyncExitStack) -> Any:
        """Return what adds the tokens of a login to requests; None if nobody has logged in or is about to."""
        from holdfast.extend.mcp.login_flow import LoginCallback, make_auth

        assert self.config.url is not None
        store = LoginStore(self.surroundings.secrets, name=self.config.name, url=self.config.url)
        login = await store.load()
        if self._is_login:
            callback = self._callback = LoginCallback()
            await stack.enter_async_context(callback.listen(login.port))
            return make_auth(self.config.url, store, callback=callback, show=self._show_login)
        return None if login.tokens is None else make_auth(self.config.url, store, callback=None, show=None)

    def _show_login(self, address: str) -> None:
        self.login_address = address
        self._login_shown.set()

    def finish_login(self, address: str) -> None:
        """Take the address to which a browser on another machine was sent. Raises `BadRequest`."""
        if self._callback is None or not self.login_address or not self.is_starting:
            name = self.config.name
            raise BadRequest(f"no login to the MCP server {name!r} is waiting; begin with 'holdfast mcp login {name}'")
        self._callback.take_address(address, shown=self.login_address)

    async def wait_login(self, *, seconds: float) -> None:
        """Wait until the address of a login is known, or none is needed."""
        self.hurry()
        await self._wait_for(self._login_shown, seconds)

    async def _read_errors(self, running: RunningCommand) -> None:
        assert running.errors is not None
        while data := await running.errors.read(_STDERR_CHUNK):
            self.log.add(data.decode("utf-8", "replace"))

    async def _watch_exit(self, running: RunningCommand) -> None:
        await running.wait_exited()
        code = running.exit_code
        how = "was killed" if code is None or code < 0 else f"exited with status {code}"
        self.log.add(f"the process {how}")
        self._note_lost(f"its process {how}")

    def _should_stop(self) -> bool:
        return self._stopping

    def _note_lost(self, why: str) -> None:
        self._lost = self._lost or why
        self._wake.set()

    def _note_change(self, kind: str) -> None:
        self._changed_lists.add(kind)
        self._wake.set()

    async def _elicit(self, request: dict[str, Any]) -> dict[str, Any]:
        """Let the latest call that runs ask the person. Without one the server gets no answer."""
        running = self._latest_call()
        if running is None:
            return {"action": "decline"}
        return await running.answer(running.handlers.elicit, request) or {"action": "cancel"}

    async def _sample(self, request: dict[str, Any]) -> dict[str, Any]:
        """Let the latest call that runs ask a model. Raises `ToolError` if that is not allowed."""
        try:
            running = self._latest_call()
            if not self.config.sampling:
                raise ToolError(NOT_ALLOWED.format(name=self.config.name))
            if running is None or running.handlers.sample is None:
                raise ToolError("a model can only be asked during a call of a tool")
            answer = await running.answer(running.handlers.sample, request)
            if answer is None:
                raise ToolError("the call has ended")
        except ToolError as error:
            self.log.add(f"the server asked for an answer of a model, and was refused: {error.message}")
            raise
        self.log.add(f"the server got an answer of the model {answer['model']}")
        return answer

    def _latest_call(self) -> RunningCall | None:
        running = [call for task, call in self._running.items() if not task.done()]
        return running[-1] if running else None

    async def _set(self, state: ExtensionState, detail: str) -> None:
        if (self._state, self._detail) == (state, detail):
            self._settle()
            return
        self._state, self._detail = state, detail
        self._settle()
        try:
            await self.surroundings.announce(self.status)
        except HoldfastError:
            _logger.exception("the state of the MCP server %s cannot be announced", self.config.name)

    def _settle(self) -> None:
        if self._state != "starting":
            self._settled.set()
            self._login_shown.set()


def describe_error(error: BaseException) -> str:
    """What went wrong, for a person, in one bounded line."""
    text = error.message if isinstance(error, HoldfastError) else str(error)
    return clean_text(" ".join(text.split()) or type(error).__name__, limit=_MAX_ERROR)


def _leaf(error: BaseException) -> BaseException:
    """Return the first cause in groups of errors."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _end_process(running: RunningCommand) -> None:
    """Close its input, as the protocol says, and kill what does not end by itself soon."""
    if running.input is not None:
        running.input.close()
    try:
        async with asyncio.timeout(_CANCEL_SECONDS):
            await running.wait_tree_ended()
    except TimeoutError:
        pass
    finally:
        await running.kill()
