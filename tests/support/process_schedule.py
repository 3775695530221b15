"""Fault schedules on a real server process: killed, suspended, stopped, on a full or broken disk, with a wrong clock.

The model is a provider on loopback, on all four wires. Its answers are slow, dropped, refused, rubbish, or hang.
"""

import asyncio
import os
import random
import resource
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from msgspec.structs import replace

from holdfast.client.async_client import AsyncClient
from holdfast.client.own_server import OwnServer
from holdfast.errors import HoldfastError
from holdfast.schema.events import RunFinished
from holdfast.schema.runs import END_STATES, Receipt, RunRequest
from holdfast.selftest.check_context import CheckContext, all_runs, provider_config
from holdfast.selftest.check_provider import CheckProvider
from holdfast.testing import Answer, Call, Hang, Say, calls
from tests.store.faulty_database import small_disk
from tests.support.cutting_proxy import CuttingProxy

_JUMPS = (-315_360_000.0, -3_600.0, 60.0, 86_400.0)
_STATES = ("completed", "cancelled", "interrupted", "failed")
_SOON = {"retry-after-ms": "10"}


class ProcessSchedules:
    """One server process, its provider and its disk. Schedules are played one after another."""

    def __init__(
        self,
        server: OwnServer,
        provider: CheckProvider,
        *,
        work: Path,
        clock: Path,
        disk: Path | None,
        database: CuttingProxy | None = None,
    ) -> None:
        """``database``: the way to PostgreSQL; without it the store is a file on the disk."""
        self.server = server
        self.provider = provider
        self.work = work
        self.clock = clock
        self.disk = disk
        self.database = database
        self.faults: dict[str, Callable[[random.Random], AsyncIterator[None]]] = {
            "kill": self._kill,
            "stop": self._stop,
            "suspend": self._suspend,
            "clock": self._jump,
            "none": self._nothing,
        }
        if database is not None:
            self.faults |= {"cut connections": self._cut, "no database": self._take_database}
            return
        self.faults["broken disk"] = self._break_disk
        if disk is not None:
            self.faults["full disk"] = self._fill_disk

    async def play(self, seed: int, *, fault: str | None = None) -> Counter[str]:
        chance = random.Random(seed)
        fault = fault or chance.choice(list(self.faults))
        context = CheckContext(
            address=self.server.address,
            token=None,
            server=self.server,
            provider=self.provider,
            directory=self.work,
            secret="",
            name=f"seed{seed}",
            beginning="",
            seconds=0,
            seed=seed,
            on_count=lambda counts: None,
        )
        try:
            await _Schedule(context, chance, seed).play(self.faults[fault])
        except BaseException as error:
            printed = await asyncio.to_thread(self.server.printed)
            error.add_note(f"seed {seed}, fault {fault!r}; the server printed: {printed[-2000:]}")
            raise
        finally:
            await context.aclose()
        return Counter({**context.counts, f"times {fault}": 1})

    async def _kill(self, chance: random.Random) -> AsyncIterator[None]:
        await asyncio.to_thread(self.server.kill)
        await asyncio.to_thread(self.server.start)
        yield

    async def _stop(self, chance: random.Random) -> AsyncIterator[None]:
        status = await asyncio.to_thread(self.server.stop)
        assert status == 0, f"W5: the server ended with status {status}"
        await asyncio.to_thread(self.server.start)
        yield

    async def _suspend(self, chance: random.Random) -> AsyncIterator[None]:
        os.kill(self.server.pid, signal.SIGSTOP)
        try:
            yield
            await asyncio.sleep(chance.random() * 0.3)
        finally:
            os.kill(self.server.pid, signal.SIGCONT)

    async def _break_disk(self, chance: random.Random) -> AsyncIterator[None]:
        """The kernel refuses to write to files: SQLite reports an I/O error."""
        resource.prlimit(self.server.pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
        try:
            yield
        finally:
            no_limit = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            resource.prlimit(self.server.pid, resource.RLIMIT_FSIZE, no_limit)

    async def _fill_disk(self, chance: random.Random) -> AsyncIterator[None]:
        assert self.disk is not None
        filler = self.disk / "filler"
        await asyncio.to_thread(_fill, filler)
        try:
            yield
        finally:
            filler.unlink()

    async def _jump(self, chance: random.Random) -> AsyncIterator[None]:
        self.clock.write_text(str(chance.choice(_JUMPS)))
        yield

    async def _cut(self, chance: random.Random) -> AsyncIterator[None]:
        """All connections to the database break after a number of bytes, twice."""
        assert self.database is not None
        for _ in range(2):
            self.database.arm(int(10 ** chance.uniform(0, 4.5)))
            await asyncio.to_thread(self.database.wait_for_cut)
        yield

    async def _take_database(self, chance: random.Random) -> AsyncIterator[None]:
        assert self.database is not None
        self.database.is_down = True
        self.database.cut_all()
        try:
            yield
            await asyncio.sleep(chance.random())
        finally:
            self.database.is_down = False

    async def _nothing(self, chance: random.Random) -> AsyncIterator[None]:
        yield


class _Schedule:
    """Some prompts to one session, a fault in the middle, and the promises at the end."""

    def __init__(self, context: CheckContext, chance: random.Random, seed: int) -> None:
        self._context = context
        self._chance = chance
        self._seed = seed
        self._said: dict[str, str] = {}
        self._effects: dict[str, Path] = {}
        self._accepted: set[str] = set()
        self._receipts: list[Receipt] = []
        self._hangs = False

    async def play(self, fault: Callable[[random.Random], AsyncIterator[None]]) -> None:
        context, chance = self._context, self._chance
        client = context.client(retry_seconds=60.0)
        session_id = await context.new_session(client)
        cursor = (await client.session(session_id)).cursor
        requests = [self._request(number) for number in range(chance.randint(2, 4))]
        ends: Counter[str] = Counter()
        reading = asyncio.create_task(self._read(session_id, cursor, ends, {request.run_id for request in requests}))
        sending = [asyncio.create_task(self._send(session_id, request)) for request in requests]
        await asyncio.sleep(chance.random() * 0.15)
        async with asynccontextmanager(fault)(chance):
            if chance.random() < 0.4:
                cancelling = asyncio.create_task(self._cancel(session_id))
                await asyncio.wait({cancelling}, timeout=0.2)
                sending.append(cancelling)
        await asyncio.gather(*sending)
        await client.open_workspace(str(context.directory))
        for request in requests:
            if request.run_id not in self._accepted:  # it got no answer, or was refused
                await context.start(client, session_id, request)
        await client.resume(session_id)
        if self._hangs:
            self._receipts.append(await client.cancel_session(session_id))
        for request in requests:
            await context.end_of(client, request.run_id or "")
        await asyncio.wait_for(reading, 60)
        await self._check(client, session_id, requests, ends)
        await context.answer_next(client, session_id)

    def _request(self, number: int) -> RunRequest:
        context, chance = self._context, self._chance
        said = "".join(chance.choice(("word ", "żółw ", "🐢", "\n")) for _ in range(chance.randint(1, 60)))
        said = said if said.strip() else f"{said}word"  # a blank answer is none: the model is asked again
        good = Answer(
            (Say(said, chunk=chance.randint(1, 9)),), split=chance.choice((0, 0, 5)), pace=chance.choice((0, 0.003))
        )
        run_id = f"run-{self._seed}-{number}"
        bad: list[Answer] = []
        match chance.randrange(7):
            case 0:
                bad = [replace(good, drop_after=chance.randrange(200))]
            case 1:
                bad = [Answer(status=chance.choice((429, 500, 503)), headers=_SOON)]
            case 2:
                bad = [Answer(body=b"<html>rubbish</html>", content_type="text/html")]
            case 3:
                effect = self._effects[run_id] = context.directory / f"effect-{self._seed}-{number}"
                bad = [calls(Call("bash", {"command": f"echo x >> {effect.name}"}))]
            case 4 if not self._hangs:
                self._hangs = True
                bad = [Answer((Say(said[: len(said) // 2]), Hang()))]
            case _:
                pass
        self._said[run_id] = said
        _, prompt = context.plan(*bad, good)
        return replace(context.request(prompt, wire=context.wire()), run_id=run_id)

    async def _send(self, session_id: str, request: RunRequest) -> None:
        await asyncio.sleep(self._chance.random() * 0.1)
        with suppress(HoldfastError):
            accepted = await self._context.start(self._context.client(retry_seconds=0.0), session_id, request)
            self._accepted.add(accepted.run.id)

    async def _cancel(self, session_id: str) -> None:
        with suppress(HoldfastError):
            receipt = await self._context.client(retry_seconds=0.0).cancel_session(session_id)
            self._receipts.append(receipt)
            self._context.count("cancels")

    async def _read(self, session_id: str, cursor: str, ends: Counter[str], run_ids: set[str | None]) -> None:
        """Read the events of the session, cut off now and then, until all runs have ended."""
        stream = self._context.client(retry_seconds=60.0).events(session_id=session_id, after=cursor)
        while run_ids - set(ends):
            async for event in stream:
                self._context.count("events")
                if isinstance(event, RunFinished):
                    ends[event.run.id] += 1
                if not run_ids - set(ends):
                    break
                if self._chance.random() < 0.02:
                    await stream.aclose()
                    self._context.count("cuts")
        await stream.aclose()

    async def _check(
        self, client: AsyncClient, session_id: str, requests: list[RunRequest], ends: Counter[str]
    ) -> None:
        context = self._context
        runs = {run.id: run for run in await all_runs(client, session_id)}
        context.expect(set(runs) == {request.run_id for request in requests}, f"prompts became the runs {list(runs)}")
        for run_id, run in runs.items():
            context.expect(run.state in END_STATES, f"{run_id} is {run.state}")
            context.expect(ends[run_id] == 1, f"{run_id} has {ends[run_id]} ends in the stream")
            if run.state == "completed":
                context.expect(
                    run.text == self._said[run_id], f"{run_id} says {run.text!r}, not {self._said[run_id]!r}"
                )
            if (effect := self._effects.get(run_id)) is not None:
                times = effect.read_text().count("x") if effect.exists() else 0
                context.expect(times <= 1, f"the command of {run_id} ran {times} times")
                context.expect(times == 1 or run.state != "completed", f"the command of {run_id} did not run")
            context.count(f"ended {run.state}")
        for receipt in self._receipts:
            for line in receipt.runs:
                run = runs[line.run_id]
                context.expect(run.seq <= receipt.mark, f"{run.id} came after the cancel that covers it")
                if receipt.durable and line.was in ("queued", "waiting"):
                    context.expect(run.started_at is None, f"{run.id} was covered by a cancel and started")


def _fill(file: Path) -> None:
    with file.open("ab", buffering=0) as output:
        for size in (1 << 20, 4096):
            with suppress(OSError):
                while output.write(b"x" * size) == size:
                    pass


@asynccontextmanager
async def process_schedules(directory: Path, *, database: str | None = None) -> AsyncIterator[ProcessSchedules]:
    """A started server. Its files are on a small disk, if one can be mounted; or ``database`` is its store."""
    work, clock = directory / "work", directory / "clock"
    work.mkdir()
    clock.write_text("0")
    with small_disk(directory / "disk", "48m") as disk, _proxy_to(database, directory) as proxy:
        home = disk or directory
        command = ("-P", "-m", "holdfast.selftest.shifted_clock", str(clock), "serve")
        server = await asyncio.to_thread(OwnServer, home, env=os.environ, command=command)
        if proxy is not None:
            server.env["HOLDFAST_STORE"] = proxy.address
        async with CheckProvider() as provider:
            await asyncio.to_thread(server.locations.prepare)
            server.locations.config_file.write_text(provider_config(provider.port, key="sk-stress"))
            await asyncio.to_thread(server.start)
            try:
                yield ProcessSchedules(server, provider, work=work, clock=clock, disk=disk, database=proxy)
            finally:
                await asyncio.to_thread(server.stop)


@contextmanager
def _proxy_to(database: str | None, directory: Path) -> Iterator[CuttingProxy | None]:
    if database is None:
        yield None
        return
    proxy = CuttingProxy(directory, database=database)
    try:
        yield proxy
    finally:
        proxy.close()
