"""Checks of prompts, cancels and the queue."""

from __future__ import annotations

import asyncio

import msgspec

from holdfast.client.async_client import AsyncClient
from holdfast.errors import HoldfastError
from holdfast.ids import Ids
from holdfast.schema.events import RunFinished, RunStarted
from holdfast.schema.runs import END_STATES, Accepted, Receipt, RunRequest
from holdfast.selftest.check_context import CheckContext, all_runs
from holdfast.testing import Answer, Hang, Say, text

_RACE_SECONDS = 0.008
"""Prompts and the cancel are sent within this time, in any order."""


def hanging(shown: str) -> Answer:
    """Some text, then nothing more."""
    return Answer(pieces=(Say(shown), Hang()))


async def durable_accept(context: CheckContext) -> None:
    """Several clients send prompts, and the server is killed in between: whatever got its 202 ends, and only once."""
    for _ in context.rounds():
        session_id = await context.new_session(context.client())
        requests = [_with_id(context.request(context.plan(text(f"answer {n}"))[1])) for n in range(6)]
        clients = [context.client(retry_seconds=0.0) for _ in requests]
        sending = [
            asyncio.create_task(context.start(client, session_id, request))
            for client, request in zip(clients, requests, strict=True)
        ]
        await asyncio.wait(sending, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.sleep(context.random.random() * 0.02)
        await context.restart_after_kill()
        answers = await asyncio.gather(*sending, return_exceptions=True)
        await _check_accepted(context, session_id, requests, answers)


async def _check_accepted(
    context: CheckContext, session_id: str, requests: list[RunRequest], answers: list[Accepted | BaseException]
) -> None:
    client = context.client()
    await client.open_workspace(str(context.directory))
    known = {run.id for run in await all_runs(client, session_id)}
    for request, answer in zip(requests, answers, strict=True):
        if isinstance(answer, Accepted):
            context.expect(answer.run.id in known, f"run {answer.run.id} was accepted and is lost after kill -9")
            context.count("accepted before the kill")
        elif isinstance(answer, HoldfastError):  # it got no answer: the same request again is the same run
            await context.start(client, session_id, request)
        else:
            raise answer
    for request in requests:
        assert request.run_id is not None
        run = await context.end_of(client, request.run_id)
        allowed = ("completed", "interrupted")
        context.expect(run.state in allowed, f"run {run.id} ended {run.state} ({run.reason}), not as after a crash")
        context.count("ended")
    found = [run.id for run in await all_runs(client, session_id)]
    context.expect(
        sorted(found) == sorted(request.run_id or "" for request in requests),
        f"{len(requests)} prompts became {len(found)} runs",
    )


async def cancel_races(context: CheckContext) -> None:
    """A cancel and new prompts at the same moment: it covers all that came before it, and nothing that came later."""
    client, other = context.client(), context.client()
    racers = [context.client() for _ in range(3)]
    for number in context.rounds():
        session_id = await context.new_session(client)
        tag, prompt = context.plan(hanging("working"))
        before = [(await context.start(client, session_id, context.request(prompt, wire=context.wire()))).run.id]
        if number % 2:
            await context.provider.wait_for_request(tag)
        before += [await context.start_short(client, session_id) for _ in range(2)]
        cancelling = asyncio.create_task(_cancel(other, session_id, delay=context.random.random() * _RACE_SECONDS))
        later = await asyncio.gather(*(_start_soon(context, racer, session_id) for racer in racers))
        receipt = await cancelling
        later.append(await context.start_short(client, session_id))
        context.count("cancels")
        await _check_cancelled(context, client, receipt, [*before, *later])


async def _check_cancelled(context: CheckContext, client: AsyncClient, receipt: Receipt, run_ids: list[str]) -> None:
    covered = {run.run_id for run in receipt.runs}
    for run_id in run_ids:
        run = await context.end_of(client, run_id)
        if run.seq <= receipt.mark:
            context.expect(run.state == "cancelled", f"run {run_id} came before the cancel and ended {run.state}")
            context.expect(run_id in covered, f"run {run_id} came before the cancel and is not in its receipt")
            context.count("covered")
        else:
            context.expect(run.state == "completed", f"run {run_id} came after the cancel and ended {run.state}")
            context.expect(run_id not in covered, f"run {run_id} came after the cancel and is in its receipt")
            context.count("not covered")


async def queue_order(context: CheckContext) -> None:
    """Queued prompts start in their order, after one was moved to the head and one was removed."""
    client = context.client()
    for _ in context.rounds():
        session_id = await context.new_session(client)
        cursor = (await client.session(session_id)).cursor
        await client.pause(session_id)
        ids = [await context.start_short(client, session_id) for _ in range(6)]
        await client.change_run(ids[5], position=1)
        removed = await client.cancel_run(ids[2])
        context.expect([run.run_id for run in removed.runs] == [ids[2]], "the removed run is not in the receipt")
        await client.resume(session_id)
        expected = [ids[5], ids[0], ids[1], ids[3], ids[4]]
        events = await context.events_until_end(client, expected[-1], after=cursor)
        own = [event for event in events if isinstance(event, RunStarted) and event.session_id == session_id]
        started = [event.run.id for event in own]
        context.expect(started == expected, f"the queue {expected} started as {started}")
        context.count("started in order", len(started))


async def one_end(context: CheckContext) -> None:
    """The whole event log, read from its beginning: each run of all checks has exactly one end."""
    client = context.client()
    session_id = await context.new_session(client)
    last = await context.start_short(client, session_id)
    ends: dict[str, int] = {}
    for event in await context.events_until_end(client, last, after=context.beginning):
        if isinstance(event, RunFinished):
            ends[event.run.id] = ends.get(event.run.id, 0) + 1
    wrong = {run_id: count for run_id, count in ends.items() if count != 1}
    context.expect(not wrong, f"runs with more than one end: {wrong}")
    page = await client.sessions((await context.workspace(client)).id)
    sessions = list(page.items)
    while page.next is not None:
        page = await client.sessions((await context.workspace(client)).id, before=page.next)
        sessions.extend(page.items)
    for session in sessions:
        for run in await all_runs(client, session.id):
            context.expect(run.state in END_STATES, f"run {run.id} is {run.state} and nothing runs any more")
            context.expect(run.id in ends, f"run {run.id} ended {run.state} and the log has no end of it")
            context.count("runs with one end")


async def _start_soon(context: CheckContext, client: AsyncClient, session_id: str) -> str:
    await asyncio.sleep(context.random.random() * _RACE_SECONDS)
    return await context.start_short(client, session_id)


async def _cancel(client: AsyncClient, session_id: str, *, delay: float) -> Receipt:
    await asyncio.sleep(delay)
    return await client.cancel_session(session_id)


def _with_id(request: RunRequest) -> RunRequest:
    return msgspec.structs.replace(request, run_id=Ids().new("run"))
