"""Endpoints over HTTP: idempotency keys, unknown paths and methods."""

import asyncio
from pathlib import Path

import pytest

from tests.support.running_server import run_server


async def test_requests_with_one_key_create_one_session(home: Path) -> None:
    async with run_server(home) as server:
        target = f"/v1/workspaces/{server.workspace_id}/sessions"
        made = await asyncio.gather(
            *(server.http.post(target, {"title": "t"}, Idempotency_Key="key-1") for _ in range(5))
        )
        assert {answer.ok(201)["id"] for answer in made} == {made[0].json()["id"]}
        other = await server.http.post(target, {"title": "u"}, Idempotency_Key="key-1")
        assert (other.status, other.code) == (409, "idempotency_key_reused")
        listed = (await server.http.get(target)).ok()
        assert len(listed["items"]) == 1
        unkeyed = await server.http.post(target, {"title": "t"})
        assert unkeyed.ok(201)["id"] != made[0].json()["id"]


@pytest.mark.promise("R3")
async def test_a_key_identifies_the_run_it_started(home: Path) -> None:
    async with run_server(home) as server:
        target = f"/v1/sessions/{await server.session()}/runs"
        for key in ("run-key", "not/an/id"):
            first, second = await asyncio.gather(
                *(server.http.post(target, {"prompt": "hi"}, Idempotency_Key=key) for _ in range(2))
            )
            assert first.ok(202)["run"]["id"] == second.ok(202)["run"]["id"]
        assert len((await server.http.get(target)).ok()["items"]) == 2


@pytest.mark.promise("W9")
async def test_unknown_paths_and_methods_get_an_error_body(home: Path) -> None:
    async with run_server(home) as server:
        for path in (
            "/page",
            "/v1",
            "/v1/",
            "/v1/health/",
            "/v2/health",
            "/v1/sessions//runs",
            "/%ff",
            "/v1/runs/a%2Fb",
        ):
            answer = await server.http.get(path)
            assert (answer.status, answer.code) == (404, "not_found"), path
        for method in ("DELETE", "OPTIONS", "TRACE", "PROPFIND"):
            answer = await server.http.send(method, "/v1/workspaces")
            assert (answer.status, answer.code) == (405, "method_not_allowed")
            assert answer.headers["allow"] == "GET, HEAD, POST"
        head = await server.http.send("HEAD", "/v1/workspaces")
        assert (head.status, head.body) == (200, b"")
