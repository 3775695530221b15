"""A whole server on real sockets in this process, with a provider on loopback."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from holdfast.app import App, find_tool_peers, listen_for_crush, open_app
from holdfast.locations import Locations
from holdfast.runs import EngineLimits
from holdfast.server import (
    ServerLimits,
    ServerParts,
    TcpAccess,
    TcpAddress,
    UnixListener,
    listen_tcp,
    listen_unix,
    serve,
)
from holdfast.server.http.responses import AsgiApp
from holdfast.testing import Answer, ReceivedRequest, TestProvider, text
from tests.support.engine_harness import LONG_LIMITS
from tests.support.http_client import HttpClient, Stream

TOKEN = "a-token-that-tests-use"

CONFIG = """
[models]
large = "test/test-model"
[providers.test]
wire = "openai-chat"
base_url = "{url}"
api_key = "{key}"
[server]
heartbeat = "{heartbeat}"
"""
KEY = "sk-planted-secret-0123456789"


def answering(*answers: Answer) -> TestProvider:
    """Return a provider that answers runs with these answers, in order. Requests for a title get their own."""
    waiting = list(answers)

    def respond(received: ReceivedRequest) -> Answer:
        if "Give this coding task a title" in str(received.body["messages"][0]):
            return text("A title")
        return waiting.pop(0) if waiting else text("The script has ended.")

    return TestProvider(respond)


class RunningServer:
    """A running server, its parts, and clients for it."""

    def __init__(
        self, app: App, parts: ServerParts, *, unix: HttpClient, tcp: HttpClient, provider: TestProvider, work: Path
    ) -> None:
        self.app = app
        self.parts = parts
        self.http = unix
        self.tcp = tcp
        self.provider = provider
        self.work = work
        self.workspace_id = ""
        self.serving: asyncio.Task[None]
        self.watcher: Stream
        """With `idle_exit`: an open stream of all events, which keeps the server up and its workspaces loaded."""

    async def open(self, path: Path | None = None) -> str:
        answer = await self.http.post("/v1/workspaces", {"path": str(path or self.work)})
        assert answer.status in (200, 201), answer.body
        found: str = answer.json()["id"]
        return found

    async def session(self, **body: Any) -> str:
        answer = await self.http.post(f"/v1/workspaces/{self.workspace_id}/sessions", body)
        found: str = answer.ok(201)["id"]
        return found

    async def prompt(self, session_id: str, prompt: str = "hello", **body: Any) -> dict[str, Any]:
        answer = await self.http.post(f"/v1/sessions/{session_id}/runs", {"prompt": prompt, **body})
        found: dict[str, Any] = answer.ok(202)
        return found

    async def ended(self, run_id: str) -> dict[str, Any]:
        found: dict[str, Any] = (await self.http.get(f"/v1/runs/{run_id}?wait=30")).ok()
        return found

    def stop(self) -> None:
        self.app.services.state.request_stop()


@asynccontextmanager
async def run_server(
    directory: Path,
    provider: TestProvider | None = None,
    *,
    engine_limits: EngineLimits = LONG_LIMITS,
    limits: ServerLimits | None = None,
    heartbeat: str = "10s",
    max_streams: int = 256,
    linger: float = 600.0,
    idle_exit: bool = False,
    env: Mapping[str, str] | None = None,
    crush: str | None = None,
    traces: str | None = None,
    config: str = "",
    work_name: str = "work",
    static_files: Path | None = None,
    wrap_crush: Callable[[AsgiApp], AsgiApp] = lambda app: app,
) -> AsyncIterator[RunningServer]:
    """Run a server with a workspace open at ``directory/work_name``. At the end it has stopped.

    ``config`` has further tables of the settings. ``crush`` is the address for the clients of Crush, and ``wrap_crush``
    is applied to what answers there.
    """
    work = directory / work_name
    work.mkdir(exist_ok=True)
    environment = {**os.environ, "HOLDFAST_HOME": str(directory / "home"), **(env or {})}
    locations = Locations.from_env(environment)
    async with provider or answering() as provider:
        locations.config_dir.mkdir(parents=True, exist_ok=True)
        if not locations.config_file.exists() or "[providers.test]" in locations.config_file.read_text():
            settings = CONFIG.format(url=provider.url(), key=KEY, heartbeat=heartbeat)
            more = "" if traces is None else f'traces = "{traces}"\n'
            locations.config_file.write_text(f"{settings}max_streams = {max_streams}\n{more}{config}")
        async with open_app(locations, environment, engine_limits=engine_limits, build="test-build") as app:
            parts = ServerParts(
                services=app.services,
                redactor=lambda: app.shared.keyring.redactor,
                limits=limits or ServerLimits(),
                find_tool_peers=find_tool_peers(app),
                static_files=static_files,
            )
            unix = await asyncio.to_thread(listen_unix, locations.socket)
            tcp = listen_tcp(TcpAddress("127.0.0.1", 0), access=TcpAccess(TOKEN))
            others = [] if crush is None else await asyncio.to_thread(listen_for_crush, app, parts, crush)
            for other in others:
                assert isinstance(other, UnixListener)
                assert other.app is not None
                other.app = wrap_crush(other.app)
            ready = asyncio.Event()
            starting = ExitStack()
            starting.enter_context(app.services.state.track_request())  # no idle exit before the test begins
            task = asyncio.create_task(
                serve(parts, [unix, tcp, *others], linger=linger, idle_exit=idle_exit, ready=ready.set), name="serve"
            )
            try:
                await ready.wait()
                server = RunningServer(
                    app,
                    parts,
                    unix=HttpClient(str(locations.socket), client="test/1 cli_test"),
                    tcp=HttpClient(("127.0.0.1", tcp.port), token=TOKEN),
                    provider=provider,
                    work=work,
                )
                server.serving = task
                if idle_exit:
                    server.watcher = await server.http.open_stream("/v1/events")
                else:
                    server.workspace_id = await server.open()
                starting.close()
                yield server
            finally:
                app.services.state.request_stop()
                await task


def hold_stop(server: RunningServer) -> asyncio.Event:
    """Make a stop of the server wait for the returned event, after its runs have stopped."""
    held, stop_runs = asyncio.Event(), server.app.engine.stop

    async def stop_later() -> None:
        await stop_runs()
        await held.wait()

    server.app.engine.stop = stop_later  # type: ignore[method-assign]
    return held


async def until(holds: Callable[[], bool]) -> None:
    """Wait until the condition holds. The test's time-out is the limit."""
    while not holds():
        await asyncio.wait([asyncio.ensure_future(asyncio.sleep(0.001))])
