"""The protocol library's own client as the editor, against a real server. Every message of ours is checked strictly."""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from acp import connect_to_agent, schema
from acp.connection import StreamDirection, StreamEvent
from acp.schema import AllowedOutcome, ClientCapabilities, RequestPermissionResponse, TextContentBlock

from holdfast.acp.acp_agent import AcpAgent
from holdfast.testing import Answer, Call, ReceivedRequest, TestProvider, calls, text
from tests.cli.cli_shell import respond
from tests.support.running_server import RunningServer, run_server

_RESPONSES: dict[str, Any] = {
    "initialize": schema.InitializeResponse,
    "authenticate": schema.AuthenticateResponse,
    "session/new": schema.NewSessionResponse,
    "session/load": schema.LoadSessionResponse,
    "session/resume": schema.ResumeSessionResponse,
    "session/fork": schema.ForkSessionResponse,
    "session/list": schema.ListSessionsResponse,
    "session/close": schema.CloseSessionResponse,
    "session/delete": schema.DeleteSessionResponse,
    "session/prompt": schema.PromptResponse,
    "session/set_mode": schema.SetSessionModeResponse,
    "session/set_config_option": schema.SetSessionConfigOptionResponse,
}
_REQUESTS: dict[str, Any] = {
    "session/update": schema.SessionNotification,
    "session/request_permission": schema.RequestPermissionRequest,
    "elicitation/create": schema.CreateFormSessionElicitationRequest,
    "fs/read_text_file": schema.ReadTextFileRequest,
    "fs/write_text_file": schema.WriteTextFileRequest,
    "terminal/create": schema.CreateTerminalRequest,
    "terminal/output": schema.TerminalOutputRequest,
    "terminal/wait_for_exit": schema.WaitForTerminalExitRequest,
    "terminal/kill": schema.KillTerminalRequest,
    "terminal/release": schema.ReleaseTerminalRequest,
    "$/cancel_request": schema.CancelRequestNotification,
}
_CALL = re.compile(r"^(\w+) (\{.*\})$", re.MULTILINE)
_ID = re.compile(r"\b(wsp|ses|run|msg|call|apr|qst|job|cli)_1[0-9a-z]{24}\b")

Permission = Callable[[dict[str, Any], list[str]], Awaitable[str | None]]


class EditorTerminal:
    """A command that the editor runs."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.output = b""
        self.is_released = False
        self._reading = asyncio.create_task(self._read())

    def name(self, terminals: dict[str, "EditorTerminal"]) -> str:
        return next(name for name, one in terminals.items() if one is self)

    async def _read(self) -> None:
        assert self.process.stdout is not None
        while piece := await self.process.stdout.read(65536):
            self.output += piece

    async def ended(self) -> int:
        await self._reading
        return await self.process.wait()

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


class EditorPeer:
    """An editor. It records every message, and answers requests as the test says."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, dict[str, Any]]] = []
        """``editor`` or ``agent``, and the message."""
        self.wrong: list[str] = []
        self.permissions: list[tuple[dict[str, Any], list[str]]] = []
        self.permit: Permission | None = None
        self.forms: list[dict[str, Any]] = []
        self.form_answer: dict[str, Any] = {}
        self.changed = asyncio.Event()
        self.connection: Any = None
        self.process: asyncio.subprocess.Process | None = None
        self.buffers: dict[str, str] = {}
        """Unsaved files."""
        self.written: dict[str, str] = {}
        self.terminals: dict[str, EditorTerminal] = {}
        self._methods: dict[Any, str] = {}

    # What the test asks.

    async def initialize(self, **capabilities: Any) -> schema.InitializeResponse:
        return await self.connection.initialize(1, ClientCapabilities.model_validate(capabilities))

    async def new(self, work: Path, **fields: Any) -> str:
        opened = await self.connection.new_session(cwd=str(work), mcp_servers=fields.pop("mcp_servers", []), **fields)
        found: str = opened.session_id
        return found

    async def prompt(self, session_id: str, *blocks: Any) -> schema.PromptResponse:
        given = [TextContentBlock(type="text", text=one) if isinstance(one, str) else one for one in blocks]
        return await self.connection.prompt(session_id=session_id, prompt=given)

    async def call(self, method: str, params: Any) -> Any:
        return await self.connection._conn.send_request(method, params)

    def updates(self, kind: str | None = None, *, session: str | None = None) -> list[dict[str, Any]]:
        found = [m["params"] for who, m in self.messages if who == "agent" and m.get("method") == "session/update"]
        return [
            one["update"]
            for one in found
            if (kind is None or one["update"]["sessionUpdate"] == kind) and session in (None, one["sessionId"])
        ]

    def text(self, kind: str = "agent_message_chunk") -> str:
        return "".join(update["content"]["text"] for update in self.updates(kind))

    def call_view(self) -> list[dict[str, Any]]:
        """Tool calls as the editor shows them, after all updates."""
        calls: dict[str, dict[str, Any]] = {}
        for update in self.updates():
            if update["sessionUpdate"] in ("tool_call", "tool_call_update"):
                calls.setdefault(update["toolCallId"], {}).update(update)
        return list(calls.values())

    async def until(self, holds: Callable[[], Any]) -> None:
        while not holds():
            self.changed.clear()
            await self.changed.wait()

    # The library calls these.

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        pass

    async def request_permission(
        self, session_id: str, tool_call: Any, options: Any, **kwargs: Any
    ) -> RequestPermissionResponse:
        call = tool_call.model_dump(by_alias=True, exclude_none=True)
        offered = [option.option_id for option in options]
        self.permissions.append((call, offered))
        self.changed.set()
        chosen = await self.permit(call, offered) if self.permit else "once"
        if chosen is None:
            return RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=chosen))

    async def create_elicitation(self, message: str, mode: Any, **kwargs: Any) -> Any:
        self.forms.append({"message": message, "mode": mode})
        return schema.AcceptElicitationResponse(action="accept", content=self.form_answer)

    async def read_text_file(self, session_id: str, path: str, **kwargs: Any) -> Any:
        if path not in self.buffers:
            text = await asyncio.to_thread(Path(path).read_text)
            return schema.ReadTextFileResponse(content=text)
        return schema.ReadTextFileResponse(content=self.buffers[path])

    async def write_text_file(self, session_id: str, path: str, content: str, **kwargs: Any) -> Any:
        self.written[path] = content
        self.buffers[path] = content
        await asyncio.to_thread(Path(path).write_text, content)
        return schema.WriteTextFileResponse()

    async def create_terminal(
        self, session_id: str, command: str, args: Any = None, env: Any = None, cwd: str | None = None, **kwargs: Any
    ) -> Any:
        """A real command, without a terminal."""
        variables = {**os.environ, **{one.name: one.value for one in env or []}}
        process = await asyncio.create_subprocess_exec(
            *(command, *(args or [])),
            cwd=cwd,
            env=variables,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        terminal = self.terminals[f"term_{len(self.terminals) + 1}"] = EditorTerminal(process)
        self.changed.set()
        return schema.CreateTerminalResponse(terminal_id=terminal.name(self.terminals))

    async def terminal_output(self, session_id: str, terminal_id: str, **kwargs: Any) -> Any:
        output = self.terminals[terminal_id].output.decode()
        return schema.TerminalOutputResponse(output=output, truncated=False)

    async def wait_for_terminal_exit(self, session_id: str, terminal_id: str, **kwargs: Any) -> Any:
        code = await self.terminals[terminal_id].ended()
        found = {"signal": signal.Signals(-code).name} if code < 0 else {"exit_code": code}
        return schema.WaitForTerminalExitResponse(**found)

    async def kill_terminal(self, session_id: str, terminal_id: str, **kwargs: Any) -> Any:
        self.terminals[terminal_id].kill()
        return schema.KillTerminalResponse()

    async def release_terminal(self, session_id: str, terminal_id: str, **kwargs: Any) -> Any:
        self.terminals[terminal_id].is_released = True
        self.terminals[terminal_id].kill()
        self.changed.set()
        return schema.ReleaseTerminalResponse()

    def on_connect(self, conn: Any) -> None:
        pass

    # Checks.

    def observe(self, event: StreamEvent) -> None:
        is_ours = event.direction is StreamDirection.INCOMING
        message = event.message
        self.messages.append(("agent" if is_ours else "editor", message))
        if not is_ours and "id" in message and "method" in message:
            self._methods[message["id"]] = message["method"]
        if is_ours and (wrong := self._problem(message)):
            self.wrong.append(f"{wrong}: {json.dumps(message)[:2000]}")
        self.changed.set()

    def _problem(self, message: dict[str, Any]) -> str:
        """What the schema does not know or would drop."""
        if message.get("jsonrpc") != "2.0":
            return "no jsonrpc"
        if "method" in message:
            return _difference(_REQUESTS.get(message["method"]), message.get("params"))
        if "error" in message:
            return _difference(schema.Error, message["error"])
        return _difference(_RESPONSES.get(self._methods.get(message["id"], "")), message["result"])


def _difference(model: Any, value: Any) -> str:
    if model is None:
        return "the schema has no such message"
    try:
        kept = model.model_validate(value).model_dump(mode="json", by_alias=True, exclude_unset=True)
    except ValueError as error:
        return str(error)
    return "" if kept == value else f"the schema keeps only {kept}"


@asynccontextmanager
async def editor_server(directory: Path, *, config: str = "") -> AsyncIterator[RunningServer]:
    """A server whose provider follows the orders in prompts (`tests/cli/cli_shell.py`)."""
    async with run_server(directory, TestProvider(respond)) as server:
        if config:
            file = directory / "home" / "config" / "config.toml"
            file.write_text(file.read_text() + config)
        yield server


def call_as_told(received: ReceivedRequest) -> Answer:
    """Prompts are tool calls: ``view {"path": "x"}``. The answer is the result."""
    messages = received.body["messages"]
    if "Give this coding task a title" in str(messages[0]):
        return text("A title")
    if messages[-1]["role"] == "tool":
        return text(str(messages[-1]["content"]))
    said = "\n".join(str(one["content"]) for one in messages if one["role"] == "user")
    name, arguments = _CALL.findall(said)[-1]
    return calls(Call(name, json.loads(arguments)))


def server_env(server: RunningServer) -> dict[str, str]:
    home = server.work.parent / "home"
    return {**os.environ, "HOLDFAST_HOME": str(home), "HOLDFAST_SERVER": f"unix:{server.http._address}"}


@asynccontextmanager
async def editor_in_process(server: RunningServer) -> AsyncIterator[EditorPeer]:
    """An editor whose agent runs in this process, on two pipes: most tests need no process of their own."""
    to_agent, from_editor = os.pipe()
    to_editor, from_agent = os.pipe()
    agent = AcpAgent(env=server_env(server), reads=to_agent, writes=from_agent)
    serving = asyncio.create_task(agent.run())
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 26)
    incoming, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(to_editor, "rb"))
    outgoing, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, os.fdopen(from_editor, "wb"))
    writer = asyncio.StreamWriter(outgoing, protocol, None, loop)
    peer = EditorPeer()
    try:
        async with _connected(peer, writer, reader):
            yield peer
    finally:
        outgoing.close()
        await serving
        incoming.close()
        os.close(to_agent)
        os.close(from_agent)
    assert peer.wrong == []


@asynccontextmanager
async def editor_process(server: RunningServer) -> AsyncIterator[EditorPeer]:
    """An editor that starts ``holdfast acp`` and talks to it on real stdin and stdout."""
    async with editor_with(server_env(server)) as peer:
        yield peer


@asynccontextmanager
async def editor_with(env: dict[str, str]) -> AsyncIterator[EditorPeer]:
    """The same, in this environment."""
    process = await _start(env)
    assert process.stdin is not None
    assert process.stdout is not None
    peer = EditorPeer()
    peer.process = process
    try:
        async with _connected(peer, process.stdin, process.stdout):
            yield peer
    finally:
        with suppress(ProcessLookupError):
            process.stdin.close()
        await process.wait()
        process._transport.close()  # type: ignore[attr-defined]
    assert peer.wrong == []


async def start_agent(server: RunningServer) -> asyncio.subprocess.Process:
    return await _start(server_env(server))


async def _start(env: dict[str, str]) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast", "acp"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=env,
        limit=1 << 26,
    )


@asynccontextmanager
async def _connected(
    peer: EditorPeer, writer: asyncio.StreamWriter, reader: asyncio.StreamReader
) -> AsyncIterator[None]:
    peer.connection = connect_to_agent(
        peer,  # type: ignore[arg-type]
        writer,
        reader,
        use_unstable_protocol=True,
        observers=[peer.observe],
    )
    try:
        yield
    finally:
        await peer.connection.close()


def recorded(peer: EditorPeer, *, directory: Path) -> str:
    """The conversation as text that is the same every time: short ids, texts in one piece, no incidental updates."""
    lines: list[str] = []
    merged: list[tuple[str, dict[str, Any]]] = []
    for who, message in peer.messages:
        update = message.get("params", {}).get("update", {}) if message.get("method") == "session/update" else {}
        kind = update.get("sessionUpdate")
        if kind in ("usage_update", "session_info_update", "available_commands_update"):
            continue
        before = merged[-1][1].get("params", {}).get("update", {}) if merged else {}
        if kind and kind.endswith("_chunk") and before.get("messageId") == update["messageId"]:
            before["content"]["text"] += update["content"]["text"]
        elif kind == "tool_call_update" and before.get("toolCallId") == update["toolCallId"]:
            before.update({name: value for name, value in update.items() if name != "sessionUpdate"})
        else:
            merged.append((who, json.loads(json.dumps(message))))
    for who, message in merged:
        message.pop("jsonrpc")
        if message.get("method") == "terminal/create":
            message["params"]["env"] = "…"
        lines.append(f"{who}: {json.dumps(message, ensure_ascii=False, sort_keys=True)}")
    return shorten("".join(f"{line}\n" for line in lines), directory)


def shorten(text: str, directory: Path) -> str:
    known: dict[str, str] = {}
    counts: dict[str, int] = {}

    def short(found: re.Match[str]) -> str:
        if found[0] not in known:
            counts[found[1]] = counts.get(found[1], 0) + 1
            known[found[0]] = f"{found[1]}_{counts[found[1]]}"
        return known[found[0]]

    text = _ID.sub(short, text.replace(str(directory), "/project"))
    text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:1", text)
    text = re.sub(r'"seconds": [0-9.]+', '"seconds": 0', text)
    text = re.sub(r"\[exit code (\d+), [0-9.]+ s\]", r"[exit code \1]", text)
    text = re.sub(r'"version": "[^"]*"', '"version": "…"', text)
    return re.sub(r'"updatedAt": "[^"]*"', '"updatedAt": "…"', text)
