"""A whole server without sockets: real tools, and real HTTP to a provider on loopback with each of the four wires.

Every request that the provider receives is checked by the rules of its vendor.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from holdfast.schema.approvals import ApprovalState
from holdfast.schema.events import MessageFinished, RunFinished, RunRetrying
from holdfast.schema.messages import Finish, Reasoning, Summary, text_of
from holdfast.schema.runs import Limits
from holdfast.testing import (
    WIRES,
    Answer,
    Call,
    Fail,
    Gate,
    Hang,
    Say,
    Think,
    TokenCounts,
    WireName,
    text,
)
from tests.support.wire_server import asked, each_wire, is_title, model, results, script, server, shown


def processes_with(words: str) -> list[str]:
    """Return the numbers of the processes whose command line contains these words."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if words.encode() in (entry / "cmdline").read_bytes():
                found.append(entry.name)
        except OSError:
            continue  # it has ended
    return found


@each_wire
@pytest.mark.promise("R6", "R8")
async def test_tools_run_steers_join_and_the_end_has_text_and_usage(tmp_path: Path, wire: Any) -> None:
    async with server(tmp_path, wire) as (harness, provider):
        script(
            provider,
            Answer((Think("first a file"), Say("I write."), Call("write", {"path": "made.txt", "content": "hello\n"}))),
            Answer((Call("bash", {"command": "cat made.txt"}), Call("ls", {}), Gate("boundary"))),
            text("It says hello."),
        )
        accepted = await harness.start("make a file", model=model(wire), mode="auto")
        await asked(provider, 2)
        steer = await harness.start(
            "in English", model=model(wire), mode="auto", session_id=accepted.run.session_id, delivery="steer"
        )
        assert steer.decision == "steered"
        provider.open("boundary")
        run = await harness.ended(accepted)
        assert (run.state, run.reason, run.text, run.steps) == ("completed", "end_turn", "It says hello.", 3)
        joined = await harness.ended(steer)
        assert (joined.state, joined.host_run_id) == ("completed", run.id)
        assert (harness.directory / "made.txt").read_text() == "hello\n"
        wrote, cat, listed = results(await harness.messages(run.session_id))
        assert (wrote.status, cat.status, listed.status) == ("ok", "ok", "ok")
        assert "hello" in cat.text
        assert "made.txt" in listed.text
        last = (await asked(provider, 3))[2]
        assert "in English" in json.dumps(last.body)
        kinds = [type(event) for event in await harness.events() if isinstance(event, MessageFinished | RunFinished)]
        assert kinds[-2:] == [RunFinished, RunFinished]
        assert (run.usage.input, run.usage.output) == (300, 60)
        assert run.usage.cost == pytest.approx(300e-6 + 600e-6)


@each_wire
@pytest.mark.promise("C3", "C5", "C6", "C7", "C9")
async def test_a_cancel_closes_the_connection_and_the_next_prompt_is_answered(tmp_path: Path, wire: Any) -> None:
    async with server(tmp_path, wire) as (harness, provider):
        script(provider, Answer((Think("hm"), Say("half an answer", chunk=4), Hang())), text("a whole one"))
        accepted = await harness.start("first", model=model(wire))
        await shown(harness, b"wer", of=b"text")
        number = next(one.number for one in provider.requests if not is_title(one))
        receipt = await harness.app.engine.cancel_session(accepted.run.session_id)
        await provider.wait_for_disconnect(number)
        (line,) = receipt.runs
        assert (line.was, line.ended_as, line.reason) == ("active", "cancelled", "user_cancel")
        assert line.doing is not None
        assert (line.doing.phase, line.doing.what) == ("streaming", model(wire))
        run = await harness.ended(accepted)
        assert (run.state, run.text, run.error) == ("cancelled", "half an answer", None)
        prompt, answer = await harness.messages(run.session_id)
        assert text_of(prompt.parts) == "first"
        assert answer.parts[-1] == Finish("cancelled")
        again = await harness.run("second", model=model(wire), session_id=run.session_id)
        assert (again.state, again.text) == ("completed", "a whole one")
        assert "half an answer" in json.dumps((await asked(provider, 2))[1].body)


@each_wire
@pytest.mark.promise("C3", "C6", "C7", "R8")
async def test_a_cancel_kills_processes_before_the_end_is_published(tmp_path: Path, wire: Any) -> None:
    async with server(tmp_path, wire) as (harness, provider):
        length = f"1000.{uuid4().int}"  # names the processes: a sandbox may hide their numbers
        command = f"sleep {length} & echo ready; wait"
        script(
            provider,
            Answer((Say("I run it."), Call("bash", {"command": command}), Call("bash", {"command": "echo never"}))),
            text("on we go"),
        )
        accepted = await harness.start("go", model=model(wire), mode="auto")
        await shown(harness, b"ready", of=b"output")
        assert processes_with(length)
        receipt = await harness.app.engine.cancel_session(accepted.run.session_id)
        assert not processes_with(length), "the end was published while a process was alive"
        (line,) = receipt.runs
        assert line.doing is not None
        assert (line.doing.phase, line.doing.what) == ("tool", f"bash: {command}")
        assert any("sleep 1000" in name for name in line.killed)
        assert line.left_running == ()
        killed, never = results(await harness.messages(accepted.run.session_id))
        assert killed.status == never.status == "cancelled"
        assert "ready" in killed.text
        assert "Not run" in never.text
        again = await harness.run("and now", model=model(wire), session_id=accepted.run.session_id)
        assert (again.state, again.text) == ("completed", "on we go")


@each_wire
@pytest.mark.promise("C8", "W4")
async def test_a_cancel_reaches_an_approval_a_question_and_a_sub_agent(tmp_path: Path, wire: Any) -> None:
    async with server(tmp_path, wire) as (harness, provider):
        question = {"questions": [{"text": "Sure?", "kind": "yes_no"}]}
        states: list[ApprovalState] = []
        for call in (Call("bash", {"command": "touch made"}), Call("ask", question)):
            script(provider, Answer((call,)))
            accepted = await harness.start("go", model=model(wire))
            store = harness.app.store
            async for _ in harness.app.hub.subscribe(after=f"{store.log_id}.0"):
                asks = [*(await store.open_approvals()).items, *(await store.open_questions()).items]
                if asks:
                    break
            now = (await harness.app.engine.get_run(accepted.run.id)).now
            assert now is not None
            assert now.phase == ("approval" if call.name == "bash" else "question")
            (line,) = (await harness.app.engine.cancel_session(accepted.run.session_id)).runs
            assert line.ended_as == "cancelled"
            read = store.approval if call.name == "bash" else store.question
            states.append((await read(asks[0].id)).state)
            (result,) = results(await harness.messages(accepted.run.session_id))
            assert result.status == "cancelled"
        assert states == ["cancelled", "cancelled"]
        assert not (harness.directory / "made").exists()
        script(provider, Answer((Call("agent", {"title": "t", "prompt": "look"}),)), Answer((Say("looking"), Hang())))
        accepted = await harness.start("go", model=model(wire))
        await shown(harness, b"looking", of=b"text")
        lines = (await harness.app.engine.cancel_session(accepted.run.session_id)).runs
        assert [line.ended_as for line in lines] == ["cancelled", "cancelled"]
        assert len({line.session_id for line in lines}) == 2


@each_wire
@pytest.mark.promise("R13")
async def test_failed_attempts_are_published_and_replaced(tmp_path: Path, wire: Any) -> None:
    async with server(tmp_path, wire) as (harness, provider):
        broken = Fail("overloaded", "Overloaded, please try again in 1ms")
        script(
            provider,
            Answer(status=503, headers={"Retry-After": "0"}),
            Answer((Say("wrong words"), Call("write", {"path": "made", "content": "x"}), broken)),
            Answer((Say("right words"), Call("write", {"path": "made", "content": "x"}))),
            Answer(status=429, headers={"Retry-After": "0"}),
            text("done"),
        )
        run = await harness.run("go", model=model(wire), mode="auto")
        assert (run.state, run.text, run.steps) == ("completed", "done", 2)
        told = [event for event in await harness.events() if isinstance(event, RunRetrying)]
        assert [(event.attempt, event.cause) for event in told] == [
            (1, "overloaded"),
            (2, "overloaded"),
            (1, "rate_limit"),
        ]
        _, first, _, last = await harness.messages(run.session_id)
        assert text_of(first.parts) == "right words"
        assert text_of(last.parts) == "done"
        assert len(results(await harness.messages(run.session_id))) == 1
        assert len((await harness.app.services.sessions.changes(run.session_id)).items) == 1


CONTEXT_ERRORS: dict[WireName, dict[str, Any]] = {
    "openai-chat": {"error": {"code": "context_length_exceeded", "message": "maximum context length is 100"}},
    "openai-responses": {"error": {"code": "context_length_exceeded", "message": "too long"}},
    "anthropic": {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 > 1"}},
    "gemini": {"error": {"code": 400, "message": "The input token count (9) exceeds the maximum", "status": "INVALID"}},
}


@each_wire
@pytest.mark.promise("R12")
async def test_a_full_window_is_compacted_by_the_usage_or_by_the_providers_error(tmp_path: Path, wire: Any) -> None:
    async with server(tmp_path, wire) as (harness, provider):
        todos = {"todos": [{"text": "mend it", "status": "in_progress"}, {"text": "test it", "status": "pending"}]}
        script(
            provider,
            Answer((Call("todos", todos),), usage=TokenCounts(input=95_000)),
            text("## Task\nmend the thing"),
            Answer(status=400, error=CONTEXT_ERRORS[wire]),
            text("## Task\nmend it still"),
            text("mended"),
        )
        run = await harness.run("please mend the thing", model=model(wire))
        assert (run.state, run.text, run.steps) == ("completed", "mended", 2)
        messages = await harness.messages(run.session_id)
        summaries = [part for m in messages for part in m.parts if isinstance(part, Summary)]
        assert len(summaries) == 2
        for summary in summaries:
            assert "please mend the thing" in summary.text
            assert "- [in_progress] mend it\n- [pending] test it" in summary.text
        sent = [json.dumps(one.body) for one in await asked(provider, 5)]
        assert "mend it still" in sent[4]
        assert "mend the thing" not in sent[4].replace("please mend the thing", "")


@each_wire
@pytest.mark.promise("R11", "R12")
async def test_the_settings_of_a_run_do_not_affect_the_next(tmp_path: Path, wire: Any) -> None:
    async with server(tmp_path, wire) as (harness, provider):
        script(provider, text('{"a": "one"}'), text("two"), *[Answer((Call("ls", {"path": "."}),))] * 3)
        schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
        first = await harness.run("go", model=model(wire), effort="high", output_schema=schema)
        second = await harness.run("go", model=model(wire), session_id=first.session_id)
        with_effort, without = (json.dumps(one.body) for one in (await asked(provider, 2))[:2])
        assert (first.effort, second.effort) == ("high", None)
        assert with_effort != without
        assert '"required": ["a"]' in with_effort
        assert '"required": ["a"]' not in without
        dear = await harness.run("go", model=model(wire), limits=Limits(max_cost=0.0001), session_id=first.session_id)
        assert (dear.state, dear.reason) == ("failed", "limit_cost")
        assert dear.steps == 1
        assert dear.error is not None
        assert "limit" in dear.error.message
        assert (await harness.run("go", model=model(wire), session_id=first.session_id)).state == "completed"
        assert "effort" not in (harness.app.shared.locations.config_file.read_text())


@each_wire
async def test_the_output_schema_is_sent_with_every_request(tmp_path: Path, wire: Any) -> None:
    async with server(tmp_path, wire) as (harness, provider):
        schema = {
            "type": "object",
            "properties": {"files": {"type": "array", "items": {"type": "string"}}},
            "required": ["files"],
            "additionalProperties": False,
        }
        script(provider, Answer((Call("ls", {}),)), text('{"files": ["a"]}'))
        run = await harness.run("list", model=model(wire), output_schema=schema)
        assert json.loads(run.text) == {"files": ["a"]}
        for one in await asked(provider, 2):
            body = one.body
            found = {
                "openai-chat": lambda body: body["response_format"]["json_schema"]["schema"],
                "openai-responses": lambda body: body["text"]["format"]["schema"],
                "anthropic": lambda body: body["output_config"]["format"]["schema"],
                "gemini": lambda body: body["generationConfig"]["responseJsonSchema"],
            }[one.wire](body)
            assert found == schema


@pytest.mark.promise("C6", "R11")
async def test_a_session_can_change_vendors_and_opaque_data_goes_only_to_its_own(tmp_path: Path) -> None:
    async with server(tmp_path) as (harness, provider):
        session_id = None
        wires: list[WireName] = [*WIRES, *reversed(WIRES)]
        for number, wire in enumerate(wires):
            thoughts = Think("secret thought", opaque=f"opaque-of-{wire}-{number}")
            script(
                provider,
                Answer((thoughts, Say("I look."), Call("ls", {}))),
                Answer((Think("again", opaque=f"opaque-of-{wire}-{number}b"), Say(f"done {number}"))),
            )
            run = await harness.run("go", model=model(wire), session_id=session_id)
            assert (run.state, run.text) == ("completed", f"done {number}")
            session_id = run.session_id
        for one in provider.requests:
            sent = json.dumps(one.body)
            foreign = [wire for wire in WIRES if wire != one.wire and f"opaque-of-{wire}-" in sent]
            assert not foreign
            assert "b3BhcXVl" not in sent or one.wire == "gemini"  # the same in base64, as Gemini's signatures are
        messages = await harness.messages(session_id or "")
        assert sum(isinstance(part, Reasoning) for m in messages for part in m.parts) == 2 * len(wires)


@each_wire
@pytest.mark.promise("R12")
async def test_the_usage_of_sub_agents_and_titles_is_counted_once(tmp_path: Path, wire: Any) -> None:
    async with server(tmp_path, wire) as (harness, provider):
        agent = Call("agent", {"title": "look", "prompt": "look around"})
        script(
            provider,
            Answer((agent, agent), usage=TokenCounts(input=1, output=1)),
            *[text("seen", usage=TokenCounts(input=10, output=10))] * 2,
            text("thanks", usage=TokenCounts(input=100, output=100)),
        )
        run = await harness.run("go", model=model(wire))
        assert (run.state, run.text) == ("completed", "thanks")
        assert (run.usage.input, run.usage.output, run.steps) == (121, 121, 2)
        session = await harness.app.store.session(run.session_id)
        children = (await harness.app.store.sessions(harness.workspace_id, limit=9, parent_id=run.session_id)).items
        assert [child.usage.input for child in children] == [10, 10]
        by_day = await harness.app.store.usage_stats(since="2000-01-01", until="2100-01-01")
        titled = session.usage.input - 121
        assert sum(row.usage.input for row in by_day) == 121 + titled
        assert session.usage.cost == pytest.approx(sum(row.usage.cost for row in by_day))


@pytest.mark.promise("C9")
async def test_a_cancel_is_not_an_error_for_clients_and_logs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with server(tmp_path) as (harness, provider):
        script(provider, Answer((Call("bash", {"command": "echo ready; sleep 1000"}),)))
        accepted = await harness.start("go", model=model("anthropic"), mode="auto")
        await shown(harness, b"ready", of=b"output")
        await harness.app.engine.cancel_session(accepted.run.session_id)
        ends = [event.run for event in await harness.events() if isinstance(event, RunFinished)]
        assert [(run.state, run.error) for run in ends] == [("cancelled", None)]
        stored = await harness.messages(accepted.run.session_id)
        assert all(part.reason != "error" for m in stored for part in m.parts if isinstance(part, Finish))
        assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_a_title_set_by_the_user_meanwhile_stays_and_the_usage_is_counted(tmp_path: Path) -> None:
    async with server(tmp_path) as (harness, provider):
        provider._respond = lambda one: Answer((Gate("title"), Say("A title"))) if is_title(one) else text("ok")
        run = await harness.run("please do it", model=model("anthropic"))
        await harness.app.services.sessions.change(run.session_id, title="My own")
        before = (await harness.app.store.session(run.session_id)).usage
        provider.open("title")
        workspace = await harness.app.open_workspaces.live(harness.workspace_id)
        await asyncio.gather(*workspace.titles._tasks)
        session = await harness.app.store.session(run.session_id)
        assert session.title == "My own"
        assert session.usage.input == before.input + 100


@pytest.mark.promise("R12")
async def test_a_sub_agent_cannot_spend_more_than_its_parent_may(tmp_path: Path) -> None:
    async with server(tmp_path) as (harness, provider):
        dear = TokenCounts(input=0, output=100)
        script(
            provider,
            Answer((Call("agent", {"title": "t", "prompt": "look"}),), usage=dear),
            *[Answer((Call("ls", {"path": "."}),), usage=dear)] * 8,
        )
        run = await harness.run("go", model=model("anthropic"), limits=Limits(max_cost=0.0025))
        assert (run.state, run.reason) == ("failed", "limit_cost")
        (child,) = (await harness.app.store.sessions(harness.workspace_id, limit=9, parent_id=run.session_id)).items
        (spent,) = (await harness.app.store.runs(child.id, limit=9)).items
        assert (spent.reason, spent.steps) == ("limit_cost", 2)
        assert run.usage.output == 300
