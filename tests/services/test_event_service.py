"""Event streams through the service: limits, and who is attached."""

from pathlib import Path

import pytest

from holdfast.errors import NotFound, ServerStopping, TooMany
from holdfast.models.model_script import ScriptedCall
from holdfast.schema.events import ApprovalRequested, QuestionAsked
from holdfast.services.presence import Caller
from tests.support.app_harness import open_app_harness, saying


@pytest.mark.promise("W7")
async def test_a_client_is_attached_while_its_stream_is_open(tmp_path: Path) -> None:
    async with open_app_harness(tmp_path) as harness:
        services = harness.app.services
        session = await services.sessions.create(harness.workspace_id)
        caller = Caller("web/1", "cli_a")
        streams = [
            await services.events.open_stream(caller, after=None, workspace_id=harness.workspace_id, viewing=session.id)
            for _ in range(2)
        ]
        assert [client.id for client in (await services.sessions.view(session.id)).attached] == ["cli_a"]
        assert services.presence.streams == 2
        for stream in streams:
            stream.close()
        assert (await services.sessions.view(session.id)).attached == ()


@pytest.mark.promise("W4")
async def test_a_fresh_stream_is_sent_the_open_approvals_and_questions_of_its_scope(tmp_path: Path) -> None:
    question = {"questions": [{"text": "Which?", "kind": "text"}]}
    script = saying((ScriptedCall("bash", {"command": "touch made"}), ScriptedCall("ask", question)), "done")
    async with open_app_harness(tmp_path, script) as harness:
        events, store = harness.app.services.events, harness.app.store
        accepted = await harness.start("go")
        asked = (await harness.until(ApprovalRequested)).approval
        other = await harness.app.services.sessions.create(harness.workspace_id)

        async def first_items(session_id: str | None, after: str | None) -> list[tuple[str, str | None]]:
            stream = await events.open_stream(
                Caller(), after=after, workspace_id=harness.workspace_id, session_id=session_id
            )
            try:
                return [(item.kind, item.id) for item in await stream.subscription.read_batch(max_items=2)]
            finally:
                stream.close()

        waiting = ("approval.requested", None)
        assert (await first_items(None, None))[1:] == [waiting]
        assert (await first_items(accepted.run.session_id, None))[1:] == [waiting]
        assert waiting not in await first_items(other.id, None)
        assert waiting not in await first_items(None, harness.app.hub.cursor)
        assert (await first_items(None, "foreign.1"))[1][0] == "reset"
        await harness.app.services.approvals.answer(asked.id, "once", client="a")
        await harness.until(QuestionAsked)
        assert (await first_items(None, None))[1:] == [("question.asked", None)]
        await harness.app.engine.cancel_session(accepted.run.session_id)
        assert not (await store.open_questions()).items


async def test_a_stream_is_refused_for_a_foreign_session_at_the_limit_and_while_stopping(tmp_path: Path) -> None:
    config = "[server]\nmax_streams = 1\n"
    async with open_app_harness(tmp_path, config=config) as harness:
        services = harness.app.services
        (tmp_path / "other").mkdir()
        other, _ = await services.workspaces.open(str(tmp_path / "other"))
        session = await services.sessions.create(harness.workspace_id)
        with pytest.raises(NotFound):
            await services.events.open_stream(Caller(), after=None, workspace_id=other.id, session_id=session.id)
        stream = await services.events.open_stream(Caller(), after=None)
        with pytest.raises(TooMany):
            await services.events.open_stream(Caller(), after=None)
        stream.close()
        services.state.request_stop()
        with pytest.raises(ServerStopping):
            await services.events.open_stream(Caller(), after=None)
