"""A server stops in bounded time and exits when it is idle."""

import asyncio
from pathlib import Path

import pytest

from holdfast.runs import EngineLimits
from holdfast.server import ServerLimits
from holdfast.testing import Answer, Call, Gate, Hang, Say, calls
from tests.support.running_server import answering, hold_stop, run_server, until

HANGING = Answer(pieces=(Say("begun "), Hang()))
HELD = Answer(pieces=(Gate("go"), Say("done")))


@pytest.mark.promise("W5")
async def test_a_stop_ends_runs_and_keeps_queues_while_streams_tools_and_models_hang(home: Path) -> None:
    tool = calls(Call("bash", {"command": "sleep 1000"}))
    engine_limits = EngineLimits(unfinished_runs=256, subagent_depth=2, stop_seconds=3, shutdown_seconds=6)
    async with run_server(home, answering(HANGING, tool), engine_limits=engine_limits) as server:
        hanging, busy = await server.session(), await server.session()
        model_run = (await server.prompt(hanging))["run"]["id"]
        queued = (await server.prompt(hanging))["run"]["id"]
        await server.provider.wait_for_requests(1)
        streams = [await server.http.open_stream("/v1/events") for _ in range(3)]
        tool_run = (await server.prompt(busy, mode="auto"))["run"]["id"]
        while (await streams[0].until("run.progress"))["now"]["phase"] != "tool":
            pass
        waiters = [
            asyncio.create_task(server.http.get(f"/v1/runs/{run_id}?wait=600"))
            for run_id in (model_run, tool_run, queued)
        ]
        await until(lambda: server.app.services.state.active_requests == 3)
        assert (await server.http.post("/v1/server/stop")).ok(202) == {"stopping": True}
        ends = [(await waiter).ok() for waiter in waiters]
        assert [(run["state"], run["reason"]) for run in ends] == [
            ("interrupted", "server_stop"),
            ("interrupted", "server_stop"),
            ("queued", None),
        ]
        for stream in streams:
            kinds = [event["kind"] for event in await stream.rest()]
            assert kinds.count("run.finished") == 2
            await stream.close()
        await server.serving
        with pytest.raises(ConnectionError):
            await server.tcp.get("/v1/health")
        with pytest.raises(FileNotFoundError):
            await server.http.get("/v1/health")
    async with run_server(home) as server:
        view = (await server.http.get(f"/v1/sessions/{hanging}")).ok()
        assert (view["queue"]["run_ids"], view["queue"]["paused"]) == ([queued], "server_stop")
        (await server.http.post(f"/v1/sessions/{hanging}/resume")).ok()
        assert (await server.ended(queued))["state"] == "completed"


@pytest.mark.promise("W5")
async def test_a_hanging_handler_gets_503_and_a_second_stop_does_not_wait(home: Path) -> None:
    limits = ServerLimits(stop_seconds=0.05)
    async with run_server(home, answering(HANGING), limits=limits) as server:
        run = await server.prompt(await server.session())
        await server.provider.wait_for_requests(1)
        stuck = asyncio.Event()

        async def hang(*_: object, **__: object) -> None:
            stuck.set()
            await asyncio.Event().wait()

        server.app.services.workspaces.list_workspaces = hang  # type: ignore[method-assign, assignment]
        server.app.engine.stop = hang  # type: ignore[method-assign]
        waiting = asyncio.create_task(server.http.get("/v1/workspaces"))
        await stuck.wait()
        server.stop()
        server.stop()
        answer = await waiting
        assert (answer.status, answer.code) == (503, "stopping")
        await server.serving
        del server.app.engine.stop  # type: ignore[misc]
    async with run_server(home) as server:
        assert (await server.ended(run["run"]["id"]))["state"] == "interrupted"


async def test_while_it_stops_health_says_so_and_nothing_new_begins(home: Path) -> None:
    async with run_server(home, answering(HANGING)) as server:
        held = hold_stop(server)
        session_id = await server.session()
        server.stop()
        await until(lambda: server.app.services.state.stopping)
        assert (await server.http.get("/v1/health")).ok()["status"] == "stopping"
        refused = [
            await server.http.post("/v1/workspaces", {"path": str(server.work)}),
            await server.http.get("/v1/events"),
            await server.http.post(f"/v1/sessions/{session_id}/runs", {"prompt": "x"}),
        ]
        assert [(answer.status, answer.code) for answer in refused] == [(503, "stopping")] * 3
        assert (await server.http.get(f"/v1/sessions/{session_id}")).status == 200
        held.set()


async def test_a_busy_server_is_not_stopped_if_idle_and_an_idle_one_is(home: Path) -> None:
    async with run_server(home, answering(HELD)) as server:
        run = await server.prompt(await server.session())
        refused = await server.http.post("/v1/server/stop", {"if_idle": True})
        assert (refused.status, refused.code) == (409, "server_busy")
        assert refused.json()["error"]["detail"] == {"unfinished_runs": 1}
        server.provider.open("go")
        await server.ended(run["run"]["id"])
        await until(lambda: not server.app.services.workspaces.is_busy)  # the session has its title
        (await server.http.post("/v1/server/stop", {"if_idle": True})).ok(202)
        await server.serving


@pytest.mark.promise("W2")
async def test_a_server_without_clients_and_work_exits(home: Path) -> None:
    async with run_server(home, answering(HELD), linger=0.02, idle_exit=True) as server:
        server.workspace_id = await server.open()
        run = await server.prompt(await server.session())
        await server.provider.wait_for_requests(1)
        await server.watcher.close()
        await until(lambda: server.app.services.presence.streams == 0 and server.app.services.state.idle_seconds > 0.1)
        assert not server.app.services.state.stopping
        server.provider.open("go")
        await server.serving
        assert (await server.app.store.run(run["run"]["id"])).state == "completed"


@pytest.mark.promise("W2")
async def test_a_watched_server_stays_up_and_closes_unwatched_workspaces(home: Path) -> None:
    async with run_server(home, linger=0.02, idle_exit=True) as server:
        watched = await server.open()
        server.workspace_id = watched
        elsewhere = home / "elsewhere"
        elsewhere.mkdir()
        async with server.http.stream(f"/v1/workspaces/{watched}/events") as stream:
            await stream.data()
            other = await server.open(elsewhere)
            await server.watcher.close()
            while (await server.http.get(f"/v1/workspaces/{other}")).ok()["open"]:
                pass
            assert (await server.http.get(f"/v1/workspaces/{watched}")).ok()["open"]
            assert not server.app.services.state.stopping
        await server.serving


async def test_health_checks_do_not_keep_an_idle_server_up(home: Path) -> None:
    async with run_server(home, linger=0.05, idle_exit=True) as server:
        await server.watcher.close()
        while not server.serving.done():
            try:
                await server.http.get("/v1/health")
            except (OSError, asyncio.IncompleteReadError):
                break
        await server.serving


async def test_a_socket_that_was_removed_is_made_again(home: Path) -> None:
    async with run_server(home, limits=ServerLimits(socket_check_seconds=0.01)) as server:
        path = server.app.shared.locations.socket
        stream = await server.http.open_stream("/v1/events")
        await asyncio.to_thread(path.unlink)
        await until(path.exists)
        assert (await server.http.get("/v1/health")).status == 200
        session_id = await server.session()
        run = await server.prompt(session_id)
        assert (await server.ended(run["run"]["id"]))["state"] == "completed"
        await stream.close()  # the connections of the old socket continued
    assert not path.exists()
