"""The 18 behaviours that the tests of Crush prove, over Crush's wire. Each test is named by its number."""

import asyncio
from pathlib import Path

import pytest

from holdfast.testing import Answer, Gate, Hang, ReceivedRequest, Say, TestProvider, text
from tests.crush.crush_wire import crush_wire, parts_of, summary
from tests.support.running_server import answering, hold_stop, until

HELD = Answer(pieces=(Say("begun "), Gate("go"), Say("and done")))
HANGING = Answer(pieces=(Say("begun "), Hang()))
UNSTARTED = Answer(hang_first=True)


@pytest.mark.promise("R1", "R2")
async def test_s1_a_prompt_is_accepted_before_it_runs(home: Path) -> None:
    async with crush_wire(home, answering(HELD)) as wire, wire.events() as events:
        session_id = await wire.session()
        await wire.accepted(session_id, "hello", "r1")
        assert (await wire.server.app.store.run("r1")).prompt == "hello"
        assert (await wire.get("/agent"))["is_busy"]
        wire.server.provider.open("go")
        end = await events.until("run_complete", run_id="r1")
        assert end == {
            "session_id": session_id,
            "run_id": "r1",
            "message_id": end["message_id"],
            "text": "begun and done",
        }
        assert end["message_id"] == (await wire.messages(session_id))[-1]["id"]


@pytest.mark.promise("R7")
async def test_s2_a_reservation_is_released_once(home: Path) -> None:
    """Repeated requests with the same run id are the same run: one turn, one end, and the session is idle after it."""
    async with crush_wire(home, answering(text("one"))) as wire, wire.events() as events:
        session_id = await wire.session()
        await asyncio.gather(*(wire.accepted(session_id, "hello", "r1") for _ in range(3)))
        await events.until("run_complete", run_id="r1")
        await wire.accepted(session_id, "hello", "r1")
        await wire.accepted(session_id, "again", "r2")
        await events.until("run_complete", run_id="r2")
        assert len(events.ends("r1")) == 1
        assert [one[0] for one in summary(await wire.messages(session_id))] == ["user", "assistant"] * 2
        assert not (await wire.get(f"/agent/sessions/{session_id}"))["is_busy"]


@pytest.mark.promise("C1")
async def test_s3_a_cancel_right_after_the_accept_is_not_lost(home: Path) -> None:
    async with crush_wire(home, answering(UNSTARTED)) as wire, wire.events() as events:
        session_id = await wire.session()
        await wire.accepted(session_id, "hello", "r1")
        await wire.cancel(session_id)
        assert (await events.until("run_complete", run_id="r1"))["cancelled"]
        assert summary(await wire.messages(session_id)) == [("user", "hello", "stop"), ("assistant", "", "canceled")]


@pytest.mark.promise("C1")
async def test_s4_one_cancel_covers_all_accepted_before_it_and_none_after(home: Path) -> None:
    def respond(received: ReceivedRequest) -> Answer:
        """The cancel may come before the model was asked, so that an order of answers would not do."""
        prompts = [str(one["content"]) for one in received.body["messages"] if one["role"] == "user"]
        return text("later") if "after" in prompts[-1] else HANGING

    async with crush_wire(home, TestProvider(respond)) as wire, wire.events() as events:
        session_id = await wire.session()
        for number in (1, 2, 3):
            await wire.accepted(session_id, f"prompt {number}", f"r{number}")
        await wire.cancel(session_id)
        await wire.accepted(session_id, "after", "r4")
        end = await events.until("run_complete", run_id="r4")
        assert (end["text"], "cancelled" in end) == ("later", False)
        assert [events.ends(f"r{number}")[0]["cancelled"] for number in (1, 2, 3)] == [True] * 3


@pytest.mark.promise("C2")
async def test_s5_an_idle_cancel_changes_nothing(home: Path) -> None:
    async with crush_wire(home, answering(text("fine"))) as wire, wire.events() as events:
        session_id = await wire.session()
        await wire.cancel(session_id)
        await wire.accepted(session_id, "hello", "r1")
        assert (await events.until("run_complete", run_id="r1"))["text"] == "fine"
        assert summary(await wire.messages(session_id))[-1] == ("assistant", "fine", "end_turn")


@pytest.mark.promise("C5")
async def test_s6_a_prompt_cancelled_before_its_turn_leaves_both_messages(home: Path) -> None:
    async with crush_wire(home, answering(HANGING)) as wire, wire.events() as events:
        session_id = await wire.session()
        await wire.accepted(session_id, "first", "r1")
        await events.until_text("begun")
        await wire.accepted(session_id, "second", "r2")
        await wire.cancel(session_id)
        await events.until("run_complete", run_id="r2", cancelled=True)
        assert summary(await wire.messages(session_id)) == [
            ("user", "first", "stop"),
            ("assistant", "begun ", "canceled"),
            ("user", "second", "stop"),  # Crush keeps no record of a prompt that it dropped from its queue
        ]


@pytest.mark.promise("C5")
async def test_s7_a_cancel_before_the_answer_begins_leaves_a_record(home: Path) -> None:
    async with crush_wire(home, answering(UNSTARTED)) as wire, wire.events() as events:
        session_id = await wire.session()
        await wire.accepted(session_id, "hello", "r1")
        await until(lambda: bool(wire.server.provider.requests))
        await wire.cancel(session_id)
        await events.until("run_complete", run_id="r1", cancelled=True)
        assert summary(await wire.messages(session_id)) == [("user", "hello", "stop"), ("assistant", "", "canceled")]
        assert events.errors() == []


@pytest.mark.promise("R5", "R7")
async def test_s8_a_follow_up_with_a_run_id_gets_its_own_turn_and_end(home: Path) -> None:
    async with crush_wire(home, answering(HELD, text("second answer"))) as wire, wire.events() as events:
        session_id = await wire.session()
        await wire.accepted(session_id, "first", "r1")
        await events.until_text("begun")
        await wire.accepted(session_id, "second", "r2")
        queue = f"/agent/sessions/{session_id}/prompts"
        assert (await wire.get(f"{queue}/queued"), await wire.get(f"{queue}/list")) == (1, ["second"])
        wire.server.provider.open("go")
        end = await events.until("run_complete", run_id="r2")
        assert end["text"] == "second answer"
        assert [one["text"] for one in events.ends("r1")] == ["begun and done"]
        assert [one[1] for one in summary(await wire.messages(session_id))] == [
            "first",
            "begun and done",
            "second",
            "second answer",
        ]


@pytest.mark.promise("R6")
async def test_s9_a_follow_up_without_a_run_id_joins_the_running_turn(home: Path) -> None:
    async with crush_wire(home, answering(HELD, text("both answered"))) as wire, wire.events() as events:
        session_id = await wire.session()
        await wire.show(session_id)
        await wire.accepted(session_id, "first", "r1")
        await events.until_text("begun")
        await wire.accepted(session_id, "also this")
        assert await wire.get(f"/agent/sessions/{session_id}/prompts/list") == ["also this"]
        wire.server.provider.open("go")
        assert (await events.until("run_complete", run_id="r1"))["text"] == "both answered"
        await wire.accepted(session_id, "last", "r2")
        await events.until("run_complete", run_id="r2")
        assert [payload for kind, _, payload in events.seen if kind == "run_complete" and "run_id" not in payload] == []
        assert [one[1] for one in summary(await wire.messages(session_id))][:4] == [
            "first",
            "begun and done",
            "also this",
            "both answered",
        ]


@pytest.mark.promise("C1", "R7")
async def test_s10_dropped_queued_prompts_get_a_cancelled_end(home: Path) -> None:
    async with crush_wire(home, answering(HELD)) as wire, wire.events() as events:
        session_id = await wire.session()
        await wire.accepted(session_id, "first", "r1")
        await events.until_text("begun")
        await wire.accepted(session_id, "second", "r2")
        await wire.accepted(session_id, "third")
        assert (await wire.post(f"/agent/sessions/{session_id}/prompts/clear")).status == 200
        assert (await events.until("run_complete", run_id="r2"))["cancelled"]
        assert await wire.get(f"/agent/sessions/{session_id}/prompts/queued") == 0
        wire.server.provider.open("go")
        assert (await events.until("run_complete", run_id="r1"))["text"] == "begun and done"


@pytest.mark.promise("R7", "E2")
async def test_s11_one_end_that_a_client_gets_also_if_its_stream_broke(home: Path) -> None:
    async with crush_wire(home, answering(HELD)) as wire:
        session_id = await wire.session()
        first = await wire.open_events()
        await wire.accepted(session_id, "hello", "r1")
        await first.until_text("begun")
        await first.close()
        watcher = await wire.another()
        async with watcher.events() as others:
            wire.server.provider.open("go")
            await others.until("run_complete", run_id="r1")
        async with wire.events() as again:
            assert (await again.until("run_complete", run_id="r1"))["text"] == "begun and done"
            changes = {(kind, change) for kind, change, _ in again.seen if kind == "message"}  # of prompts and answers
            assert changes <= {("message", "updated")}  # what the client may have is not created twice
            await wire.accepted(session_id, "more", "r2")
            await again.until("run_complete", run_id="r2")
            assert len(first.ends("r1") + again.ends("r1")) == 1


@pytest.mark.promise("R7")
async def test_s12_a_run_that_fails_before_it_starts_still_ends_once(home: Path) -> None:
    refused = Answer(status=401, error={"error": {"message": "the key is wrong"}})
    async with crush_wire(home, answering(refused)) as wire, wire.events() as events:
        session_id = await wire.session()
        await wire.accepted(session_id, "hello", "r1")
        end = await events.until("run_complete", run_id="r1")
        assert end["error"]
        await events.until("agent_event", type="error", run_id="r1", session_id=session_id)
        await wire.accepted(session_id, "again", "r2")
        await events.until("run_complete", run_id="r2")
        assert len(events.ends("r1")) == 1


@pytest.mark.promise("R10")
async def test_s13_a_run_outlives_its_request_and_all_clients(home: Path) -> None:
    async with crush_wire(home, answering(HELD)) as wire:
        session_id = await wire.session()
        async with wire.events() as events:
            await wire.accepted(session_id, "hello", "r1")
            await events.until_text("begun")
        await wire.http.send("DELETE", f"/v1/clients/{wire.client_id}")
        wire.server.provider.open("go")
        assert (await wire.server.ended("r1"))["state"] == "completed"
        other = await wire.another()
        assert summary(await other.messages(session_id))[-1] == ("assistant", "begun and done", "end_turn")


@pytest.mark.promise("C9")
async def test_s14_a_cancel_by_another_client_is_no_error(home: Path) -> None:
    async with crush_wire(home, answering(HANGING)) as wire:
        other = await wire.another()
        async with wire.events() as mine, other.events() as theirs:
            session_id = await wire.session()
            await wire.accepted(session_id, "hello", "r1")
            await theirs.until_text("begun")
            await other.cancel(session_id)
            for events in (mine, theirs):
                end = await events.until("run_complete", run_id="r1")
                assert (end["cancelled"], end.get("error"), events.errors()) == (True, None, [])


@pytest.mark.promise("W5")
async def test_s15_a_stop_accepts_nothing_new_and_ends_what_runs(home: Path) -> None:
    async with crush_wire(home, answering(HANGING)) as wire, wire.events() as events:
        session_id = await wire.session()
        await wire.accepted(session_id, "hello", "r1")
        await events.until_text("begun")
        held = hold_stop(wire.server)
        wire.server.stop()
        end = await events.until("run_complete", run_id="r1")
        assert "cancelled" not in end
        assert end["error"]
        refused = await wire.prompt(session_id, "new", "r2")
        assert (refused.status, list(refused.json())) == (503, ["message"])
        assert summary(await wire.messages(session_id))[-1] == ("assistant", "begun ", "error")
        held.set()
        while await events.next() is not None:  # the stream ends
            pass


@pytest.mark.promise("W9")
async def test_s16_mistakes_are_refused_before_anything_is_accepted(home: Path) -> None:
    async with crush_wire(home) as wire:
        session_id = await wire.session()
        unknown = "/v1/workspaces/wsp_unknown/agent"
        answers = [
            await wire.prompt(session_id, "  "),
            await wire.prompt("", "hello"),
            await wire.prompt("ses_unknown", "hello"),
            await wire.http.post(unknown, {"session_id": session_id, "prompt": "hello"}),
            await wire.http.send("POST", wire.path("/agent"), body=b"no json"),
            await wire.http.post("/v1/workspaces", {"path": str(home), "client_id": "me"}),
            await wire.http.post("/v1/workspaces", {"client_id": wire.client_id}),
            await wire.http.post("/v1/control", {"command": "explode"}),
            await wire.http.post("/v1/control", {"command": "shutdown_if_idle"}),
            await wire.http.send("POST", "/v1/control", {"command": "shutdown"}, Content_Type="text/plain"),
            await wire.http.get("/v1/nowhere"),
        ]
        assert [answer.status for answer in answers] == [400, 400, 404, 404, 400, 400, 400, 400, 409, 409, 404]
        assert all(list(answer.json()) == ["message"] for answer in answers)
        assert await wire.messages(session_id) == []


@pytest.mark.promise("R9")
async def test_s17_a_follower_finds_its_own_end_among_others(home: Path) -> None:
    refused = Answer(status=401, error={"error": {"message": "the key is wrong"}})
    async with crush_wire(home, answering(refused, text("mine"))) as wire, wire.events() as events:
        session_id = await wire.session()
        await wire.accepted(session_id, "theirs", "foreign")
        await wire.accepted(session_id, "mine", "own")
        assert (await events.until("run_complete", run_id="own"))["text"] == "mine"
        assert {error["run_id"] for error in events.errors()} == {"foreign"}


@pytest.mark.promise("R2")
async def test_s18_error_bodies_can_be_decoded_and_success_has_no_body(home: Path) -> None:
    async with crush_wire(home, answering(text("ok"))) as wire, wire.events() as events:
        session_id = await wire.session()
        missing = await wire.http.get(wire.path("/sessions/ses_unknown"))
        assert (missing.status, missing.headers["content-type"]) == (404, "application/json")
        assert "ses_unknown" in missing.json()["message"]
        await wire.accepted(session_id, "no run id")
        end = await events.until("run_complete", session_id=session_id)
        assert "run_id" not in end
        await events.until("agent_event", type="agent_finished")
        assert parts_of((await wire.messages(session_id))[-1], "finish")[0]["reason"] == "end_turn"
