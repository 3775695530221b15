"""Checks with faults: a crash in mid-answer and in mid-command, a full disk, a clock that jumps."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from holdfast.client.async_client import AsyncClient
from holdfast.errors import StoreUnwritable
from holdfast.schema.events import Delta, RunStarted, Snapshot
from holdfast.schema.messages import text_of
from holdfast.selftest.check_context import WAIT_SECONDS, CheckContext, poll
from holdfast.selftest.check_result import CheckSkipped, PromiseBroken
from holdfast.selftest.run_checks import hanging
from holdfast.testing import Call, calls, text

_DISK_MEGABYTES = 24
_FILLER = "filler"
_LONG_PROMPT = 200_000
_JUMPS = (-3600.0, 86_400.0, -315_360_000.0, 0.0, 315_360_000.0)
"""An hour back, a day ahead, ten years back, the truth, ten years ahead."""


async def recovery_of_text(context: CheckContext) -> None:
    """Killed in mid-answer: the text that was shown is kept, the run ends interrupted, and the session goes on."""
    for _ in context.rounds():
        client = context.client()
        session_id = await context.new_session(client)
        shown = "The quick brown fox jumps over the lazy dog. " * 3
        _, prompt = context.plan(hanging(shown))
        cursor = (await client.session(session_id)).cursor
        run = (await context.start(client, session_id, context.request(prompt, wire=context.wire()))).run
        await _until_shown(client, session_id, cursor, shown)
        await asyncio.sleep(0.2)  # the promise is for text that was shown a moment ago
        await context.restart_after_kill()
        client = context.client()
        await client.open_workspace(str(context.directory))
        ended = await context.end_of(client, run.id)
        context.expect(
            (ended.state, ended.reason) == ("interrupted", "server_crash"),
            f"the run ended {ended.state}/{ended.reason}",
        )
        messages, _cursor = await client.all_messages(session_id)
        kept = "".join(text_of(message.parts) for message in messages if message.role == "assistant")
        context.expect(kept == shown, f"of {len(shown)} letters that were shown, {len(kept)} are kept")
        context.count("letters kept", len(kept))
        await context.answer_next(client, session_id)


async def _until_shown(client: AsyncClient, session_id: str, cursor: str, shown: str) -> None:
    found = ""
    async with asyncio.timeout(WAIT_SECONDS), client.events(session_id=session_id, after=cursor) as stream:
        async for event in stream:
            match event:
                case Delta(of="text"):
                    found += event.text
                case Snapshot():  # the stream began after the text
                    found = "".join(part.text for part in event.parts if part.of == "text")
            if found == shown:
                return


async def recovery_of_tools(context: CheckContext) -> None:
    """Killed while a command runs: it is not run again, and the next request to the model is well formed."""
    for number in context.rounds():
        client = context.client()
        session_id = await context.new_session(client)
        effect = context.directory / f"effects-{number}"
        command = Call("bash", {"command": f"echo x >> {effect.name}; sleep 1000", "timeout": 600})
        _, prompt = context.plan(calls(command), text("done"))
        run = (await context.start(client, session_id, context.request(prompt))).run
        await poll("the command starts", effect.exists)
        await context.restart_after_kill()
        client = context.client()
        await client.open_workspace(str(context.directory))
        ended = await context.end_of(client, run.id)
        context.expect(ended.state == "interrupted", f"the run ended {ended.state}")
        tag = await context.answer_next(client, session_id)
        _check_history(context, context.provider.requests_of[tag][-1].body)
        context.expect(effect.read_text() == "x\n", "the command ran again after the crash")
        context.count("commands run once")


def _check_history(context: CheckContext, body: Any) -> None:
    """Every tool call of the request has exactly one result behind it."""
    asked = [call["id"] for message in body["messages"] for call in message.get("tool_calls") or ()]
    answered = [message["tool_call_id"] for message in body["messages"] if message["role"] == "tool"]
    context.expect(sorted(asked) == sorted(answered), f"calls {asked} have the results {answered}")


async def clock_jumps(context: CheckContext) -> None:
    """The wall clock jumps by hours and years: order, cursors and what a cancel covers do not depend on it."""
    clock = context.directory / "clock"
    clock.write_text("0")
    server_directory = context.directory / "clock-server"
    server_directory.mkdir()
    command = ("-P", "-m", "holdfast.selftest.shifted_clock", str(clock), "serve")
    async with context.other_server(server_directory, command=command) as client:
        for number in context.rounds(least=len(_JUMPS)):
            session_id = await context.new_session(client)
            cursor = (await client.session(session_id)).cursor
            tag, prompt = context.plan(hanging("before the jump"))
            first = (await context.start(client, session_id, context.request(prompt))).run.id
            await context.provider.wait_for_request(tag)
            covered = [first, await context.start_short(client, session_id)]
            clock.write_text(str(_JUMPS[number % len(_JUMPS)]))
            context.count("jumps")
            receipt = await client.cancel_session(session_id)
            named = sorted(run.run_id for run in receipt.runs)
            context.expect(named == sorted(covered), f"the cancel covered {named}, not {sorted(covered)}")
            later = [await context.start_short(client, session_id) for _ in range(3)]
            events = await context.events_until_end(client, later[-1], after=cursor)
            own = [event for event in events if isinstance(event, RunStarted) and event.session_id == session_id]
            started = [event.run.id for event in own]
            context.expect(started == [first, *later], f"after the jump, {[first, *later]} started as {started}")


async def full_disk(context: CheckContext) -> None:
    """On a full disk, prompts are refused with the reason, a cancel works, and nothing accepted is lost."""
    for number in context.rounds():  # each on a new disk: what is stored in one round would fill the disk of the next
        directory = context.directory / f"disk-{number}"
        with closing(await asyncio.to_thread(SmallDisk, directory / "home" / "data")) as disk:
            started = context.other_server(directory, command=disk.command, inherited=disk.inherited)
            async with started as client:
                session_id = await context.new_session(client)
                tag, prompt = context.plan(hanging("shown"))
                first = (await context.start(client, session_id, context.request(prompt))).run.id
                await context.provider.wait_for_request(tag)
                queued = await context.start_short(client, session_id)
                await asyncio.to_thread(disk.fill)
                accepted = [first, queued, *await _send_until_refused(context, client, session_id)]
                receipt = await client.cancel_session(session_id)
                context.expect(all(run.stopped for run in receipt.runs), "a cancel on a full disk stopped nothing")
                disk.free()
                for run_id in accepted:
                    ended = await context.end_of(client, run_id)
                    context.expect(ended.state == "cancelled", f"a run cancelled on a full disk ended {ended.state}")
                    context.count("cancelled on a full disk")
                await context.answer_next(client, session_id)


async def _send_until_refused(context: CheckContext, client: AsyncClient, session_id: str) -> list[str]:
    """Send long prompts. Returns those that were accepted: a few fit into the room of files that the database has."""
    accepted: list[str] = []
    while len(accepted) * _LONG_PROMPT <= _DISK_MEGABYTES << 20:
        try:
            run = (await client.start_run(session_id, context.request("x" * _LONG_PROMPT))).run
        except StoreUnwritable:
            context.count("refused on a full disk")
            return accepted
        accepted.append(run.id)
        context.count("accepted on a full disk")
    raise PromiseBroken(f"{len(accepted)} prompts were accepted, more than the disk can hold")


class SmallDisk:
    """A disk that only the server sees which is started with ``command``. `fill` and `free` need that server."""

    def __init__(self, directory: Path) -> None:
        """Make the directory. Raises `CheckSkipped` if the system permits no such disk. Blocks."""
        directory.mkdir(parents=True)
        command = ("-P", "-m", "holdfast.selftest.small_disk", str(_DISK_MEGABYTES), str(directory))
        tried = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False, timeout=60)
        if tried.returncode:
            why = tried.stderr.strip().splitlines() or [f"status {tried.returncode}"]
            raise CheckSkipped(f"a small disk is needed, and the system permits none here ({why[-1]})")
        self._ours, self._theirs = socket.socketpair()
        self._directory: int | None = None
        self.inherited = (self._theirs.fileno(),)
        self.command = (*command, str(self._theirs.fileno()), "serve")

    def fill(self) -> None:
        """Write until no space is left. Blocks."""
        if self._directory is None:
            _, [self._directory], _, _ = socket.recv_fds(self._ours, 1, 1)
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
        with open(os.open(_FILLER, flags, 0o600, dir_fd=self._directory), "ab", buffering=0) as output:
            for size in (1 << 20, 4096):
                with suppress(OSError):
                    while True:
                        output.write(b"x" * size)

    def free(self) -> None:
        os.unlink(_FILLER, dir_fd=self._directory)

    def close(self) -> None:
        self._ours.close()
        self._theirs.close()
        if self._directory is not None:
            os.close(self._directory)
