"""Every request that changes something is in the audit, with who sent it and how it ended (`W15`)."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast.server.application import ENDPOINTS
from holdfast.server.route_scopes import route_scope
from holdfast.testing import text
from tests.support.http_client import HttpClient
from tests.support.people_harness import Belongings, add_person, body_for, target
from tests.support.running_server import KEY, RunningServer, answering, run_server, until
from tests.support.web_devices import Browser, listen, make_code, paired, port_of

pytestmark = pytest.mark.promise("W15")


async def audit(server: RunningServer, query: str = "") -> list[dict[str, Any]]:
    """The entries, oldest first."""
    found: list[dict[str, Any]] = (await server.http.get(f"/v1/audit?limit=200{query}")).ok()["items"]
    return found[::-1]


async def test_changes_of_the_owner_a_device_and_a_person_name_who_made_them(home: Path) -> None:
    async with run_server(home, answering(text("one"))) as server:
        session = await server.session()
        anna = await add_person(server, "anna", role="answer", workspaces=[str(server.work)])
        browser = await paired(server, port_of(await listen(server)))
        before = (await audit(server))[-1]["number"]
        run = (await server.http.post(f"/v1/sessions/{session}/runs", {"prompt": "hello"})).ok(202)["run"]["id"]
        (await browser.send("PATCH", f"/v1/sessions/{session}", {"title": "a title"})).ok()
        assert (await anna.post(f"/v1/sessions/{session}/runs", {"prompt": "hello"})).status == 403
        assert (await anna.post("/v1/approvals/apr_none", {"decision": "once"})).status == 404
        assert (await server.http.post(f"/v1/sessions/{session}/runs", {"prompt": " "})).status == 400
        found = (await server.http.get(f"/v1/audit?after={before}")).ok()["items"]
        shown = [
            (one["person"], one["device_id"], one["client"], one["target"], one["status"], one["code"], one["made"])
            for one in found
        ]
        devices = {one["person"]: one["id"] for one in (await server.http.get("/v1/devices")).ok()["items"]}
        runs = f"/v1/sessions/{session}/runs"
        assert shown == [
            (None, None, "test/1 cli_test", runs, 202, None, run),
            (None, browser.device["id"], "", f"/v1/sessions/{session}", 200, None, session),
            ("anna", devices["anna"], "test/1 cli_anna", runs, 403, "scope_too_narrow", None),
            ("anna", devices["anna"], "test/1 cli_anna", "/v1/approvals/apr_none", 404, "approval_not_found", None),
            (None, None, "test/1 cli_test", runs, 400, "invalid_request", None),
        ]
        assert [one["action"] for one in found][:2] == [
            "POST /v1/sessions/{session_id}/runs",
            "PATCH /v1/sessions/{session_id}",
        ]
        assert [one["target"] for one in await audit(server, f"&target={run}")] == [runs]
        assert len(await audit(server, "&person=anna&failed=true")) == 2
        assert (await browser.send("GET", "/v1/audit")).code == "scope_too_narrow"
        assert (await anna.get("/v1/audit")).status == 403


async def test_every_mutation_of_the_table_is_recorded(home: Path) -> None:
    """Whatever it is answered; nothing that only reads is."""
    async with run_server(home) as server:
        before = (await audit(server))[-1]["number"]
        sent = []
        nothing = dict.fromkeys(Belongings.__struct_fields__, "none_1")
        for endpoint in ENDPOINTS:
            if endpoint.path in ("/v1/server/stop", "/v1/events") or endpoint.path.endswith("/events"):
                continue
            body = {"path": str(server.work)} if endpoint.path == "/v1/workspaces" else body_for(endpoint)
            answer = await server.http.send(endpoint.method, target(endpoint, nothing), body)
            if endpoint.mutates and endpoint.path != "/v1/pairing":
                sent.append((f"{endpoint.method} {endpoint.path}", answer.status))
        found = (await server.http.get(f"/v1/audit?limit=200&after={before}")).ok()["items"]
        assert [(one["action"], one["status"]) for one in found] == sent
        assert len(sent) == sum(endpoint.mutates for endpoint in ENDPOINTS) - 2


async def test_the_entry_of_a_change_is_in_its_transaction(home: Path) -> None:
    """No commit has the change without its entry: the entry is never in a later transaction."""
    async with run_server(home) as server:
        database = server.app.shared.locations.database
        session = await server.session()
        for number in range(20):
            renaming = asyncio.create_task(
                server.http.send("PATCH", f"/v1/sessions/{session}", {"title": f"title {number}"})
            )
            with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as sql:
                while True:
                    row = sql.execute(
                        "SELECT (SELECT title FROM sessions WHERE id = ?), "
                        "(SELECT count(*) FROM audit WHERE action = 'PATCH /v1/sessions/{session_id}')",
                        (session,),
                    ).fetchone()
                    if row[0] == f"title {number}":
                        break
                    await asyncio.sleep(0)
            assert row[1] == number + 1
            (await renaming).ok()


async def test_no_secret_is_recorded(home: Path) -> None:
    async with run_server(home) as server:
        await server.http.send("PUT", "/v1/providers/test/key", {"key": "sk-another-secret-4567890"})
        await server.http.send("PUT", f"/v1/providers/{KEY}/key", {"key": KEY})
        await server.http.send("DELETE", f"/v1/workspaces/{server.workspace_id}/memory?number=1", {})
        await server.http.send("PATCH", "/v1/sessions/%1b%5b31mses", {"title": "x"})
        made = (await server.http.post("/v1/people", {"name": "anna", "role": "watch", "workspaces": None})).ok(201)
        token = (await server.http.post(f"/v1/people/{made['name']}/tokens", {})).ok(201)["token"]
        found = await audit(server)
        assert [one["target"] for one in found][-3:] == [
            "/v1/sessions/?[31mses",
            "/v1/people",
            "/v1/people/anna/tokens",
        ]
        for secret in (KEY, "sk-another-secret-4567890", token):
            assert secret not in str(found)
            with closing(sqlite3.connect(server.app.shared.locations.database)) as sql:
                assert not [row for row in sql.execute("SELECT * FROM audit") if secret in str(row)]


async def test_refusals_and_strangers_cannot_fill_the_audit(home: Path) -> None:
    async with run_server(home) as server:
        port = port_of(await listen(server))
        anna = await add_person(server, "anna", role="watch", workspaces=None)
        stranger = Browser(port)
        server.app.services.audit._seconds_now = lambda: 0.0  # all of it happens within a minute
        for _ in range(30):
            assert (await anna.post("/v1/people", {})).status == 403
            assert (await HttpClient(("127.0.0.1", port)).post("/v1/people", {})).status == 401
            assert (await stranger.pair("AAAA-AAAA-AAAA")).status in (403, 429)
        found = await audit(server, "&failed=true")
        assert [(one["person"], one["device_id"] == "anonymous", one["status"]) for one in found] == [
            ("anna", False, 403),
            (None, True, 403),
        ]
        codes = server.app.services.devices.codes
        codes._now = lambda now=codes._now: now() + 301  # type: ignore[misc]
        (await stranger.pair(await make_code(server))).ok()
        (paired_entry,) = [one for one in await audit(server) if one["made"] == stranger.device["id"]]
        assert (paired_entry["device_id"], paired_entry["status"]) == ("anonymous", 200)


async def test_a_reader_waits_for_the_next_entry(home: Path) -> None:
    async with run_server(home) as server:
        session = await server.session()
        last = (await audit(server))[-1]["number"]
        assert (await server.http.get(f"/v1/audit?after={last}")).ok()["items"] == []
        waiting = asyncio.create_task(server.http.get(f"/v1/audit?after={last}&wait=600"))
        await until(lambda: bool(server.app.services.audit._readers))
        (await server.http.send("PATCH", f"/v1/sessions/{session}", {"title": "a"})).ok()
        (entry,) = (await waiting).ok()["items"]
        assert entry["target"] == f"/v1/sessions/{session}"


def test_reading_the_audit_needs_admin() -> None:
    (endpoint,) = [one for one in ENDPOINTS if one.path == "/v1/audit"]
    assert route_scope(endpoint) == "admin"
