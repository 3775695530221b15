"""Programs that use the Python interface, on a real server with a scripted provider."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import holdfast
import holdfast.sync
from holdfast import Approval, ApprovalReply, Client, File, Question, RunNotCompleted
from holdfast.errors import BadRequest, Conflict, Unreachable
from holdfast.schema.events import CallRequested, RunFinished, RunStarted
from holdfast.schema.messages import ToolResult
from holdfast.testing import Answer, Call, Gate, Hang, Say, calls
from tests.support.running_server import RunningServer, answering, run_server

SAY = Answer(pieces=(Say("Hello to you."),))


@asynccontextmanager
async def serving(home: Path, *answers: Answer) -> AsyncIterator[tuple[RunningServer, Client]]:
    async with run_server(home, answering(*answers)) as server, new_client(server) as client:
        yield server, client


def new_client(server: RunningServer, **options: Any) -> Client:
    return Client(server.work, server=f"unix:{server.app.shared.locations.socket}", **options)


async def results_of(client: Client, session_id: str) -> list[ToolResult]:
    messages, _ = await client.all_messages(session_id)
    return [part for message in messages for part in message.parts if isinstance(part, ToolResult)]


async def test_a_prompt_its_text_its_events_and_its_result(home: Path) -> None:
    async with serving(home, SAY, SAY) as (_, client):
        run = await client.start("hello", title="Greeting")
        assert run.decision == "started"
        assert "".join([piece async for piece in run.stream_text()]) == "Hello to you."
        result = await run.wait()
        assert (result.ok, result.text, result.reason) == (True, "Hello to you.", "end_turn")
        again = await run.session.prompt("again")
        kinds = [type(event) async for event in again.events()]
        assert kinds[-1] is RunFinished
        assert RunStarted in kinds
        assert [type(event) async for event in (await client.find_run(run.id)).events()] == [RunFinished]
        assert "".join([piece async for piece in (await client.find_run(run.id)).stream_text()]) == "Hello to you."
        assert [message.role for message in await run.session.messages()] == ["user", "assistant"] * 2
        assert not (await client.get_run(run.id)).interactive  # nobody here could answer


@dataclass
class Verdict:
    good: bool


@dataclass
class Tree:
    below: "list[Tree]"


async def test_an_answer_that_does_not_match_its_type_is_corrected_once_and_then_fails(home: Path) -> None:
    wrong, right = Answer(pieces=(Say('{"good": "yes"}'),)), Answer(pieces=(Say('```json\n{"good": true}\n```'),))
    tree = Answer(pieces=(Say('{"below": [{"below": []}]}'),))
    async with serving(home, wrong, right, wrong, wrong, tree) as (_, client):
        assert (await client.run("judge", output=Verdict)).output == Verdict(good=True)
        failed = await client.run("judge", output=Verdict)
        assert (failed.ok, failed.reason) == (False, "output_schema")
        with pytest.raises(RunNotCompleted, match="output_schema"):
            _ = failed.output
        assert (await client.run("draw", output=Tree)).output == Tree([Tree([])])
        for schema in ({"$ref": "http://127.0.0.1:9/schema"}, {"type": "nonsense"}, {"$ref": "#/$defs/missing"}):
            with pytest.raises(BadRequest, match="output_schema is not a valid JSON Schema"):
                await client.start("judge", output=schema)


@pytest.mark.promise("W13")
async def test_a_tool_runs_in_this_process_and_its_errors_are_results(home: Path) -> None:
    asks = calls(Call("stock", {"item": "anchor"}), Call("stock", {"item": "rope"}), Call("stock", {"thing": 1}))
    async with serving(home, asks, SAY) as (server, client):
        processes: list[int] = []

        @client.tool(effect="reads", parallel=True)
        def stock(item: str) -> int:
            """How many are there?"""
            processes.append(os.getpid())
            return {"anchor": 3}[item]

        run = await client.start("do we have anchors?")
        assert (await run.wait()).ok
        assert processes == [os.getpid()] * 2
        found = [(result.status, result.text) for result in await results_of(client, run.session_id)]
        assert found[:2] == [("ok", "3"), ("error", "KeyError: 'rope'")]
        assert found[2][0] == "error"
        assert stock("anchor") == 3
        await client.aclose()
        assert (await server.http.get(f"/v1/sessions/{run.session_id}/tools")).ok()["items"] == []


@pytest.mark.promise("W13", "C8")
async def test_a_cancel_of_the_run_cancels_the_tool(home: Path) -> None:
    async with serving(home, calls(Call("slow", {}))) as (_, client):
        started, ended = asyncio.Event(), asyncio.Event()

        @client.tool(effect="none")
        async def slow() -> None:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        run = await client.start("be slow")
        await started.wait()
        receipt = await run.cancel()
        assert [covered.ended_as for covered in receipt.runs] == ["cancelled"]
        await ended.wait()
        assert not (await run.wait()).ok
        assert [result.status for result in await results_of(client, run.session_id)] == ["cancelled"]


@pytest.mark.promise("W4")
async def test_handlers_decide_approvals_and_answer_questions_and_a_failing_one_denies(home: Path) -> None:
    touch = calls(Call("bash", {"command": "touch made"}))
    ask = calls(Call("ask", {"questions": [{"text": "Which?", "kind": "single", "options": ["a", "b"]}]}))
    async with serving(home, touch, SAY, touch, ask, SAY) as (server, client):
        asked: list[str] = []

        @client.on_approval
        def decide(approval: Approval) -> ApprovalReply:
            asked.append(approval.title)
            if len(asked) == 1:
                raise ValueError("a bug in the policy")
            return ApprovalReply("once")

        @client.on_question
        async def answer(question: Question) -> list[list[str]]:
            return [["b"]]

        session = await client.new_session()
        first = await session.prompt("make it")
        await first.wait()
        (denied,) = await results_of(client, session.id)
        assert (denied.status, "ValueError" in denied.text) == ("denied", True)
        assert not (server.work / "made").exists()
        assert (await session.run("make it")).ok
        assert (server.work / "made").exists()
        assert "b" in (await results_of(client, session.id))[-1].text
        assert asked == ["touch made"] * 2


@pytest.mark.promise("W4")
async def test_a_handler_whose_reply_means_nothing_denies_or_dismisses(home: Path) -> None:
    touch = calls(Call("bash", {"command": "touch made"}))
    ask = calls(Call("ask", {"questions": [{"text": "Which?", "kind": "single", "options": ["a", "b"]}]}))
    async with serving(home, touch, SAY, touch, SAY, touch, SAY, ask, SAY) as (server, client):
        replies: list[Any] = [True, "maybe", ApprovalReply("session", pattern=("no: rule: of mine",))]

        @client.on_approval
        def decide(approval: Approval) -> Any:
            return replies.pop(0)

        @client.on_question
        def answer(question: Question) -> Any:
            return [["a"], ["b"]]

        session = await client.new_session()
        for _ in range(3):
            await session.run("make it")
        assert [result.status for result in await results_of(client, session.id)] == ["denied"] * 3
        assert not (server.work / "made").exists()
        assert (await session.run("ask me")).ok
        assert "dismissed" in (await results_of(client, session.id))[-1].text


@pytest.mark.promise("R3")
async def test_the_same_run_id_is_the_same_run_for_a_program_that_starts_again(home: Path) -> None:
    async with serving(home, SAY, SAY) as (server, client):
        first = await client.start("nightly", run_id="nightly-1")
        text = (await first.wait()).text
        async with new_client(server) as again:
            second = await again.start("nightly", run_id="nightly-1")
            assert (second.id, second.session_id) == (first.id, first.session_id)
            assert "".join([piece async for piece in second.stream_text()]) == text
            assert (await second.wait()).text == text
            with pytest.raises(Conflict):
                await again.start("another prompt", run_id="nightly-1")


@pytest.mark.promise("R6", "C1")
async def test_steering_queueing_and_cancelling_a_session(home: Path) -> None:
    held = Answer(pieces=(Say("I begin"), Gate("go"), Call("ls", {"path": "."})))
    hanging = Answer(pieces=(Say("I hang"), Hang()))
    async with serving(home, held, hanging) as (server, client):
        session = await client.new_session()
        active = await session.prompt("begin", max_steps=5)
        async for piece in active.stream_text():
            if piece:
                break
        steered = await active.steer("also this")
        assert (await session.steer("and this")).decision == "steered"
        assert steered.decision == "steered"
        queued = await session.prompt("later")
        assert queued.decision == "queued"
        server.provider.open("go")
        with pytest.raises(TimeoutError):
            await queued.wait(seconds=0)
        receipt = await session.cancel()
        assert {covered.run_id for covered in receipt.runs} >= {active.id, queued.id}
        assert (await queued.wait()).state == "cancelled"
        assert (await session.queue()).active is None


@pytest.mark.promise("W13", "E2")
async def test_tools_survive_a_lost_connection(home: Path) -> None:
    asks = calls(Call("count", {}))
    async with serving(home, asks, SAY, asks, SAY) as (server, client):

        @client.tool(effect="none")
        def count() -> int:
            return 7

        session = await client.new_session()
        assert (await session.run("count")).ok
        hub = server.app.hub
        for subscription in tuple(hub._subscriptions):
            subscription.close()
        assert (await session.run("count again")).ok
        assert [result.text for result in await results_of(client, session.id)] == ["7", "7"]


async def test_a_program_watches_a_session_that_another_one_drives(home: Path) -> None:
    async with serving(home, calls(Call("look", {})), SAY) as (server, client):

        @client.tool(effect="none")
        def look() -> str:
            return "seen"

        session = await client.new_session()
        async with new_client(server, name="watcher") as watcher:
            other = await watcher.open_session(session.id)
            events = other.events()
            assert (await anext(events)).at
            run = await session.prompt("look")
            seen = []
            async for event in events:
                seen.append(type(event))
                if isinstance(event, RunFinished):
                    assert event.run.id == run.id
                    break
            await events.aclose()  # type: ignore[attr-defined]
        assert {RunStarted, CallRequested, RunFinished} <= set(seen)


def test_a_synchronous_program_has_the_same_interface(home: Path) -> None:
    program = """
import asyncio, sys, threading
from holdfast import HoldfastError
from holdfast.sync import Client

async def in_a_loop():
    with Client(sys.argv[1]) as client:  # a program with an event loop may use it, too, and blocks that
        return client.health().status

print(asyncio.run(in_a_loop()))
with Client(sys.argv[1]) as client:
    early = client.new_session()
try:
    early.run("too late")
except HoldfastError as error:
    print(error.message)
with Client(sys.argv[1]) as client:
    @client.tool(effect="none")
    def where() -> str:
        "Where does it run?"
        return threading.current_thread().name[:7]

    session = client.new_session(title="sync")
    run = session.prompt("hello")
    print(run.decision, "".join(run.stream_text()).split()[-1], run.wait().ok, client.health().status)
    print([tool.name for tools in client.attached_tools(session.id).items for tool in tools.tools])
    print(len(session.messages()), session.queue().active, session.cancel().runs)
client.stop_server(if_idle=False)
"""
    (home / "work").mkdir()
    env = {**os.environ, "HOLDFAST_MODEL": "offline/demo"}
    done = subprocess.run(
        [sys.executable, "-c", program, str(home / "work")],
        capture_output=True,
        text=True,
        env=env,
        timeout=50,
        check=False,
    )
    assert done.stderr == ""
    late = "the client is closed; open another one, or stay in its `with` block"
    assert done.stdout.splitlines() == ["ok", late, "started hello True ok", "['where']", "2 None ()"]


async def test_files_are_attached_by_their_paths(home: Path) -> None:
    async with serving(home, SAY) as (server, client):
        (server.work / "notes.txt").write_text("remember")
        files = [str(server.work / "notes.txt"), File("more.txt", "text/plain", text="more")]
        run = await client.start("read", attachments=files)
        await run.wait()
        sent = server.provider.requests[0].body["messages"][-1]["content"]
        assert ("remember" in str(sent), "more" in str(sent)) == (True, True)
        assert [message.text for message in await run.session.messages()] == ["read", "Hello to you."]
        with pytest.raises(BadRequest, match=r"cannot attach .*absent.*: No such file"):
            await client.start("read", attachments=[server.work / "absent"])


async def test_mistakes_of_a_program_are_told(home: Path) -> None:
    async with serving(home) as (server, client):
        with pytest.raises(TypeError, match="a prompt has no option 'max_step'; options: run_id, model, mode"):
            await client.run("hi", max_step=1)  # type: ignore[call-overload]
        with pytest.raises(BadRequest, match=r"cannot be written as JSON: .*object"):
            await client.run("hi", output={"const": object()})
    with pytest.raises(Unreachable, match="use it in an `async with` block"):
        await Client(server.work).run("hi")
    with pytest.raises(Unreachable, match="use it in a `with` block"):
        holdfast.sync.Client(server.work).run("hi")


async def test_a_server_that_is_not_there_is_an_error_and_nothing_is_left_open(home: Path) -> None:
    client = Client(home, server=f"unix:{home}/none.sock")
    client._retry_seconds = 0.0
    with pytest.raises(Unreachable):
        async with client:
            pass
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = holdfast.Nothing  # type: ignore[attr-defined]
