"""Other coding agents on this machine beside Holdfast, each with its one-shot command on the same scripted provider.

Measured are the start, a whole prompt from the shell, the time until the first piece of an answer is printed, the
memory while an answer is open, a cancel by Ctrl-C, and what is kept of 150 pieces of an open answer after ``kill -9``
of all its processes. Times begin with the start of the command. The server that Holdfast's first prompt started
is running then, and its memory and CPU time count.
Agents are found on PATH: codex, opencode, crush, gemini. Those that are not installed are named. All run in a home of
their own on loopback. Times are the best of some rounds; the CPU time counts all processes of the agent.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from support.figures import show
from support.process_stats import cpu_seconds

from holdfast.testing import Answer, ReceivedRequest, Say, TestProvider, WireName, text

ROUNDS = 3
SECONDS = 60.0
PIECES = 150
KEY = "sk-bench-0123456789"
QUICK, HOLD, CRASH = "bench-quick", "bench-hold", "bench-crash"
DONE, FIRST = "all-done", "first-piece"

START, START_CPU = "start (--version)", "start (--version), CPU"
PROMPT, PROMPT_CPU, ASKED = "a prompt from the shell", "a prompt from the shell, CPU", "the model is asked after"
FIRST_PIECE, MEMORY = "the first piece is printed after", "memory while an answer is open"
CLOSED, ENDED = "Ctrl-C closes the request after", "Ctrl-C ends the command after"
KEPT = f"kept of {PIECES} pieces after kill -9"

_LOG_FILES = re.compile(r"(^|[/._-])logs?([/._0-9-]|$)")


class PeerSetup(NamedTuple):
    """How an agent is asked: the provider's wire, the files and variables it needs, and its one-shot command."""

    wire: WireName
    files: Callable[[str], dict[str, str]]
    """Paths in the home and their contents, for the provider's address."""
    variables: Callable[[str], dict[str, str]]
    arguments: tuple[str, ...]
    """Before the prompt."""


def _no_variables(url: str) -> dict[str, str]:
    return {}


def _holdfast_files(url: str) -> dict[str, str]:
    provider = f'[providers.bench]\nwire = "openai-chat"\nbase_url = "{url}"\napi_key = "{KEY}"\n'
    return {"holdfast/config/config.toml": f'[models]\nlarge = "bench/test-model"\n{provider}'}


def _codex_files(url: str) -> dict[str, str]:
    provider = (
        f'[model_providers.bench]\nname = "bench"\nbase_url = "{url}"\nwire_api = "responses"\nenv_key = "BENCH_KEY"\n'
    )
    return {".codex/config.toml": f'model = "test-model"\nmodel_provider = "bench"\n{provider}'}


def _opencode_files(url: str) -> dict[str, str]:
    models = {"test-model": {"name": "test", "limit": {"context": 100_000, "output": 10_000}}}
    options = {"baseURL": url, "apiKey": KEY}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "bench", "options": options, "models": models}
    config = {"provider": {"bench": provider}, "autoupdate": False, "share": "disabled"}
    return {".config/opencode/opencode.json": json.dumps(config)}


def _crush_files(url: str) -> dict[str, str]:
    models = [{"id": "test-model", "name": "test", "context_window": 100_000, "default_max_tokens": 10_000}]
    provider = {"type": "openai-compat", "base_url": url, "api_key": KEY, "models": models}
    chosen = {"model": "test-model", "provider": "bench"}
    config = {"providers": {"bench": provider}, "models": {"large": chosen, "small": chosen}}
    return {".config/crush/crush.json": json.dumps(config)}


HOLDFAST = PeerSetup("openai-chat", _holdfast_files, _no_variables, ("run",))
PEERS: dict[str, PeerSetup] = {
    "codex": PeerSetup(
        "openai-responses", _codex_files, lambda _: {"BENCH_KEY": KEY}, ("exec", "--skip-git-repo-check")
    ),
    "opencode": PeerSetup("openai-chat", _opencode_files, _no_variables, ("run", "--model", "bench/test-model")),
    "crush": PeerSetup("openai-chat", _crush_files, _no_variables, ("run", "--quiet")),
    "gemini": PeerSetup(
        "gemini",
        lambda _: {".gemini/settings.json": json.dumps({"security": {"auth": {"selectedType": "gemini-api-key"}}})},
        lambda url: {
            "GEMINI_API_KEY": KEY,
            "GOOGLE_GEMINI_BASE_URL": url.removesuffix("/v1beta"),
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        },
        ("--model", "test-model", "--prompt"),
    ),
}


class FigureKind(NamedTuple):
    unit: str = "ms"
    is_aim: bool = False
    """Whether Holdfast should have less."""
    more_is_better: bool = False


FIGURES: dict[str, FigureKind] = {
    START: FigureKind(is_aim=True),
    START_CPU: FigureKind(),
    PROMPT: FigureKind(is_aim=True),
    PROMPT_CPU: FigureKind(is_aim=True),
    ASKED: FigureKind(is_aim=True),
    FIRST_PIECE: FigureKind(is_aim=True),
    MEMORY: FigureKind("MB", is_aim=True),
    CLOSED: FigureKind(),
    ENDED: FigureKind(is_aim=True),
    KEPT: FigureKind("pieces", more_is_better=True),
}


class PeerFailed(Exception):
    """The agent does not do what is measured."""


def respond(received: ReceivedRequest) -> Answer:
    body = json.dumps(received.body)
    if CRASH in body:
        return Answer(pieces=(Say(deltas=tuple(f"w{number:04} " for number in range(5000))),), pace=0.01)
    if HOLD in body:
        return Answer(pieces=(Say(deltas=(f"{FIRST} ", *("and more " for _ in range(5000)))),), pace=0.01)
    return text(DONE)


class PeerProcess:
    """An agent in a home of its own."""

    def __init__(self, command: str, setup: PeerSetup, provider: TestProvider) -> None:
        self._command, self._setup, self._provider = command, setup, provider
        self._base = Path(tempfile.mkdtemp(prefix="hf-peer-"))
        self._work = self._base / "work"
        self._work.mkdir()
        url = provider.url(setup.wire)
        home = self._base / "home"
        for name, content in setup.files(url).items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(content)
        inherited = {name: os.environ[name] for name in ("PATH", "LANG", "TERM") if name in os.environ}
        self._env = inherited | setup.variables(url) | {"HOME": str(home), "HOLDFAST_HOME": str(home / "holdfast")}
        self.home = home

    def start(self, *arguments: str) -> asyncio.Future[asyncio.subprocess.Process]:
        return asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                self._command,
                *arguments,
                cwd=self._work,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        )

    async def ask(self, prompt: str) -> asyncio.subprocess.Process:
        return await self.start(*self._setup.arguments, prompt)

    def processes(self) -> Iterator[int]:
        """All processes with this home: the agent, its helpers and its server."""
        mark = f"HOME={self.home}".encode()
        for path in Path("/proc").glob("[0-9]*/environ"):
            try:
                if mark in path.read_bytes().split(b"\0"):
                    yield int(path.parent.name)
            except OSError:
                continue

    def memory_mb(self) -> float:
        pages = 0
        for pid in self.processes():
            try:
                pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            except OSError:
                continue
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def cpu_seconds(self) -> float:
        """The CPU time of commands that ended, and of what goes on running."""
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = ended.ru_utime + ended.ru_stime
        for pid in self.processes():
            try:
                used += cpu_seconds(pid, with_children=True)
            except OSError:
                continue
        return used

    def kill(self) -> None:
        for pid in list(self.processes()):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def kept_pieces(self) -> int:
        """How many pieces are in any file of the home, except log files."""
        found: set[int] = set()
        for path in self.home.rglob("*"):
            if (
                not _LOG_FILES.search(str(path.relative_to(self.home)))
                and path.is_file()
                and not path.is_symlink()
                and path.stat().st_size < 100_000_000
            ):
                data = path.read_bytes()
                found.update(number for number in range(PIECES) if b"w%04d" % number in data)
        return len(found)

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self._base, ignore_errors=True)


class PeerFigures:
    """What was measured of one agent. Figures that it does not have are missing."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.values: dict[str, float] = {}

    def beside(self, ours: PeerFigures, *, name: str) -> None:
        """Show Holdfast's figures beside those of another agent."""
        for what, kind in FIGURES.items():
            base, value = self.values.get(what), ours.values.get(what)
            if base is None or value is None:
                print(f"  {what + ', ' + name:46} none", flush=True)
                continue
            show(
                f"{what}, {name}",
                value,
                kind.unit,
                base=base,
                base_name=self.version,
                most_ratio=1 if kind.is_aim else None,
                more_is_better=kind.more_is_better,
            )


async def measure(name: str, command: str, provider: TestProvider) -> PeerFigures:
    peer = PeerProcess(command, PEERS.get(name, HOLDFAST), provider)
    figures = PeerFigures(name)
    try:
        async with asyncio.timeout(SECONDS * 5):
            figures.version = await _start(peer, name, figures.values)
            await _one_shot(peer, provider, figures.values)
            await _open_answer(peer, provider, figures.values)
            await _crash(peer, provider, figures.values)
    except (PeerFailed, TimeoutError) as error:
        print(f"  {name}: not measured further: {str(error) or 'it does not end'}", flush=True)
    finally:
        peer.remove()
    return figures


async def _start(peer: PeerProcess, name: str, found: dict[str, float]) -> str:
    """Return the name and the version."""
    walls, cpus, output = [], [], b""
    for _ in range(ROUNDS):
        began, before = time.perf_counter(), peer.cpu_seconds()
        output, _ = await (await peer.start("--version")).communicate()
        walls.append((time.perf_counter() - began) * 1e3)
        cpus.append((peer.cpu_seconds() - before) * 1e3)
    found[START], found[START_CPU] = min(walls), min(cpus)
    version = re.search(rb"\d+\.\d+[\w.-]*", output)
    return f"{name} {version[0].decode()}" if version else name


async def _one_shot(peer: PeerProcess, provider: TestProvider, found: dict[str, float]) -> None:
    walls, cpus = [], []
    asked: dict[str, float] = {}
    for _ in range(ROUNDS + 1):
        count, began, before = len(provider.requests), time.perf_counter(), peer.cpu_seconds()
        process = await peer.ask(QUICK)
        waiting = asyncio.ensure_future(provider.wait_for_requests(count + 1))
        waiting.add_done_callback(_time_taken(asked, str(count), since=began))
        async with asyncio.timeout(SECONDS):
            output, _ = await process.communicate()
        waiting.cancel()
        if DONE.encode() not in output:
            raise PeerFailed(f"it printed {output.decode(errors='replace').strip()[-200:]!r}")
        walls.append((time.perf_counter() - began) * 1e3)
        cpus.append((peer.cpu_seconds() - before) * 1e3)
    found[PROMPT], found[PROMPT_CPU], found[ASKED] = min(walls), min(cpus), min(asked.values())


async def _open_answer(peer: PeerProcess, provider: TestProvider, found: dict[str, float]) -> None:
    count, began = len(provider.requests), time.perf_counter()
    process = await peer.ask(HOLD)
    async with asyncio.timeout(SECONDS):
        await provider.wait_for_requests(count + 1)
    with suppress(TimeoutError):  # some print nothing before the end
        async with asyncio.timeout(5):
            await _read_until(process, FIRST.encode())
        found[FIRST_PIECE] = (time.perf_counter() - began) * 1e3
    found[MEMORY] = peer.memory_mb()
    pressed = time.perf_counter()
    os.killpg(process.pid, signal.SIGINT)
    closed = asyncio.ensure_future(provider.wait_for_disconnect(count))
    ended = asyncio.ensure_future(process.wait())
    for what, future in ((CLOSED, closed), (ENDED, ended)):
        future.add_done_callback(_time_taken(found, what, since=pressed))
    await asyncio.wait((closed, ended), timeout=10)
    closed.cancel()
    if process.returncode is None:
        peer.kill()
        await process.wait()


async def _crash(peer: PeerProcess, provider: TestProvider, found: dict[str, float]) -> None:
    count = len(provider.requests)
    process = await peer.ask(CRASH)
    async with asyncio.timeout(SECONDS):
        await provider.wait_for_requests(count + 1)
    await asyncio.sleep(PIECES * 0.012 + 0.5)  # all of them were sent, and the answer is still open
    peer.kill()
    await process.wait()
    found[KEPT] = await asyncio.to_thread(peer.kept_pieces)


async def _read_until(process: asyncio.subprocess.Process, wanted: bytes) -> None:
    assert process.stdout is not None
    received = b""
    while wanted not in received:
        data = await process.stdout.read(65536)
        if not data:
            raise PeerFailed(f"it ended: {received.decode(errors='replace')[-200:]!r}")
        received += data


def _time_taken(found: dict[str, float], name: str, *, since: float) -> Callable[[object], None]:
    """Note when something is done, in ms."""
    return lambda _: found.update({name: (time.perf_counter() - since) * 1e3})


async def _compare(commands: dict[str, str]) -> None:
    async with TestProvider(respond) as provider:
        ours = await measure("holdfast", str(Path(sys.executable).with_name("holdfast")), provider)
        for what, value in ours.values.items():
            print(f"  {what:46} {value:10.2f} {FIGURES[what].unit:6} {ours.version}", flush=True)
        for name, command in commands.items():
            (await measure(name, command, provider)).beside(ours, name=name)


async def main(names: list[str]) -> None:
    found = {name: command for name in names or PEERS if (command := shutil.which(name))}
    if found:
        await _compare(found)
    if missing := [name for name in names or PEERS if name not in found]:
        print(f"  not installed: {', '.join(missing)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peers", nargs="*", metavar="PEER", help=f"by default all of {', '.join(PEERS)}")
    chosen: list[str] = parser.parse_args().peers
    if unknown := set(chosen) - set(PEERS):
        parser.error(f"unknown peer {min(unknown)!r}; known: {', '.join(PEERS)}")
    asyncio.run(main(chosen))
