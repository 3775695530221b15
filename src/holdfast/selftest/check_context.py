"""What a check works with: a server, clients, the provider, a directory, a random source and its share of the time."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from holdfast.client.async_client import AsyncClient
from holdfast.client.own_server import SERVE, OwnServer
from holdfast.client.server_address import ServerAddress
from holdfast.schema.events import Event, RunFinished
from holdfast.schema.runs import END_STATES, Accepted, Run, RunRequest
from holdfast.schema.sessions import WorkspaceView
from holdfast.selftest.check_provider import LARGE, SMALL, CheckProvider
from holdfast.selftest.check_result import PromiseBroken
from holdfast.testing import WIRES, Answer, WireName, text

WAIT_SECONDS = 60.0
"""How long a check waits for what must happen. A machine under load is slow; a promise is not broken by that."""

PROVIDER = "selftest"
_MOST_LOG = 20_000


def provider_config(port: int, *, key: str) -> str:
    """The provider on all four wires, as a configuration file names it."""
    lines = ["[models]", f'large = "{PROVIDER}-openai-chat/{LARGE}"', f'small = "{PROVIDER}-openai-chat/{SMALL}"']
    for wire in WIRES:
        path = "v1beta" if wire == "gemini" else "v1"
        lines += [
            f"[providers.{PROVIDER}-{wire}]",
            f'wire = "{wire}"',
            f'base_url = "http://127.0.0.1:{port}/{path}"',
            *([f'api_key = "{key}"'] if key else []),
            *(f"[providers.{PROVIDER}-{wire}.models.{model}]\ncontext_window = 1000000" for model in (LARGE, SMALL)),
        ]
    return "\n".join(lines) + "\n"


class CheckContext:
    """One check's view of the trial. `counts` is shown while the check runs."""

    def __init__(
        self,
        *,
        address: ServerAddress,
        token: str | None,
        server: OwnServer | None,
        provider: CheckProvider,
        directory: Path,
        secret: str,
        name: str,
        beginning: str,
        seconds: float,
        seed: int,
        on_count: Callable[[dict[str, int]], None],
    ) -> None:
        self.address = address
        self.provider = provider
        self.directory = directory
        """The workspace."""
        self.secret = secret
        """The provider's key."""
        self.random = random.Random(f"{seed} {name}")
        self.beginning = beginning
        """The cursor before the first event of the trial."""
        self.counts: dict[str, int] = {}
        self.other_log = ""
        """Of another server, if the check failed on it."""
        self._server = server
        self._token = token
        self._name = name
        self._until = time.monotonic() + seconds
        self._tags = 0
        self._on_count = on_count
        self._clients: list[AsyncClient] = []
        self._workspace: WorkspaceView | None = None

    @property
    def server(self) -> OwnServer:
        assert self._server is not None, "checks that need their own server are skipped without one"
        return self._server

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + number
        self._on_count(self.counts)

    def expect(self, holds: object, broken: str) -> None:
        """Raise `PromiseBroken` with the text unless the condition holds."""
        if not holds:
            raise PromiseBroken(broken)

    def rounds(self, *, least: int = 1) -> Iterator[int]:
        """Number the rounds, until the check's time is over."""
        number = 0
        while number < least or time.monotonic() < self._until:
            yield number
            number += 1

    def client(self, *, retry_seconds: float = 10.0) -> AsyncClient:
        """A client of its own, closed at the end of the check."""
        made = AsyncClient(self.address, token=self._token, name="selftest", retry_seconds=retry_seconds)
        self._clients.append(made)
        return made

    @asynccontextmanager
    async def other_server(
        self, directory: Path, *, command: Sequence[str] = SERVE, inherited: Sequence[int] = ()
    ) -> AsyncIterator[AsyncClient]:
        """Another server for one check, with the same provider. Yields its client."""
        server = await asyncio.to_thread(
            OwnServer, directory, env=self.server.env, command=command, inherited=inherited
        )
        await asyncio.to_thread(server.locations.prepare)
        server.locations.config_file.write_text(provider_config(self.provider.port, key=self.secret))
        try:
            await asyncio.to_thread(server.start)
            async with AsyncClient(server.address, name="selftest") as client:
                self._workspace = await client.open_workspace(str(self.directory))
                yield client
        except Exception:
            self.other_log = await asyncio.to_thread(end_of_log, server)
            raise
        finally:
            await asyncio.to_thread(server.stop)

    def stream_headers(self) -> str:
        """The headers of a request that no client makes: the token, if the server needs one."""
        return f"Authorization: Bearer {self._token}\r\n" if self._token else ""

    async def workspace(self, client: AsyncClient) -> WorkspaceView:
        if self._workspace is None:
            self._workspace = await client.open_workspace(str(self.directory))
        return self._workspace

    async def new_session(self, client: AsyncClient) -> str:
        return (await client.create_session((await self.workspace(client)).id, title=f"selftest {self._name}")).id

    def plan(self, *answers: Answer) -> tuple[str, str]:
        """Plan the answers to a new prompt. Returns its tag and its text."""
        self._tags += 1
        tag = f"{self._name}-{self._tags}"
        return tag, self.provider.plan(tag, *answers)

    def wire(self) -> WireName:
        return self.random.choice(WIRES)

    def request(self, prompt: str, *, wire: WireName = "openai-chat", interactive: bool = False) -> RunRequest:
        return RunRequest(
            prompt=prompt,
            model=f"{PROVIDER}-{wire}/{LARGE}",
            mode="ask" if interactive else "auto",
            interactive=interactive,
        )

    async def start(self, client: AsyncClient, session_id: str, request: RunRequest) -> Accepted:
        accepted = await client.start_run(session_id, request)
        self.count("prompts")
        return accepted

    async def start_short(self, client: AsyncClient, session_id: str) -> str:
        """Send a prompt with a short answer. Returns the id of its run."""
        _, prompt = self.plan(text("short"))
        return (await self.start(client, session_id, self.request(prompt))).run.id

    async def answer_next(self, client: AsyncClient, session_id: str) -> str:
        """Expect that the session takes another prompt and answers it. Returns the prompt's tag."""
        tag, prompt = self.plan(text("next"))
        run = (await self.start(client, session_id, self.request(prompt))).run
        ended = await self.end_of(client, run.id)
        self.expect(ended.state == "completed", f"the next prompt ended {ended.state} ({ended.reason})")
        return tag

    async def end_of(self, client: AsyncClient, run_id: str) -> Run:
        """Wait for the end of a run."""
        run = await client.wait_run(run_id, seconds=WAIT_SECONDS)
        self.expect(run.state in END_STATES, f"run {run_id} has not ended after {WAIT_SECONDS:g} s: it is {run.state}")
        return run

    async def events_until_end(self, client: AsyncClient, run_id: str, *, after: str) -> list[Event]:
        """All events after a cursor, up to and including the end of a run."""
        found: list[Event] = []
        async with asyncio.timeout(WAIT_SECONDS), client.events(after=after) as stream:
            async for event in stream:
                found.append(event)
                if isinstance(event, RunFinished) and event.run.id == run_id:
                    return found
        raise PromiseBroken(f"the event stream ended before the end of run {run_id}")

    async def aclose(self) -> None:
        for client in self._clients:
            await client.aclose()

    async def restart_after_kill(self) -> None:
        """``kill -9``, then a new start."""
        await asyncio.to_thread(self.server.kill)
        self.count("kills")
        await asyncio.to_thread(self.server.start)


def end_of_log(server: OwnServer) -> str:
    """The end of a server's log and of what it printed. Blocks."""
    files = sorted(server.locations.logs_dir.glob("*"))
    texts = [file.read_text(errors="replace")[-_MOST_LOG:] for file in files if file.is_file()]
    return "\n".join([*texts, server.printed()]).strip()


async def all_runs(client: AsyncClient, session_id: str) -> list[Run]:
    """Every run of a session, newest first."""
    found: list[Run] = []
    before: str | None = None
    while True:
        page = await client.runs(session_id, before=before)
        found.extend(page.items)
        if page.next is None:
            return found
        before = page.next


async def poll(what: str, holds: Callable[[], bool]) -> None:
    """Wait for something that no event reports, such as the end of a process."""
    until = time.monotonic() + WAIT_SECONDS
    while not await asyncio.to_thread(holds):
        if time.monotonic() > until:
            raise PromiseBroken(f"{what}: not after {WAIT_SECONDS:g} s")
        await asyncio.sleep(0.05)
