"""Approvals, questions and jobs over HTTP (`W3`, `W4`)."""

import asyncio
from pathlib import Path

import pytest

from holdfast.testing import Answer, Call, Say, calls
from tests.support.running_server import RunningServer, answering, run_server

ASKING = calls(Call("bash", {"command": "touch made"}))
QUESTION = calls(Call("ask", {"questions": [{"text": "Which?", "kind": "single", "options": ["a", "b"]}]}))


async def asked(server: RunningServer, what: str, session_id: str) -> str:
    """The id of the open approval or question of a session, listed as a late joiner would find it."""
    kind = {"approvals": "approval.requested", "questions": "question.asked"}[what]
    async with server.http.stream(f"/v1/workspaces/{server.workspace_id}/events") as stream:
        while True:
            listed = (await server.http.get(f"/v1/workspaces/{server.workspace_id}/{what}")).ok()
            for item in listed["items"]:
                if item["session_id"] == session_id:
                    found: str = item["id"]
                    return found
            await stream.until(kind)


@pytest.mark.promise("W4", "W7")
async def test_the_first_of_two_answers_wins_and_the_other_learns_which(home: Path) -> None:
    async with run_server(home, answering(ASKING)) as server:
        session_id = await server.session()
        run = await server.prompt(session_id)
        approval_id = await asked(server, "approvals", session_id)
        target = f"/v1/approvals/{approval_id}"
        assert (await server.http.get(target)).ok()["state"] == "open"
        people = [server.http.named("tui/1 anna"), server.http.named("web/1 ben")]
        bodies = [{"decision": "once"}, {"decision": "deny", "feedback": "no"}]
        async with server.http.stream(f"/v1/workspaces/{server.workspace_id}/events") as stream:
            answers = await asyncio.gather(
                *(http.post(target, body) for http, body in zip(people, bodies, strict=True))
            )
            assert sorted(answer.status for answer in answers) == [200, 409]
            winner = 0 if answers[0].status == 200 else 1
            resolved = (await stream.until("approval.resolved"))["approval"]
        name = ("tui/1 anna", "web/1 ben")[winner]
        assert resolved["answered_by"] == name
        assert answers[1 - winner].json()["error"]["detail"]["approval"]["answered_by"] == name
        again = await people[winner].post(target, bodies[winner])
        assert again.ok()["answered_by"] == name
        await server.ended(run["run"]["id"])
        assert (server.work / "made").exists() == (winner == 0)


@pytest.mark.promise("W4", "C8")
async def test_an_open_approval_is_closed_by_a_cancel_and_holds_up_no_other_session(home: Path) -> None:
    async with run_server(home, answering(ASKING)) as server:
        first, second = await server.session(), await server.session()
        run = await server.prompt(first)
        approval_id = await asked(server, "approvals", first)
        other = await server.prompt(second)
        assert (await server.ended(other["run"]["id"]))["state"] == "completed"
        async with server.http.stream(f"/v1/workspaces/{server.workspace_id}/events") as stream:
            (await server.http.post(f"/v1/runs/{run['run']['id']}/cancel")).ok()
            assert (await stream.until("approval.resolved"))["approval"]["state"] == "cancelled"
        late = await server.http.post(f"/v1/approvals/{approval_id}", {"decision": "once"})
        assert (late.status, late.code) == (409, "approval_closed")
        assert (await server.http.get(f"/v1/workspaces/{server.workspace_id}/approvals")).ok()["items"] == []
        assert not (server.work / "made").exists()


@pytest.mark.promise("W4")
async def test_a_question_is_answered_by_its_options_or_dismissed(home: Path) -> None:
    async with run_server(home, answering(QUESTION, Answer(pieces=(Say("thanks"),)), QUESTION)) as server:
        for body in ({"answers": [["b"]]}, {"dismiss": True}):
            session_id = await server.session()
            run = await server.prompt(session_id)
            target = f"/v1/questions/{await asked(server, 'questions', session_id)}"
            for wrong in ({}, {"answers": [["c"]]}, {"answers": []}, {"answers": [["a"]], "dismiss": True}):
                assert (await server.http.post(target, wrong)).status == 400
            answered = (await server.http.post(target, body)).ok()
            assert answered["answered_by"] == "test/1 cli_test"
            assert (await server.http.get(target)).ok() == answered
            await server.ended(run["run"]["id"])


@pytest.mark.promise("W9")
async def test_an_answer_that_was_not_offered_is_refused_and_changes_nothing(home: Path) -> None:
    async with run_server(home, answering(ASKING)) as server:
        session_id = await server.session()
        await server.prompt(session_id)
        target = f"/v1/approvals/{await asked(server, 'approvals', session_id)}"
        for body in ({}, {"decision": "maybe"}, {"decision": "always", "pattern": ["bash: rm -rf *"]}):
            assert (await server.http.post(target, body)).status == 400
        assert (await server.http.get(target)).ok()["state"] == "open"
        for unknown in ("/v1/approvals/apr_unknown", "/v1/questions/qst_unknown", "/v1/jobs/job_unknown"):
            assert (await server.http.get(unknown)).status == 404


@pytest.mark.promise("W4")
async def test_what_is_allowed_for_the_session_is_listed_and_can_be_taken_back(home: Path) -> None:
    async with run_server(home, answering(ASKING)) as server:
        session_id = await server.session()
        run = await server.prompt(session_id)
        target = f"/v1/approvals/{await asked(server, 'approvals', session_id)}"
        (await server.http.post(target, {"decision": "session"})).ok()
        await server.ended(run["run"]["id"])
        grants = f"/v1/workspaces/{server.workspace_id}/grants"
        assert (await server.http.get(grants)).ok()["items"] == []
        (grant,) = (await server.http.get(f"{grants}?session={session_id}")).ok()["items"]
        assert (grant["rule"], grant["created_by"]) == ("bash: touch *", "test/1 cli_test")
        left = (await server.http.send("DELETE", f"{grants}?id={grant['id']}&session={session_id}")).ok()
        assert left["items"] == []


@pytest.mark.promise("W2", "W3")
async def test_a_background_job_is_listed_killed_and_dies_with_its_workspace_only(home: Path) -> None:
    start = calls(Call("bash", {"command": "sleep 1000", "background": True}))
    async with run_server(home, answering(start, Answer(pieces=(Say("ok"),)), start)) as server:
        elsewhere = home / "elsewhere"
        elsewhere.mkdir()
        other = await server.open(elsewhere)
        jobs = {}
        for workspace_id in (server.workspace_id, other):
            body = {"prompt": "go", "mode": "auto"}
            made = (await server.http.post(f"/v1/workspaces/{workspace_id}/runs", body)).ok(202)
            assert (await server.ended(made["run"]["id"]))["state"] == "completed"
            (jobs[workspace_id],) = (await server.http.get(f"/v1/workspaces/{workspace_id}/jobs?running=true")).ok()[
                "items"
            ]
        busy = await server.http.post("/v1/server/stop", {"if_idle": True})
        assert busy.code == "server_busy"
        (await server.http.send("DELETE", f"/v1/workspaces/{other}")).ok()
        gone = (await server.http.get(f"/v1/jobs/{jobs[other]['id']}")).ok()
        assert gone["state"] != "running"
        mine = jobs[server.workspace_id]["id"]
        assert (await server.http.get(f"/v1/jobs/{mine}")).ok()["state"] == "running"
        assert (await server.http.post(f"/v1/jobs/{mine}/kill")).ok()["state"] == "killed"
        assert (await server.http.post(f"/v1/jobs/{mine}/kill")).ok()["state"] == "killed"
