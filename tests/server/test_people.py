"""People: whatever is not in somebody's directories does not exist for them, on every route and stream (`W14`)."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from holdfast.errors import StoreUnwritable
from holdfast.schema.people import covers
from holdfast.server.application import ENDPOINTS
from holdfast.server.http.endpoint import Endpoint
from holdfast.server.route_reach import concerns_whole_server
from holdfast.store import Batch, Committed
from holdfast.testing import Answer, Hang, Say, text
from tests.support.http_client import HttpClient, Refused
from tests.support.people_harness import Belongings, add_person, body_for, fill_workspace, target, token_of
from tests.support.running_server import answering, run_server, until
from tests.support.web_devices import Browser, listen, port_of

pytestmark = pytest.mark.promise("W14")

FILTERED = {
    ("GET", "/v1/events"),
    ("GET", "/v1/workspaces"),
    ("POST", "/v1/workspaces"),
    ("GET", "/v1/ids"),
    ("GET", "/v1/search"),
    ("GET", "/v1/models"),
}
"""Routes with tests of their own below."""
FOR_EVERYBODY = {"/v1/health", "/v1/openapi.json", "/v1/config/schema", "/v1/server", "/v1/server/sandbox"} | {
    "/v1/pairing",
    "/v1/device",
}


def placed(endpoint: Endpoint) -> bool:
    return any(f"{{{name}}}" in endpoint.path for name in Belongings.__struct_fields__)


async def send(client: HttpClient, endpoint: Endpoint, where: str) -> tuple[int, Any]:
    answer = await client.send(endpoint.method, where, body_for(endpoint))
    return answer.status, answer.json()


async def test_nothing_of_another_workspace_is_reached_on_any_route(home: Path) -> None:
    """The answer for an id of another workspace is that for an id that does not exist, and nothing changes.

    Fails for a new route until it is limited; see server/route_reach.py.
    """
    async with run_server(home, answering(text("the secret"))) as server:
        (home / "mine").mkdir()
        theirs = await fill_workspace(server, server.workspace_id, prompt="hello", mark="b")
        anna = await add_person(server, "anna", role="admin", workspaces=[str(home / "mine")])
        unknown = {name: f"{value.partition('_')[0]}_none" for name, value in theirs.ids.items()}
        for name, value in theirs.ids.items():  # they do exist
            for endpoint in ENDPOINTS:
                if endpoint.method == "GET" and endpoint.path.endswith(f"{{{name}}}"):
                    assert (await server.http.get(target(endpoint, {name: value}))).status == 200
        before = server.app.store.last_number
        for endpoint in ENDPOINTS:
            where = (endpoint.method, endpoint.path)
            if where in FILTERED or endpoint.path in FOR_EVERYBODY:
                continue
            status, body = await send(anna, endpoint, target(endpoint, theirs.ids))
            if concerns_whole_server(*where):
                assert (status, body["error"]["code"]) == (403, "workspaces_restricted"), where
                continue
            assert placed(endpoint), where
            assert status == 404, (where, body)
            expected = await send(anna, endpoint, target(endpoint, unknown))
            for name, value in theirs.ids.items():
                body = msgspec.json.decode(msgspec.json.encode(body).replace(value.encode(), unknown[name].encode()))
            assert (status, body) == expected, where
        assert server.app.store.last_number == before
        assert (await server.http.get(f"/v1/approvals/{theirs.approval_id}")).ok()["state"] == "open"


async def test_ids_in_queries_and_deleted_sessions_are_refused_too(home: Path) -> None:
    async with run_server(home, answering(text("one"), text("two"))) as server:
        (home / "mine").mkdir()
        mine = await server.open(home / "mine")
        theirs = await fill_workspace(server, server.workspace_id, prompt="hello", mark="b")
        own = await fill_workspace(server, mine, prompt="hello", mark="a")
        anna = await add_person(server, "anna", role="admin", workspaces=[str(home / "mine")])
        seen = set()
        for endpoint in ENDPOINTS:
            for name in endpoint.query.__struct_fields__:
                if name not in ("session", "viewing", "parent", "workspace") or endpoint.method != "GET":
                    continue
                seen.add(name)
                base = target(endpoint, own.ids) + ("?q=x&" if endpoint.path == "/v1/search" else "?")
                foreign = theirs.workspace_id if name == "workspace" else theirs.session_id
                assert (await anna.get(f"{base}{name}={foreign}")).status == 404, (endpoint.path, name)
        assert seen == {"session", "viewing", "parent", "workspace"}
        for session in (theirs.session_id, own.session_id):
            (await server.http.send("DELETE", f"/v1/sessions/{session}", {})).ok()
        assert [
            (await anna.get(f"/v1/{kind}/{one}")).status
            for kind, one in (
                *(("sessions", theirs.session_id), ("runs", theirs.run_id)),
                *(("sessions", own.session_id), ("runs", own.run_id)),
            )
        ] == [404, 404, 410, 410]


def ids_in(kind: Any) -> Iterator[str]:
    """Fields of a body or query that hold an id."""
    for field in msgspec.structs.fields(kind):
        parts = [field.type, *get_args(field.type)]
        if any("A-Za-z0-9_.:-" in str(part) for part in parts):
            yield field.name


def test_every_id_that_a_query_or_body_takes_is_known_here() -> None:
    """Ids that are looked up outside the session or workspace of the path need a check in server/route_reach.py."""
    checked = {"session", "viewing", "parent", "workspace"}
    inside = {"to_message_id", "confirmed_runs", "message_id", "run_id"}  # looked up in the session of the path
    others = {"prefix", "id", "device"}  # find_ids filters; a grant of the workspace of the path; the audit
    for endpoint in ENDPOINTS:
        for kind in (endpoint.query, endpoint.body):
            found = set() if kind is None else set(ids_in(kind))
            assert found <= checked | inside | others, (endpoint.path, found)


async def test_lists_searches_and_models_have_only_what_somebody_may_use(home: Path) -> None:
    async with run_server(home, answering(text("the needle is here"), text("the needle is there"))) as server:
        (home / "mine" / "below").mkdir(parents=True)
        (home / "mine-too").mkdir()
        mine = await server.open(home / "mine" / "below")
        theirs = await fill_workspace(server, server.workspace_id, prompt="find the needle", mark="b")
        own = await fill_workspace(server, mine, prompt="find the needle", mark="a")
        anna = await add_person(server, "anna", role="drive", workspaces=[str(home / "mine")])
        assert [one["id"] for one in (await anna.get("/v1/workspaces")).ok()["items"]] == [mine]
        hits = (await anna.get("/v1/search?q=needle")).ok()["items"]
        assert {hit["session_id"] for hit in hits} == {own.session_id}
        assert len((await server.http.get("/v1/search?q=needle")).ok()["items"]) == 2 * len(hits)
        for prefix, kind in (("ses_", "session"), ("run_", "run"), ("msg_", "message"), ("apr_", "approval")):
            found = (await anna.get(f"/v1/ids?prefix={prefix}&kind={kind}")).ok()["items"]
            everything = (await server.http.get(f"/v1/ids?prefix={prefix}&kind={kind}")).ok()["items"]
            assert 0 < len(found) < len(everything)
        assert (await anna.get(f"/v1/ids?prefix={theirs.session_id}")).ok()["items"] == []
        assert (await anna.get(f"/v1/models?workspace={mine}")).status == 200
        # Directories: what is below is included, what only begins alike is not, and links lead nowhere.
        link = home / "mine" / "link"
        link.symlink_to(server.work)
        for path, status in (
            (home / "mine", 201),
            (home / "mine-too", 403),
            (server.work, 403),
            (home / "nowhere", 403),
            (link, 403),
            (home / "mine" / ".." / "work", 403),
            (home / "mine" / "nowhere", 400),
        ):
            assert (await anna.post("/v1/workspaces", {"path": str(path)})).status == status, path
        # A stored answer is not given to somebody else.
        body = {"path": str(server.work)}
        (await server.http.post("/v1/workspaces", body, Idempotency_Key="k1")).ok()
        assert (await anna.post("/v1/workspaces", body, Idempotency_Key="k1")).status == 403
        # Nothing that counts everywhere.
        memory = f"/v1/workspaces/{mine}/memory"
        assert (await anna.post(memory, {"text": "a", "scope": "user"})).code == "workspaces_restricted"
        assert (await anna.send("DELETE", f"{memory}?number=1&scope=user", {})).code == "workspaces_restricted"
        (await anna.post(memory, {"text": "a"})).ok()
        admin = await add_person(server, "bob", role="admin", workspaces=[str(home / "mine")])
        always = {"decision": "always", "scope": "all"}
        assert (await admin.post(f"/v1/approvals/{own.approval_id}", always)).code == "workspaces_restricted"
        assert [one["id"] for one in (await anna.get(f"/v1/workspaces/{mine}/clients")).ok()["items"]] == []


async def test_streams_show_only_the_events_and_text_of_ones_own_workspaces(home: Path) -> None:
    said = Answer(pieces=(Say("words that stream"), Hang()))
    provider = answering(text("one"), text("two"), said, said)
    async with run_server(home, provider) as server:
        (home / "mine").mkdir()
        mine = await server.open(home / "mine")
        anna = await add_person(server, "anna", role="drive", workspaces=[str(home / "mine")])
        start = server.app.hub.cursor
        theirs = await fill_workspace(server, server.workspace_id, prompt="hello", mark="b")
        own = await fill_workspace(server, mine, prompt="hello", mark="a")
        async with anna.stream("/v1/events") as live, server.http.stream("/v1/events") as all_live:
            runs = [(await server.prompt(one.session_id))["run"]["id"] for one in (theirs, own)]
            async with server.http.stream("/v1/events") as passing:  # somebody comes and goes
                await passing.until("hello")
            everything = []
            while {event["session_id"] for event in everything if event["kind"] in ("delta", "snapshot")} != {
                theirs.session_id,
                own.session_id,
            }:
                everything.append(await all_live.data())
            seen = [await live.data()]
            while seen[-1]["kind"] not in ("delta", "snapshot"):
                seen.append(await live.data())
            for run in runs:
                (await server.http.post(f"/v1/runs/{run}/cancel", {})).ok()
            (await server.http.send("PATCH", f"/v1/sessions/{own.session_id}", {"title": "the end"})).ok()
            while seen[-1].get("session", {}).get("title") != "the end":
                seen.append(await live.data())
        assert {"delta", "snapshot"} & {event["kind"] for event in seen}
        assert {"approval.requested", "run.finished"} <= {event["kind"] for event in seen}
        assert not [event for event in seen if theirs.session_id in str(event) or "ls b" in str(event)]
        assert {event["session_id"] for event in seen if "session_id" in event} == {own.session_id}
        assert not [event for event in seen if event["kind"].startswith(("client.", "device.", "pairing."))]
    async with run_server(home) as server:  # everything is read from the log now
        anna = await token_of(server, "anna")
        async with anna.stream(f"/v1/events?after={start}") as replayed:
            logged = [await replayed.until("message.finished") for _ in range(2)]
        assert {event["session_id"] for event in logged} == {own.session_id}


async def test_a_stream_continues_at_the_first_event_of_a_workspace_that_another_server_registered(home: Path) -> None:
    async with run_server(home) as server:
        anna = await add_person(server, "anna", role="watch", workspaces=[str(server.work)])
        session = await server.session()
        async with anna.stream("/v1/events") as stream:
            hello = await stream.until("hello")
            server.app.services.workspace_paths._paths.clear()  # as if it had been registered elsewhere just now
            (await server.http.send("PATCH", f"/v1/sessions/{session}", {"title": "new"})).ok()
            assert await stream.rest() == []
        async with anna.stream(f"/v1/events?after={hello['cursor']}") as stream:
            assert (await stream.until("session.updated"))["session"]["title"] == "new"


async def test_a_change_of_rights_ends_streams_at_once_and_a_removal_cuts_off(home: Path) -> None:
    async with run_server(home) as server:
        session = await server.session()
        anna = await add_person(server, "anna", role="drive", workspaces=None)
        bob = await add_person(server, "bob", role="drive", workspaces=[str(server.work)])
        prompt = (f"/v1/sessions/{session}/runs", {"prompt": "hello"})
        assert (await anna.post(*prompt)).status == 202
        async with anna.stream("/v1/events") as stream, bob.stream("/v1/events") as others:
            await stream.until("hello")
            await others.until("hello")
            changed = await server.http.send("PATCH", "/v1/people/anna", {"role": "watch"})
            assert changed.ok()["role"] == "watch"
            await stream.rest()
            refused = await anna.post(*prompt)
            assert (refused.status, refused.code) == (403, "scope_too_narrow")
            assert "holdfast people change anna --role drive" in refused.json()["error"]["message"]
            async with anna.stream("/v1/events") as again:
                await again.until("hello")
                (await server.http.send("PATCH", "/v1/people/anna", {"workspaces": [str(home / "else")]})).ok()
                await again.rest()
            assert (await anna.get(f"/v1/sessions/{session}")).status == 404
            (await server.http.send("DELETE", "/v1/people/anna", {})).ok()
            assert (await anna.get("/v1/server")).status == 401
            with pytest.raises(Refused):
                async with anna.stream("/v1/events"):
                    pass
            (await server.http.send("PATCH", f"/v1/sessions/{session}", {"title": "still here"})).ok()
            while (await others.until("session.updated"))["session"]["title"] != "still here":
                pass
        # The name can be used again; old tokens stay refused.
        await add_person(server, "anna", role="admin", workspaces=None)
        assert (await anna.get("/v1/server")).status == 401
        again = await server.http.post("/v1/people", {"name": "anna", "role": "watch", "workspaces": None})
        assert (again.status, again.code) == (409, "person_exists")
        listed = (await server.http.get("/v1/devices")).ok()["items"]
        assert sorted(one["person"] for one in listed) == ["anna", "bob"]
    async with run_server(home) as server:  # and after a restart
        revoked = [one for one in await server.app.store.tokens() if one.device.revoked_at]
        assert [one.device.person for one in revoked] == ["anna"]
        assert [one["name"] for one in (await server.http.get("/v1/people")).ok()["items"]] == ["anna", "bob"]


async def test_a_mutation_whose_body_comes_after_a_removal_is_refused(home: Path) -> None:
    async with run_server(home) as server:
        session = await server.session()
        anna = await add_person(server, "anna", role="drive", workspaces=None)
        reader, writer = await anna.connect()
        body = b'{"title": "mine"}'
        head = {"Content-Type": "application/json", "Content-Length": str(len(body)), "Connection": "close"}
        writer.write(anna.head("PATCH", f"/v1/sessions/{session}", head))
        await writer.drain()
        await until(lambda: bool(server.app.services.devices._requests))
        (await server.http.send("DELETE", "/v1/people/anna", {})).ok()
        writer.write(body)
        assert b" 401 " in (await reader.read()).split(b"\r\n")[0]
        writer.close()
        assert (await server.http.get(f"/v1/sessions/{session}")).ok()["title"] == ""


async def test_a_waiting_read_is_told_that_rights_changed(home: Path) -> None:
    async with run_server(home, answering(Answer(pieces=(Say("I begin"), Hang())))) as server:
        anna = await add_person(server, "anna", role="drive", workspaces=None)
        run = (await server.prompt(await server.session()))["run"]["id"]
        waiting = asyncio.create_task(anna.get(f"/v1/runs/{run}?wait=600"))
        await until(lambda: bool(server.app.services.devices._requests))
        (await server.http.send("PATCH", "/v1/people/anna", {"role": "watch"})).ok()
        answer = await waiting
        assert (answer.status, answer.code) == (409, "access_changed")
        (await server.http.post(f"/v1/runs/{run}/cancel", {})).ok()


async def test_a_removal_takes_effect_even_if_it_cannot_be_stored(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with run_server(home) as server:
        anna = await add_person(server, "anna", role="drive", workspaces=None)
        assert (await anna.get("/v1/server")).status == 200

        async def refuse(batch: Batch, *, until_known: bool = True) -> Committed:
            raise StoreUnwritable("the disk is full")

        with monkeypatch.context() as patched:
            patched.setattr(server.app.store, "commit", refuse)
            assert (await server.http.send("DELETE", "/v1/people/anna", {})).status == 507
            assert (await anna.get("/v1/server")).status == 401


async def test_a_token_allows_what_both_its_scope_and_the_role_allow(home: Path) -> None:
    async with run_server(home) as server:
        session = await server.session()
        drives = await add_person(server, "anna", role="drive", workspaces=None)
        watches = await token_of(server, "anna", scope="watch", label="wall display")
        pause = f"/v1/sessions/{session}/pause"
        assert (await watches.post(pause, {})).code == "scope_too_narrow"
        (await drives.post(pause, {})).ok()
        assert (await drives.get("/v1/people")).code == "scope_too_narrow"
        # A browser can belong to a person too; pairing it for somebody else gives it another token.
        browser = Browser(port_of(await listen(server)))
        code = (await server.http.post("/v1/pairing/codes", {"scope": "admin", "person": "anna"})).ok()["code"]
        assert (await browser.pair(code)).ok()["device"]["person"] == "anna"
        assert (await browser.send("GET", "/v1/people")).code == "scope_too_narrow"
        assert (await browser.send("POST", f"/v1/sessions/{session}/resume", {})).status == 200
        own = (await server.http.post("/v1/pairing/codes", {"scope": "admin"})).ok()["code"]
        assert (await browser.pair(own)).ok()["device"]["person"] is None
        assert (await browser.send("GET", "/v1/people")).status == 200
        missing = await server.http.post("/v1/pairing/codes", {"scope": "admin", "person": "eve"})
        assert (missing.status, missing.code) == (404, "person_not_found")
        assert (await server.http.post("/v1/people/eve/tokens", {})).code == "person_not_found"


async def test_tokens_are_stored_as_hashes_only(home: Path) -> None:
    async with run_server(home) as server:
        await add_person(server, "anna", role="drive", workspaces=[str(home)])
        made = await server.http.post("/v1/people/anna/tokens", {}, Idempotency_Key="k1")
        token = made.ok(201)["token"]
    files = [path for path in home.rglob("*") if path.is_file()]
    assert not [path for path in files if token.encode() in path.read_bytes()]


async def test_crush_answers_only_on_a_private_socket(home: Path) -> None:
    """Crush's protocol knows no tokens, so its face is the owner's: no person reaches it."""
    address = home / "crush.sock"
    async with run_server(home, crush=f"unix://{address}") as server:
        assert os.stat(address).st_mode & 0o777 == 0o600
        anna = await add_person(server, "anna", role="admin", workspaces=None)
        assert (await anna.get("/v1/workspaces")).ok()["items"][0]["path"] == str(server.work)


@pytest.mark.parametrize(
    ("path", "covered"),
    [("/srv/api", True), ("/srv/api/x", True), ("/srv/api-old", False), ("/srv", False), ("/", False), ("", False)],
)
def test_a_directory_covers_itself_and_what_is_below(path: str, covered: bool) -> None:
    assert covers(("/srv/api",), path) is covered
    assert covers(("/",), path or "/") is True
    assert covers((), path) is False
