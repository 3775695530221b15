"""Approvals, questions and jobs over HTTP (`W3`, `W4`)."""

import asyncio
from pathlib import Path

import pytest

from holdfast.testing import Answer, Call, Say, calls
from tests.support.running_server import RunningServer, answering, run_server

ASKING = calls(Call("bash", {"command": "touch made"}))
QUESTION = calls(Call("ask", {"questions": [{"text": "Which?", "kind": "single", "options": ["a", "b"]}]}))


async def asked(house: RunningServer, what: str, session_id: str) -> str:
    """The id of the open approval or question of a session, listed as a late joiner would find it."""
    kind = {"approvals": "approval.requested", "questions": "question.asked"}[what]
    async with house.http.stream(f"/v1/workspaces/{house.workspace_id}/events") as stream:
        while True:
            listed = (await house.http.get(f"/v1/workspaces/{house.workspace_id}/{what}")).ok()
            for item in listed["items"]:
                if item["session_id"] == session_id:
                    found: str = item["id"]
                    return found
            await stream.until(kind)


@pytest.mark.promise("W4", "W7")
async def test_the_first_of_two_answers_wins_and_the_other_learns_which(home: Path) -> None:
    async with run_server(home, answering(ASKING)) as house:
        session_id = await house.session()
        run = await house.prompt(session_id)
        approval_id = await asked(house, "approvals", session_id)
        target = f"/v1/approvals/{approval_id}"
        assert (await house.http.get(target)).ok()["state"] == "open"
        people = [house.http.named("tui/1 anna"), house.http.named("web/1 ben")]
        bodies = [{"decision": "once"}, {"decision": "deny", "feedback": "no"}]
        async with house.http.stream(f"/v1/workspaces/{house.workspace_id}/events") as stream:
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
        await house.ended(run["run"]["id"])
        assert (house.work / "made").exists() == (winner == 0)


@pytest.mark.promise("W4", "C8")
async def test_an_open_approval_is_closed_by_a_cancel_and_holds_up_no_other_session(home: Path) -> None:
    async with run_server(home, answering(ASKING)) as house:
        first, second = await house.session(), await house.session()
        run = await house.prompt(first)
        approval_id = await asked(house, "approvals", first)
        other = await house.prompt(second)
        assert (await house.ended(other["run"]["id"]))["state"] == "completed"
        async with house.http.stream(f"/v1/workspaces/{house.workspace_id}/events") as stream:
            (await house.http.post(f"/v1/runs/{run['run']['id']}/cancel")).ok()
            assert (await stream.until("approval.resolved"))["approval"]["state"] == "cancelled"
        late = await house.http.post(f"/v1/approvals/{approval_id}", {"decision": "once"})
        assert (late.status, late.code) == (409, "approval_closed")
        assert (await house.http.get(f"/v1/workspaces/{house.workspace_id}/approvals")).ok()["items"] == []
        assert not (house.work / "made").exists()


@pytest.mark.promise("W4")
async def test_a_question_is_answered_by_its_options_or_dismissed(home: Path) -> None:
    async with run_server(home, answering(QUESTION, Answer(pieces=(Say("thanks"),)), QUESTION)) as house:
        for body in ({"answers": [["b"]]}, {"dismiss": True}):
            session_id = await house.session()
            run = await house.prompt(session_id)
            target = f"/v1/questions/{await asked(house, 'questions', session_id)}"
            for wrong in ({}, {"answers": [["c"]]}, {"answers": []}, {"answers": [["a"]], "dismiss": True}):
                assert (await house.http.post(target, wrong)).status == 400
            answered = (await house.http.post(target, body)).ok()
            assert answered["answered_by"] == "test/1 cli_test"
            assert (await house.http.get(target)).ok() == answered
            await house.ended(run["run"]["id"])


@pytest.mark.promise("W9")
async def test_an_answer_that_was_not_offered_is_refused_and_changes_nothing(home: Path) -> None:
    async with run_server(home, answering(ASKING)) as house:
        session_id = await house.session()
        await house.prompt(session_id)
        target = f"/v1/approvals/{await asked(house, 'approvals', session_id)}"
        for body in ({}, {"decision": "maybe"}, {"decision": "always", "pattern": ["bash: rm -rf *"]}):
            assert (await house.http.post(target, body)).status == 400
        assert (await house.http.get(target)).ok()["state"] == "open"
        for unknown in ("/v1/approvals/apr_unknown", "/v1/questions/qst_unknown", "/v1/jobs/job_unknown"):
            assert (await house.http.get(unknown)).status == 404


@pytest.mark.promise("W4")
async def test_what_is_allowed_for_the_session_is_listed_and_can_be_taken_back(home: Path) -> None:
    async with run_server(home, answering(ASKING)) as house:
        session_id = await house.session()
        run = await house.prompt(session_id)
        target = f"/v1/approvals/{await asked(house, 'approvals', session_id)}"
        (await house.http.post(target, {"decision": "session"})).ok()
        await house.ended(run["run"]["id"])
        grants = f"/v1/workspaces/{house.workspace_id}/grants"
        assert (await house.http.get(grants)).ok()["items"] == []
        (grant,) = (await house.http.get(f"{grants}?session={session_id}")).ok()["items"]
        assert (grant["rule"], grant["created_by"]) == ("bash: touch *", "test/1 cli_test")
        left = (await house.http.send("DELETE", f"{grants}?id={grant['id']}&session={session_id}")).ok()
        assert left["items"] == []


@pytest.mark.promise("W2", "W3")
async def test_a_background_job_is_listed_killed_and_dies_with_its_workspace_only(home: Path) -> None:
    start = calls(Call("bash", {"command": "sleep 1000", "background": True}))
    async with run_server(home, answering(start, Answer(pieces=(Say("ok"),)), start)) as house:
        elsewhere = home / "elsewhere"
        elsewhere.mkdir()
        other = await house.open(elsewhere)
        jobs = {}
        for workspace_id in (house.workspace_id, other):
            body = {"prompt": "go", "mode": "auto"}
            made = (await house.http.post(f"/v1/workspaces/{workspace_id}/runs", body)).ok(202)
            assert (await house.ended(made["run"]["id"]))["state"] == "completed"
            (jobs[workspace_id],) = (await house.http.get(f"/v1/workspaces/{workspace_id}/jobs?running=true")).ok()[
                "items"
            ]
        busy = await house.http.post("/v1/server/stop", {"if_idle": True})
        assert busy.code == "server_busy"
        (await house.http.send("DELETE", f"/v1/workspaces/{other}")).ok()
        gone = (await house.http.get(f"/v1/jobs/{jobs[other]['id']}")).ok()
        assert gone["state"] != "running"
        mine = jobs[house.workspace_id]["id"]
        assert (await house.http.get(f"/v1/jobs/{mine}")).ok()["state"] == "running"
        assert (await house.http.post(f"/v1/jobs/{mine}/kill")).ok()["state"] == "killed"
        assert (await house.http.post(f"/v1/jobs/{mine}/kill")).ok()["state"] == "killed"
