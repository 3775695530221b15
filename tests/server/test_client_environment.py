"""The variables that clients send with prompts reach the commands of the run, and nothing else."""

import asyncio
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast.testing import Answer, Call, Gate, Say, text
from tests.support.running_server import KEY, RunningServer, answering, run_server, until

SHOW = "echo [$VIRTUAL_ENV][$NODE_ENV][$MY_VALUE]"
SHOWING = Answer(pieces=(Call("bash", {"command": SHOW}),))
DONE = text("done")


async def shown(server: RunningServer, session_id: str) -> list[str]:
    """What the commands of a session printed."""
    messages = (await server.http.get(f"/v1/sessions/{session_id}/messages")).ok()["items"]
    parts = [part for message in messages for part in message["parts"]]
    texts = [part["text"] for part in parts if part["type"] == "tool_result"]
    texts += [part["output"] for part in parts if part["type"] == "shell" and part.get("exit_code") is not None]
    return [result.splitlines()[0] for result in texts]


async def run(server: RunningServer, session_id: str, **body: Any) -> None:
    accepted = await server.prompt(session_id, mode="auto", **body)
    assert (await server.ended(accepted["run"]["id"]))["state"] == "completed"


def env(value: str, **more: str) -> dict[str, Mapping[str, str]]:
    return {"environment": {"PATH": "/usr/bin:/bin", "VIRTUAL_ENV": value, **more}}


@pytest.mark.promise("R15")
async def test_commands_have_the_variables_of_the_shell_that_sent_the_prompt(home: Path) -> None:
    answers = [SHOWING, DONE] * 4
    async with run_server(home, answering(*answers), env={"VIRTUAL_ENV": "/server", "NODE_ENV": "server"}) as server:
        first, second = await server.session(), await server.session()
        await run(server, first, **env("/a", NODE_ENV="test", UNLISTED="x"))
        await run(server, first, **env("/b"))
        await run(server, first)  # from a web page or a phone
        await run(server, second)
        assert await shown(server, first) == ["[/a][test][]", "[/b][][]", "[/b][][]"]
        assert await shown(server, second) == ["[/server][server][]"]


@pytest.mark.promise("R15")
async def test_a_command_of_the_user_and_a_sub_agent_have_them_too(home: Path) -> None:
    agent = Answer(pieces=(Call("agent", {"title": "t", "prompt": "look", "agent": "general"}),))
    async with run_server(home, answering(agent, SHOWING, DONE, DONE)) as server:
        session_id = await server.session()
        await run(server, session_id, **env("/parent"))
        (below,) = (await server.http.get(f"/v1/workspaces/{server.workspace_id}/sessions?parent={session_id}")).ok()[
            "items"
        ]
        assert await shown(server, below["id"]) == ["[/parent][][]"]
        accepted = await server.http.post(f"/v1/sessions/{session_id}/shell", {"command": SHOW, **env("/person")})
        await server.ended(accepted.ok(202)["run"]["id"])
        assert (await shown(server, session_id))[-1] == "[/person][][]"


@pytest.mark.promise("R15")
async def test_a_steer_uses_the_environment_of_the_run_that_it_joins(home: Path) -> None:
    held = Answer(pieces=(Say("begun"), Gate("go")))
    async with run_server(home, answering(held, SHOWING, DONE)) as server:
        session_id = await server.session()
        host = await server.prompt(session_id, mode="auto", **env("/host"))
        await until(lambda: bool(server.provider.requests))
        steer = await server.prompt(session_id, mode="auto", delivery="steer", **env("/steer"))
        assert steer["decision"] == "steered"
        server.provider.open("go")
        assert (await server.ended(host["run"]["id"]))["state"] == "completed"
        assert await shown(server, session_id) == ["[/host][][]"]


@pytest.mark.promise("R3", "R15")
async def test_the_environment_is_not_part_of_the_request_that_a_run_id_names(home: Path) -> None:
    async with run_server(home, answering(SHOWING, DONE)) as server:
        session_id = await server.session()
        await run(server, session_id, run_id="same", **env("/a"))
        await run(server, session_id, run_id="same", **env("/b"))
        await run(server, session_id, run_id="same")
        assert await shown(server, session_id) == ["[/a][][]"]
        accepted = await server.prompt(session_id, run_id="same", mode="auto")
        assert "environment" not in accepted["run"]


@pytest.mark.promise("W8", "R15")
async def test_secrets_are_neither_stored_nor_used(home: Path) -> None:
    secrets = {
        "CONDA_TOKEN": "conda-secret-1",
        "MY_KEY": "own-secret-2",
        "MY_VALUE": f"x{KEY}",
        "NVM_DIR": "a://b:c-3@d",
    }
    printed = Answer(pieces=(Call("bash", {"command": "env | grep -E 'CONDA|MY_|NVM_' || echo none"}),))
    async with run_server(home, answering(printed, DONE)) as server:
        (
            await server.http.send(
                "PATCH",
                f"/v1/workspaces/{server.workspace_id}/config",
                body=b'{"changes": {"tools.variables": ["MY_*"]}}',
            )
        ).ok()
        session_id = await server.session()
        await run(server, session_id, **env("/v", MY_OTHER="fine", **secrets))
        assert await shown(server, session_id) == ["MY_OTHER=fine"]
        database = server.app.shared.locations.database
        stored = await asyncio.to_thread(_stored_environments, database)
        assert len(stored) == 1
        for value in ("conda-secret-1", "own-secret-2", KEY, "c-3"):
            assert value not in stored[0]
        (await server.http.send("DELETE", f"/v1/sessions/{session_id}")).ok()
        assert await asyncio.to_thread(_stored_environments, database) == []


def _stored_environments(database: Path) -> list[str]:
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as sql:
        return [bytes(body).decode() for (body,) in sql.execute("SELECT body FROM environments")]


@pytest.mark.promise("R15")
async def test_the_workspace_lists_the_variables_to_send(home: Path) -> None:
    async with run_server(home) as server:
        workspace = f"/v1/workspaces/{server.workspace_id}"
        assert {"PATH", "VIRTUAL_ENV", "LC_*", "HOLDFAST_MODEL"} <= set(
            (await server.http.get(workspace)).ok()["variables"]
        )
        body = b'{"changes": {"tools.variables": ["MY_*"]}}'
        (await server.http.send("PATCH", f"{workspace}/config", body=body)).ok()
        assert "MY_*" in (await server.http.get(workspace)).ok()["variables"]


@pytest.mark.promise("R15")
@pytest.mark.parametrize("wrong", [{"": "x"}, {"A-B": "x"}, {"A": "a\0b"}, {"A": 1}, {"A": "x" * 40_000}, []])
async def test_an_environment_that_is_none_is_refused(home: Path, wrong: Any) -> None:
    async with run_server(home) as server:
        session_id = await server.session()
        answer = await server.http.post(f"/v1/sessions/{session_id}/runs", {"prompt": "hi", "environment": wrong})
        assert (answer.status, answer.code) == (400, "invalid_request")


@pytest.mark.promise("R15")
async def test_the_model_of_the_shell_counts_and_another_configuration_is_refused(home: Path) -> None:
    extra = home / "extra.toml"
    extra.write_text("")
    async with run_server(home, answering(DONE), env={"HOLDFAST_CONFIG": str(extra)}) as server:
        session_id = await server.session()
        await run(server, session_id, environment={"HOLDFAST_MODEL": "offline/demo", "HOLDFAST_CONFIG": str(extra)})
        runs = (await server.http.get(f"/v1/sessions/{session_id}/messages")).ok()["items"]
        assert runs[-1]["model"] == "offline/demo"
        target = f"/v1/sessions/{session_id}/runs"
        unknown = await server.http.post(target, {"prompt": "x", "environment": {"HOLDFAST_MODEL": "no/such"}})
        assert (unknown.status, unknown.code) == (409, "no_model")
        other = await server.http.post(target, {"prompt": "x", "environment": {"HOLDFAST_CONFIG": "/other.toml"}})
        assert (other.status, other.code) == (409, "other_config")
        assert "'/other.toml'" in other.json()["error"]["message"]
