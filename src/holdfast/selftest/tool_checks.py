"""Checks of tools: approvals, processes that end, undo, secrets."""

from __future__ import annotations

import asyncio
import base64
import subprocess
from functools import partial
from pathlib import Path

from holdfast.client.async_client import AsyncClient
from holdfast.errors import Conflict
from holdfast.schema.approvals import Approval, ApprovalDecision
from holdfast.schema.base import encode
from holdfast.schema.events import ApprovalRequested
from holdfast.selftest.check_context import WAIT_SECONDS, CheckContext, poll
from holdfast.testing import Call, calls, text

_PROCESSES = 5
"""How many processes the command of `process_cleanup` starts."""


async def approval_first_wins(context: CheckContext) -> None:
    """Four clients answer one approval at once: one of them decides, the others are told, and the tool obeys."""
    client = context.client()
    for number in context.rounds():
        session_id = await context.new_session(client)
        effect = context.directory / f"approved-{number}"
        command = Call("bash", {"command": f"echo x >> {effect.name}"})
        _, prompt = context.plan(calls(command), text("done"))
        cursor = (await client.session(session_id)).cursor
        accepted = await context.start(client, session_id, context.request(prompt, interactive=True))
        approval = await _requested(client, session_id, cursor)
        decisions: tuple[ApprovalDecision, ...] = ("once", "deny", "once", "deny")
        answers = await asyncio.gather(*(_answer(context.client(), approval.id, choice) for choice in decisions))
        winners = [choice for choice, won in zip(decisions, answers, strict=True) if won]
        stored = await client.approval(approval.id)
        await context.end_of(client, accepted.run.id)
        context.expect(len(winners) == 1, f"{len(winners)} of four simultaneous answers were accepted, not one")
        context.expect(stored.decision == winners[0], f"{winners[0]} was accepted and {stored.decision} is stored")
        ran = effect.read_text().count("x") if effect.exists() else 0
        allowed = 1 if winners[0] == "once" else 0
        context.expect(ran == allowed, f"the answer was {winners[0]} and the command ran {ran} times")
        context.count("answers", len(decisions))
        context.count("decisions")


async def _requested(client: AsyncClient, session_id: str, cursor: str) -> Approval:
    async with asyncio.timeout(WAIT_SECONDS), client.events(session_id=session_id, after=cursor) as stream:
        async for event in stream:
            if isinstance(event, ApprovalRequested):
                return event.approval
    raise AssertionError("an event stream does not end")


async def _answer(client: AsyncClient, approval_id: str, decision: ApprovalDecision) -> bool:
    """Whether this answer decided."""
    try:
        await client.answer_approval(approval_id, decision)
    except Conflict:
        return False
    return True


async def process_cleanup(context: CheckContext) -> None:
    """A cancelled command is dead with all it started, also what detached itself and what ignores signals."""
    client = context.client()
    for _ in context.rounds():
        session_id = await context.new_session(client)
        mark = f"9{context.random.randrange(10**8, 10**9)}"  # seconds; nothing else sleeps for exactly this long
        command = (
            f"sleep {mark}.1 & setsid sleep {mark}.2 & (trap '' INT TERM HUP; sleep {mark}.3) & "
            f"nohup sleep {mark}.4 >/dev/null 2>&1 & sleep {mark}.5"
        )
        _, prompt = context.plan(calls(Call("bash", {"command": command, "timeout": 600})), text("done"))
        run = (await context.start(client, session_id, context.request(prompt))).run
        await poll("the command's processes start", partial(_all_sleep, mark))
        receipt = await client.cancel_session(session_id)
        context.expect([each.run_id for each in receipt.runs] == [run.id], "the receipt does not name the run")
        await context.end_of(client, run.id)
        left = await asyncio.to_thread(_sleeping, mark)
        context.expect(not left, f"processes of a cancelled command are still alive: {left}")
        context.count("processes ended", _PROCESSES)


def _all_sleep(mark: str) -> bool:
    return len(_sleeping(mark)) == _PROCESSES


def _sleeping(mark: str) -> list[str]:
    """The command lines of this check's processes. Blocks."""
    listed = subprocess.run(["ps", "-A", "-o", "args="], capture_output=True, text=True, check=True, timeout=30)
    return [line.strip() for line in listed.stdout.splitlines() if line.strip().startswith(f"sleep {mark}.")]


async def undo_restores(context: CheckContext) -> None:
    """After an undo, the files have the bytes that they had before the run, and redo brings the changes back."""
    client = context.client()
    for number in context.rounds():
        session_id = await context.new_session(client)
        edited, created = context.directory / f"edited-{number}.txt", context.directory / f"created-{number}.txt"
        edited.write_bytes(b"first\r\nsecond\r\nth\xc3\xbcrd, no newline")
        before = edited.read_bytes()
        _, prompt = context.plan(
            calls(Call("view", {"path": edited.name})),
            calls(
                Call("edit", {"path": edited.name, "old_text": "second", "new_text": "2nd"}),
                Call("write", {"path": created.name, "content": "new\n"}),
            ),
            text("done"),
        )
        run = (await context.start(client, session_id, context.request(prompt))).run
        await context.end_of(client, run.id)
        after = edited.read_bytes()
        context.expect(after == before.replace(b"second", b"2nd") and created.exists(), "the tools did not write")
        await context.end_of(client, (await client.undo(session_id)).run.id)
        context.expect(edited.read_bytes() == before, f"undo did not restore {edited.name}")
        context.expect(not created.exists(), f"undo left {created.name}")
        await context.end_of(client, (await client.redo(session_id)).run.id)
        context.expect(edited.read_bytes() == after and created.exists(), "redo did not bring the changes back")
        context.count("files restored", 2)


async def secrets_masked(context: CheckContext) -> None:
    """The provider's key, printed by a command as it is and in base64, is in no response, event, output or log."""
    client = context.client()
    for number in context.rounds():
        session_id = await context.new_session(client)
        file = context.directory / f"secret-{number}.txt"
        file.write_text(f"{context.secret}\n{base64.b64encode(context.secret.encode()).decode()}\n")
        command = f'cat {file.name}; while read -r -n 1 c; do printf %s "$c"; done < {file.name}'
        tag, prompt = context.plan(calls(Call("bash", {"command": command})), text(f"It is {context.secret}."))
        cursor = (await client.session(session_id)).cursor
        run = (await context.start(client, session_id, context.request(prompt, wire=context.wire()))).run
        events = await context.events_until_end(client, run.id, after=cursor)
        messages, _ = await client.all_messages(session_id)
        places = {
            "the event stream": b"".join(map(encode, events)),
            "the messages": encode(messages),
            "the run": encode(await client.get_run(run.id)),
            "the exported session": (await client.export_markdown(session_id)).encode(),
            "the request to the model": encode(context.provider.requests_of[tag][-1].body),
            "the server's log": await asyncio.to_thread(_logs, context.server.locations.logs_dir),
        }
        file.unlink()
        forms = {context.secret.encode(), base64.b64encode(context.secret.encode()).rstrip(b"=")}
        for place, content in places.items():
            context.expect(not any(form in content for form in forms), f"the provider's key is in {place}")
            context.count("places searched")


def _logs(directory: Path) -> bytes:
    return b"".join(file.read_bytes() for file in directory.iterdir() if file.is_file())
