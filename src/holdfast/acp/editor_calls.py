"""What the server asks of the editor during tool calls: files as the editor has them, and commands in its terminals.

They are tools that this client attaches to its session (`schema/client_tools.py`); the model does not see them. A
command is not cancelled with the call that started it: it is told to stop, killed, and its end is awaited, so that the
server learns what became of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import msgspec

from holdfast.acp.editor_offers import EditorOffers, EditorPaths
from holdfast.acp.tool_updates import JsonObject
from holdfast.client.async_client import AsyncClient
from holdfast.errors import HoldfastError
from holdfast.schema.base import encode
from holdfast.schema.client_tools import (
    ClientCall,
    ClientResult,
    EditorCommand,
    EditorCommandEnd,
)
from holdfast.schema.client_variables import is_secret
from holdfast.tasks import OwnedTasks

_logger = logging.getLogger(__name__)

_KILL_SECONDS = 5.0
_CLOSE_SECONDS = 2.0
_OUTPUT_BYTES = 1 << 20


class Editor(Protocol):
    """The editor, as a session uses it."""

    async def request(self, method: str, params: JsonObject) -> Any: ...

    async def notify(self, method: str, params: JsonObject) -> None: ...


class EditorCalls:
    """Executes the calls of one session."""

    def __init__(
        self,
        session_id: str,
        *,
        client: AsyncClient,
        editor: Editor,
        offers: EditorOffers,
        paths: EditorPaths,
        env: Mapping[str, str],
        show_terminal: Callable[[str, str], Awaitable[None]],
    ) -> None:
        """``show_terminal`` tells the editor which terminal belongs to which tool call."""
        self._session_id = session_id
        self._client = client
        self._editor = editor
        self._offers = offers
        self._paths = paths
        self._env = env
        self._show_terminal = show_terminal
        self._client_id = ""
        self._server_pid: int | None = None
        self._commands: dict[str, _TerminalCommand] = {}
        """By the tool call to which they belong."""
        self._executing: dict[str, asyncio.Task[None]] = {}
        self._tasks = OwnedTasks()

    async def attach(self) -> None:
        """Offer the tools. Again with each connection: a new server does not know them."""
        if not self._offers.tools:
            return
        try:
            if self._offers.terminals:
                await self._stop_if_replaced()
            attached = await self._client.attach_tools(self._session_id, list(self._offers.tools))
        except HoldfastError as error:
            _logger.warning("the editor's files and terminals are not used: %s", error)
            return
        self._client_id = attached.client.rpartition(" ")[2]

    async def _stop_if_replaced(self) -> None:
        """Stop the commands of a server that is gone: its runs have ended, and nobody waits for them."""
        pid = (await self._client.server()).pid
        if self._server_pid not in (None, pid):
            self.stop_all()
        self._server_pid = pid

    def begin(self, call: ClientCall) -> None:
        """Execute a call if it is for this editor, once: a new stream announces open calls again."""
        is_ours = bool(self._client_id) and call.client_id == self._client_id
        if not is_ours or call.root_session_id != self._session_id or call.id in self._executing:
            return
        task = self._tasks.spawn(self._answer(call), name=f"acp:{call.id}")
        self._executing[call.id] = task
        task.add_done_callback(lambda _: self._executing.pop(call.id, None))

    def closed(self, call_id: str) -> None:
        """The result of a call is no longer needed."""
        if (task := self._executing.get(call_id)) is not None:
            task.cancel()

    async def _answer(self, call: ClientCall) -> None:
        try:
            await self._client.answer_call(call.id, await self._result(call))
        except (ConnectionError, HoldfastError) as error:
            _logger.info("call %s is not answered: %s", call.id, error)

    async def _result(self, call: ClientCall) -> ClientResult:
        from acp.exceptions import RequestError

        try:
            return await self._execute(call)
        except RequestError as error:
            return ClientResult(str(error) or "no reason is known", status="error")
        except TimeoutError as error:
            return ClientResult(str(error), status="error")
        except (AttributeError, TypeError, ValueError, KeyError, msgspec.MsgspecError):
            return ClientResult("the editor's response has the wrong form", status="error")

    async def _execute(self, call: ClientCall) -> ClientResult:
        match call.tool:
            case "editor_read_file":
                found = await self._request("fs/read_text_file", path=self._path(call))
                return _text_result(found["content"])
            case "editor_write_file":
                await self._request("fs/write_text_file", path=self._path(call), content=call.arguments["text"])
                return ClientResult("written")
            case "editor_run":
                command = msgspec.convert(call.arguments, EditorCommand)
                return ClientResult(encode(await self._run(call.call_id, command)).decode())
            case "editor_stop":
                end = await self._stopped(str(call.arguments["call_id"]))
                return ClientResult("it still runs", status="error") if end is None else _end_result(end)
            case other:
                return ClientResult(f"there is no {other!r} here", status="error")

    def _path(self, call: ClientCall) -> str:
        return self._paths.to_editor(str(call.arguments["path"]))

    async def _request(self, method: str, **params: Any) -> Any:
        return await self._editor.request(method, {"sessionId": self._session_id, **params})

    # Commands.

    async def _run(self, call_id: str, command: EditorCommand) -> EditorCommandEnd:
        running = self._commands[call_id] = _TerminalCommand(self._request)
        work = running.run(self._create(command), shown=lambda terminal: self._show_terminal(call_id, terminal))
        task = running.task = self._tasks.spawn(work, name=f"acp:{call_id}:terminal", may_fail=True)
        try:
            end = await asyncio.shield(task)
        except asyncio.CancelledError:
            running.stop.set()
            raise
        except BaseException:
            self._commands.pop(call_id, None)
            raise
        self._commands.pop(call_id, None)
        return end

    def _create(self, command: EditorCommand) -> JsonObject:
        hidden = {name: "" for name, value in self._env.items() if is_secret(name, value)}
        env = {**hidden, **command.environment}
        return {
            "command": command.program,
            "args": list(command.arguments),
            "cwd": self._paths.to_editor(command.directory),
            "env": [{"name": name, "value": value} for name, value in sorted(env.items())],
            "outputByteLimit": _OUTPUT_BYTES,
        }

    async def _stopped(self, call_id: str) -> EditorCommandEnd | None:
        running = self._commands.pop(call_id, None)
        if running is None or running.task is None:
            return EditorCommandEnd()  # it was never started
        running.stop.set()
        return await running.task

    def stop_all(self) -> None:
        """The server that started the commands is gone."""
        for running in self._commands.values():
            running.stop.set()
        self._commands.clear()

    async def close(self) -> None:
        for task in self._executing.values():
            task.cancel()
        self.stop_all()
        await self._tasks.finish(seconds=_CLOSE_SECONDS)


class _TerminalCommand:
    """One command in a terminal of the editor."""

    def __init__(self, request: Callable[..., Awaitable[Any]]) -> None:
        self._request = request
        self.stop = asyncio.Event()
        self.task: asyncio.Task[EditorCommandEnd] | None = None

    async def run(self, create: JsonObject, *, shown: Callable[[str], Awaitable[None]]) -> EditorCommandEnd:
        terminal: str = (await self._request("terminal/create", **create))["terminalId"]
        try:
            await shown(terminal)
            exited = await self._wait(terminal)
            return _read_end(await self._request("terminal/output", terminalId=terminal), exited)
        finally:
            await self._request("terminal/release", terminalId=terminal)

    async def _wait(self, terminal: str) -> Mapping[str, Any]:
        """Wait until the command has ended. If it is to stop, kill it first. Returns how it ended."""
        exited = asyncio.ensure_future(self._request("terminal/wait_for_exit", terminalId=terminal))
        stopped = asyncio.ensure_future(self.stop.wait())
        try:
            await asyncio.wait((exited, stopped), return_when=asyncio.FIRST_COMPLETED)
            if not exited.done():
                await self._request("terminal/kill", terminalId=terminal)
                await asyncio.wait((exited,), timeout=_KILL_SECONDS)
            if not exited.done():
                raise TimeoutError("the command still runs")
            return exited.result() or {}
        finally:
            stopped.cancel()
            exited.cancel()


def _text_result(content: object) -> ClientResult:
    return ClientResult(content) if isinstance(content, str) else ClientResult("no text", status="error")


def _end_result(end: EditorCommandEnd) -> ClientResult:
    return ClientResult(encode(end).decode())


def _read_end(found: Mapping[str, Any], exited: Mapping[str, Any]) -> EditorCommandEnd:
    status = found.get("exitStatus") or exited
    return EditorCommandEnd(
        output=str(found["output"]),
        truncated=bool(found.get("truncated")),
        exit_code=status.get("exitCode"),
        signal=status.get("signal"),
    )
