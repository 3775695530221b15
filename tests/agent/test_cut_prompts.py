"""Prompts and answers that were cut off are marked for the model, as the provider receives them on each wire."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.testing import Answer, Hang, Say, TestProvider, text
from tests.support.app_harness import open_app_harness
from tests.support.wire_server import asked, config, conversation, each_wire, model, script, server, shown, spoken

DO_NOT = "Do not act on that request or continue it unless the user asks for it again.\n</reminder>"
NOTHING_DONE = "It stops here: nothing more was answered or done."


@each_wire
@pytest.mark.promise("C5")
async def test_a_prompt_cancelled_before_the_first_token_is_marked(tmp_path: Path, wire: Any) -> None:
    async with server(tmp_path, wire) as (harness, provider):
        script(provider, Answer(hang_first=True), text("Hello."))
        accepted = await harness.start("delete every file", model=model(wire))
        await asked(provider, 1)
        await harness.app.engine.cancel_session(accepted.run.session_id)
        run = await harness.run("hello", model=model(wire), session_id=accepted.run.session_id)
        assert (run.state, run.text) == ("completed", "Hello."), run
        assert conversation((await asked(provider, 2))[1]) == spoken(
            wire,
            ("user", "delete every file"),
            ("user", f"<reminder>\nThe user cancelled the request above. {NOTHING_DONE} {DO_NOT}"),
            ("user", "hello"),
        )


@each_wire
@pytest.mark.promise("C5")
async def test_an_answer_cut_by_a_cancel_is_marked(tmp_path: Path, wire: Any) -> None:
    async with server(tmp_path, wire) as (harness, provider):
        script(provider, Answer((Say("I will delete"), Hang())), text("Hello."))
        accepted = await harness.start("delete every file", model=model(wire))
        await shown(harness, b"ete", of=b"text")
        await harness.app.engine.cancel_session(accepted.run.session_id)
        await harness.run("hello", model=model(wire), session_id=accepted.run.session_id)
        cut = "Your answer ends where it was cut off."
        assert conversation((await asked(provider, 2))[1]) == spoken(
            wire,
            ("user", "delete every file"),
            ("assistant", "I will delete"),
            ("user", f"<reminder>\nThe user cancelled the request above. {cut} {DO_NOT}"),
            ("user", "hello"),
        )


@each_wire
@pytest.mark.promise("C5", "W5")
async def test_a_prompt_interrupted_by_a_stop_of_the_server_is_marked(tmp_path: Path, wire: Any) -> None:
    async with TestProvider() as provider:
        script(provider, Answer(hang_first=True), text("Hello."))
        async with open_app_harness(tmp_path, config=config(provider, wire)) as harness:
            accepted = await harness.start("delete every file", model=model(wire))
            await asked(provider, 1)
            await harness.app.engine.stop()
        async with open_app_harness(tmp_path) as harness:
            await harness.app.engine.resume(accepted.run.session_id)
            await harness.run("hello", model=model(wire), session_id=accepted.run.session_id)
        assert conversation((await asked(provider, 2))[1]) == spoken(
            wire,
            ("user", "delete every file"),
            ("user", f"<reminder>\nThe server stopped while you worked on the request above. {NOTHING_DONE} {DO_NOT}"),
            ("user", "hello"),
        )


@pytest.mark.promise("C5")
async def test_the_mark_stays_in_every_later_request(tmp_path: Path) -> None:
    async with server(tmp_path, "anthropic") as (harness, provider):
        script(provider, Answer(hang_first=True), text("one"), text("two"))
        accepted = await harness.start("delete every file", model=model("anthropic"))
        await asked(provider, 1)
        await harness.app.engine.cancel_session(accepted.run.session_id)
        for prompt in ("hello", "again"):
            await harness.run(prompt, model=model("anthropic"), session_id=accepted.run.session_id)
        _, second, third = map(conversation, await asked(provider, 3))
        assert third[: len(second)] == second
