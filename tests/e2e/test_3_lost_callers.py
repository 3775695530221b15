"""3. A caller that disconnects loses nothing; a POST that is sent twice, at once or across a restart, is one run."""

import asyncio

import pytest

from holdfast.errors import Conflict, NotFound
from holdfast.schema.base import encode
from holdfast.schema.runs import RunRequest
from holdfast.testing import Answer, Gate, Say, text
from tests.e2e.conftest import Join
from tests.e2e.provider import Provider
from tests.e2e.server import Server, ServerProcess


@pytest.mark.promise("R1", "R10")
@pytest.mark.parametrize("seconds", [0.0, 0.001, 0.005])
async def test_a_request_whose_caller_disconnects_still_runs_to_its_end(
    server: Server, provider: Provider, join: Join, seconds: float
) -> None:
    player = join(server)
    session = await player.session()
    run_id = f"run_{session.id}"
    request = RunRequest(prompt=provider.tell("gone", text("done all the same")), run_id=run_id)
    await _post_and_leave(server, f"/v1/sessions/{session.id}/runs", encode(request), seconds=seconds)
    while True:
        try:
            ended = await player.client.wait_run(run_id)
            break
        except NotFound:  # the server has not come to it yet
            await asyncio.sleep(0.01)
    assert (ended.state, ended.text) == ("completed", "done all the same")


async def _post_and_leave(server: Server, target: str, body: bytes, *, seconds: float) -> None:
    address = server.any_address()
    if address.path is not None:
        _, writer = await asyncio.open_unix_connection(address.path)
    else:
        _, writer = await asyncio.open_connection(address.host, address.port)
    token = f"Authorization: Bearer {server.token}\r\n" if server.token else ""
    head = f"POST {target} HTTP/1.1\r\nHost: {address.authority}\r\n{token}Content-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    await writer.drain()
    await asyncio.sleep(seconds)
    writer.transport.abort()


@pytest.mark.promise("R2", "R3")
async def test_the_same_post_is_the_same_run_also_at_the_same_time(
    server: Server, provider: Provider, join: Join
) -> None:
    first, second = join(server, "first"), join(server, "second")
    session = await first.session()
    request = RunRequest(prompt=provider.tell("twice", text("once")), run_id=f"run_{session.id}")
    both = await asyncio.gather(
        *(player.client.start_run(session.id, request) for player in (first, second, first, second))
    )
    assert {(accepted.run.id, accepted.run.seq, accepted.decision) for accepted in both} == {
        (request.run_id, both[0].run.seq, "started")
    }
    ended = await first.client.wait_run(both[0].run.id)
    assert (ended.state, ended.text) == ("completed", "once")
    again = await second.client.start_run(session.id, request)
    assert (again.decision, again.run) == ("started", ended)
    assert provider.count("twice") == 1
    assert [message.role for message in await first.messages(session.id)] == ["user", "assistant"]
    with pytest.raises(Conflict):
        await second.client.start_run(session.id, RunRequest(prompt="other", run_id=request.run_id))
    other = await second.session()
    with pytest.raises(Conflict):
        await second.client.start_run(other.id, request)


@pytest.mark.promise("R1", "R3", "W5", "W6")
async def test_the_same_post_is_the_same_run_across_a_restart(
    own_server: ServerProcess, own_provider: Provider, join: Join
) -> None:
    player = join(own_server)
    session = await player.session()
    done = RunRequest(prompt=own_provider.tell("done", text("before")), run_id="run_done")
    cut = RunRequest(prompt=own_provider.tell("cut", Answer(pieces=(Say("half"), Gate("never")))), run_id="run_cut")
    await player.client.start_run(session.id, done)
    ended = await player.client.wait_run("run_done")
    await player.client.start_run(session.id, cut)
    await own_provider.wait_for("cut")

    await asyncio.to_thread(own_server.restart)
    assert (await player.client.start_run(session.id, done)).run == ended
    again = await player.client.start_run(session.id, cut)
    assert (again.decision, again.run.state, again.run.reason) == ("started", "interrupted", "server_stop")

    await asyncio.to_thread(own_server.kill)
    await asyncio.to_thread(own_server.start)
    assert (await player.client.start_run(session.id, done)).run == ended
    assert (await player.client.start_run(session.id, cut)).run == again.run
    assert (own_provider.count("done"), own_provider.count("cut")) == (1, 1)
    runs = await player.client.runs(session.id)
    assert {run.id for run in runs.items} == {"run_done", "run_cut"}
