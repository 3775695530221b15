"""Runs through the service: what every interface shares."""

import asyncio
from pathlib import Path

import pytest

from holdfast.errors import BadRequest, Conflict
from holdfast.schema.api.request_bodies import Attachment, FirstPromptBody, PromptBody, ShellBody
from holdfast.services.run_service import body_hash
from tests.support.app_harness import open_app_harness, saying


def first_prompt(prompt: str = "hello", **fields: object) -> FirstPromptBody:
    return FirstPromptBody(prompt=prompt, model="offline/demo", **fields)  # type: ignore[arg-type]


@pytest.mark.promise("R3")
def test_the_hash_depends_on_the_kind_and_the_values_and_not_on_the_order_of_keys() -> None:
    one = PromptBody(prompt="hi", output_schema={"a": 1, "b": 2})
    same = PromptBody(prompt="hi", output_schema={"b": 2, "a": 1})
    assert body_hash("prompt", one) == body_hash("prompt", same)
    assert len({body_hash("prompt", one), body_hash("shell", one), body_hash("prompt", PromptBody(prompt="ho"))}) == 3


@pytest.mark.promise("R3")
async def test_an_idempotency_key_becomes_the_id_of_a_run_without_one(tmp_path: Path) -> None:
    async with open_app_harness(tmp_path, saying("ok")) as harness:
        runs = harness.app.services.runs
        first = await runs.start_in_new_session(harness.workspace_id, first_prompt(), client="a", key="key-1")
        again = await runs.start_in_new_session(harness.workspace_id, first_prompt(), client="b", key="key-1")
        assert first.run.id == again.run.id == "key-1"
        own = await runs.start_in_new_session(
            harness.workspace_id, first_prompt(run_id="run_own"), client="a", key="key-2"
        )
        assert own.run.id == "run_own"
        with pytest.raises(Conflict):
            await runs.start_in_new_session(harness.workspace_id, first_prompt("other"), client="a", key="key-1")


@pytest.mark.promise("W2")
async def test_a_run_opens_the_workspace_that_was_closed(tmp_path: Path) -> None:
    async with open_app_harness(tmp_path, saying("ok")) as harness:
        services = harness.app.services
        session = await services.sessions.create(harness.workspace_id)
        assert not (await services.workspaces.close(harness.workspace_id)).open
        accepted = await services.runs.run_shell(session.id, ShellBody(command="true"), client="a")
        assert (await harness.ended(accepted)).state == "completed"
        assert (await services.workspaces.view(harness.workspace_id)).open


async def test_an_attachment_needs_either_text_or_data(tmp_path: Path) -> None:
    async with open_app_harness(tmp_path) as harness:
        for attachment in (
            Attachment(name="a", media_type="text/plain"),
            Attachment(name="a", media_type="text/plain", text="x", data="eA=="),
        ):
            body = first_prompt(attachments=(attachment,))
            with pytest.raises(BadRequest) as refused:
                await harness.app.services.runs.start_in_new_session(harness.workspace_id, body, client="a")
            assert refused.value.detail == {"field": "attachments[0]"}


@pytest.mark.promise("R9")
async def test_a_wait_ends_when_the_caller_leaves(tmp_path: Path) -> None:
    async with open_app_harness(tmp_path) as harness:
        services = harness.app.services
        session = await services.sessions.create(harness.workspace_id)
        body = ShellBody(command="sleep 1000")
        accepted = await services.runs.run_shell(session.id, body, client="a")
        run = await services.runs.wait(accepted.run.id, seconds=600, caller_left=asyncio.sleep(0))
        assert run.state == "active"
        receipt = await services.runs.cancel(accepted.run.id)
        assert [line.ended_as for line in receipt.runs] == ["cancelled"]
