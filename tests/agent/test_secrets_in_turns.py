"""Secrets in streamed answers and in what tools return, with a whole server and real tools."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from holdfast.config import Secret
from holdfast.config.redaction import MARK
from holdfast.testing import Answer, Call, Gate, Say, text
from tests.agent.test_whole_server import asked, model, results, script, server

WIRE = "openai-chat"
PLANTED = "planted-secret 0123456789"
TOKEN = "ghp_" + "a1B2" * 9
ENV = f"API_TOKEN=hidden-in-env\nPORT=8000\nGITHUB={TOKEN}\n"


@pytest.mark.promise("W8")
@pytest.mark.parametrize("chunk", [1, 3, 24])
async def test_a_secret_split_between_deltas_reaches_no_client(tmp_path: Path, chunk: int) -> None:
    async with server(tmp_path, WIRE) as (harness, provider):
        harness.app.shared.keyring.remember([Secret(PLANTED)])
        script(provider, Answer((Say(f"It is {PLANTED}, as you said. plant", chunk=chunk),)))
        seen: list[str] = []

        opened = asyncio.Event()

        async def follow() -> None:
            async for item in harness.app.hub.subscribe(after=f"{harness.app.store.log_id}.0"):
                if item.kind == "hello":
                    opened.set()
                if item.kind == "delta":
                    seen.append(json.loads(item.body)["text"])
                if item.kind == "run.finished":
                    return

        following = asyncio.create_task(follow())
        await opened.wait()  # a stream that begins later gets a snapshot instead of deltas
        run = await harness.run("go", model=model(WIRE))
        assert run.state == "completed"
        await following
        assert "".join(seen) == f"It is {MARK}, as you said. plant"


@pytest.mark.promise("W8")
async def test_letters_that_may_begin_a_key_are_shown_when_the_model_pauses(tmp_path: Path) -> None:
    async with server(tmp_path, WIRE) as (harness, provider):
        harness.app.shared.keyring.remember([Secret(PLANTED)])
        script(provider, Answer((Say("Go up"), Gate("later"), Say(f" and {PLANTED}."))))
        seen: list[str] = []

        opened = asyncio.Event()

        async def follow() -> None:
            async for item in harness.app.hub.subscribe(after=f"{harness.app.store.log_id}.0"):
                if item.kind == "hello":
                    opened.set()
                if item.kind == "delta":
                    seen.append(json.loads(item.body)["text"])
                    if "".join(seen) == "Go up":
                        provider.open("later")
                if item.kind == "run.finished":
                    return

        following = asyncio.create_task(follow())
        await opened.wait()  # a stream that begins later gets a snapshot instead of deltas
        run = await harness.run("go", model=model(WIRE))
        assert run.state == "completed"
        await following
        assert "".join(seen) == f"Go up and {MARK}."


@pytest.mark.promise("W8")
async def test_env_files_deep_in_the_workspace_are_masked_when_a_tool_shows_them(tmp_path: Path) -> None:
    async with server(tmp_path, WIRE) as (harness, provider):
        for number in range(4):
            deep = harness.directory / "a" / "b" / "c" / "d" / str(number)
            deep.mkdir(parents=True)
            (deep / ".env").write_text(f"API_TOKEN=hidden-in-env-{number}\nPORT=8000\n")
        script(
            provider,
            Answer((Call("view", {"path": "a/b/c/d/0/.env"}),)),
            Answer((Call("bash", {"command": "cd a/b/c/d/1 && cat .env"}),)),
            Answer((Call("grep", {"pattern": "API_TOKEN", "path": "a"}),)),
            Answer((Call("bash", {"command": "grep -rh TOKEN a"}),)),
            text("done"),
        )
        run = await harness.run("go", model=model(WIRE), mode="auto")
        assert run.state == "completed"
        shown = [result.text for result in results(await harness.messages(run.session_id))]
        assert "hidden-in-env" not in str(shown)
        assert shown[0].count(MARK) == shown[1].count(MARK) == 1
        assert shown[3].count(MARK) == 4


@pytest.mark.promise("W8")
async def test_env_values_and_well_known_keys_are_masked_for_the_model(tmp_path: Path) -> None:
    async with server(tmp_path, WIRE) as (harness, provider):
        (harness.directory / ".env").write_text(ENV)
        script(
            provider,
            Answer((Call("view", {"path": ".env"}),)),
            Answer((Call("bash", {"command": "cat .env; base64 -w 9 .env"}),)),
            Answer(
                (Call("write", {"path": ".env", "content": ENV.replace("hidden-in-env", MARK).replace(TOKEN, MARK)}),)
            ),
            Answer((Call("edit", {"path": ".env", "old_text": "PORT=8000", "new_text": "PORT=9000"}),)),
            text("done"),
        )
        run = await harness.run("go", model=model(WIRE), mode="auto")
        assert run.state == "completed"
        viewed, printed, written, edited = results(await harness.messages(run.session_id))
        assert viewed.text.splitlines()[:3] == [
            f"     1\tAPI_TOKEN={MARK}",
            "     2\tPORT=8000",
            f"     3\tGITHUB={MARK}",
        ]
        assert printed.text.startswith(f"API_TOKEN={MARK}\nPORT=8000\nGITHUB={MARK}\n")
        assert "aGlkZGVuLWlu" not in printed.text.replace("\n", "")
        assert (written.status, edited.status) == ("error", "ok")
        assert "destroy the real value" in written.text
        assert (harness.directory / ".env").read_text() == ENV.replace("8000", "9000")
        sent = json.dumps([one.body for one in await asked(provider, 5)])
        assert "hidden-in-env" not in sent
        assert TOKEN not in sent


async def test_masks_of_others_secrets_can_be_turned_off(tmp_path: Path) -> None:
    async with server(tmp_path, WIRE) as (harness, provider):
        (harness.directory / ".env").write_text(ENV)
        config = harness.app.shared.locations.config_file
        config.write_text(config.read_text() + "\n[tools]\nmask_secrets = false\n")
        script(provider, Answer((Call("view", {"path": ".env"}),)), text("done"))
        run = await harness.run("go", model=model(WIRE))
        (viewed,) = results(await harness.messages(run.session_id))
        assert "hidden-in-env" in viewed.text
        assert TOKEN in viewed.text
