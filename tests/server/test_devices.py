"""Browsers that are paired with the server: codes, cookies, origins, revocation, restart (`W8`)."""

import asyncio
import hashlib
import http.client
import json
import os
import socket
import ssl
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast.cli.web_certificate import own_certificate
from holdfast.errors import StoreUnwritable
from holdfast.store import Batch, Committed
from holdfast.testing import Answer, Hang, Say
from holdfast.tools.process.tool_peers import tcp_peer_uid
from tests.support.http_client import HttpClient, Refused
from tests.support.running_server import TOKEN, RunningServer, answering, run_server, until
from tests.support.web_devices import Browser, listen, make_code, make_page, paired, port_of


def expire(server: RunningServer) -> None:
    """Let five minutes pass for the codes."""
    codes = server.app.services.devices.codes
    codes._now = lambda now=codes._now: now() + 301  # type: ignore[misc]


@pytest.mark.promise("W8")
async def test_a_code_is_exchanged_once_for_a_cookie_that_opens_the_interface(home: Path) -> None:
    async with run_server(home) as server:
        port = port_of(await listen(server))
        browser, code = Browser(port), await make_code(server, "drive")
        assert (await browser.send("GET", "/v1/device")).status == 401
        assert (await browser.send("GET", "/v1/server")).status == 401
        answer = await browser.pair(code, name="my\x1b[31m phone\n")
        device = answer.ok()["device"]
        assert (device["name"], device["scope"], device["revoked_at"]) == ("my [31m phone", "drive", None)
        name, _, rest = answer.headers["set-cookie"].partition("=")
        half, *attributes = rest.split("; ")
        token = half + answer.json()["page_key"]
        assert name == f"holdfast_device_{server.app.services.devices.server_id}"
        assert set(attributes) == {"Max-Age=34560000", "Path=/", "HttpOnly", "SameSite=Strict"}
        assert half not in answer.body.decode()
        assert (await browser.send("GET", "/v1/device")).ok() == {"device": device, "page_key": None}
        session = (await browser.send("POST", f"/v1/workspaces/{server.workspace_id}/sessions", {})).ok(201)
        assert (await browser.send("GET", f"/v1/sessions/{session['id']}")).ok()["id"] == session["id"]
        assert (await Browser(port).http.get("/v1/server", Authorization=f"Bearer {token}")).status == 200
        reused = await Browser(port).pair(code)
        assert (reused.status, reused.code) == (403, "pairing_refused")
        # The token of the server itself does not count at this address, and no token is in the database.
        assert (await Browser(port).http.get("/v1/server", Authorization=f"Bearer {TOKEN}")).status == 401
        (record,) = await server.app.store.tokens()
        assert record.digest == hashlib.sha256(token.encode()).hexdigest()
        files = [path for path in home.rglob("*") if path.is_file()]
        for secret in (half, answer.json()["page_key"]):
            assert not [path for path in files if secret.encode() in path.read_bytes()]


@pytest.mark.promise("W8")
async def test_the_cookie_that_other_ports_of_the_host_receive_is_not_enough(home: Path) -> None:
    async with run_server(home) as server:
        port = port_of(await listen(server))
        browser = await paired(server, port, "admin")
        assert browser.cookie is not None
        half = browser.cookie.partition("=")[2]
        other = await paired(server, port)
        for stolen in (
            {"Cookie": browser.cookie},
            {"Cookie": browser.cookie, "X-Holdfast-Page": ""},
            {"Cookie": browser.cookie, "X-Holdfast-Page": half},
            {"Cookie": browser.cookie, "X-Holdfast-Page": other.page_key},
            {"X-Holdfast-Page": browser.page_key},
            {"Authorization": f"Bearer {half}"},
            {"Authorization": f"Bearer {browser.page_key}"},
        ):
            assert (await browser.http.send("GET", "/v1/device", **stolen)).status == 401, stolen
        assert (await browser.send("GET", "/v1/device")).status == 200


@pytest.mark.promise("W8")
async def test_wrong_and_expired_codes_are_refused_limited_and_shown_to_clients(home: Path) -> None:
    async with run_server(home) as server:
        port = port_of(await listen(server))
        browser = Browser(port)
        async with server.http.stream(f"/v1/workspaces/{server.workspace_id}/events") as stream:
            await stream.until("hello")
            code = await make_code(server)
            expire(server)
            assert (await browser.pair(code)).code == "pairing_refused"
            failed = await stream.until("pairing.failed")
            assert (failed["address"], failed["failures"]) == ("127.0.0.1", 1)
            while (answer := await browser.pair("AAAA-AAAA-AAAA")).status == 403:
                pass
            assert (answer.status, answer.code) == (429, "too_many_pairings")
            good = await make_code(server)
            assert (await browser.pair(good)).status == 429
            expire(server)
            assert (await browser.pair(good)).status == 403
            (await browser.pair(await make_code(server))).ok()
            assert (await stream.until("device.changed"))["change"] == "paired"


@pytest.mark.promise("W8")
async def test_pairing_again_keeps_the_device_and_changes_its_scope(home: Path) -> None:
    async with run_server(home) as server:
        port = port_of(await listen(server))
        browser = await paired(server, port, "watch")
        answer = await browser.pair(await make_code(server, "drive"))
        assert answer.ok()["device"]["id"] == browser.device["id"]
        assert "set-cookie" not in answer.headers
        assert [one["scope"] for one in (await server.http.get("/v1/devices")).ok()["items"]] == ["drive"]
        renamed = await server.http.send("PATCH", f"/v1/devices/{browser.device['id']}", {"name": "sofa"})
        assert renamed.ok()["name"] == "sofa"


@pytest.mark.promise("W8")
async def test_a_revoked_device_is_cut_off_at_once(home: Path) -> None:
    async with run_server(home) as server:
        port = port_of(await listen(server))
        browser, other = await paired(server, port), await paired(server, port)
        session = await server.session()
        async with browser.stream() as stream, other.stream() as kept:
            await stream.until("hello")
            await kept.until("hello")
            (await server.http.send("DELETE", f"/v1/devices/{browser.device['id']}", {})).ok()
            assert all(event["kind"] != "session.updated" for event in await stream.rest())
            for method, path in (
                ("GET", "/v1/server"),
                ("POST", f"/v1/sessions/{session}/pause"),
                ("GET", "/v1/device"),
            ):
                assert (await browser.send(method, path)).status == 401
            with pytest.raises(Refused):
                async with browser.stream():
                    pass
            changed = await kept.until("device.changed")
            assert (changed["change"], changed["device"]["id"]) == ("revoked", browser.device["id"])
            assert (await other.send("GET", "/v1/server")).status == 200
            known = (await server.http.get("/v1/devices")).ok()["items"]
            assert [one["id"] for one in known] == [other.device["id"]]
            again = await server.http.send("DELETE", f"/v1/devices/{browser.device['id']}", {})
            assert again.code == "device_not_found"
            forgotten = await other.send("DELETE", "/v1/device", {})
            assert "Max-Age=0" in forgotten.headers["set-cookie"]
            assert (await other.send("GET", "/v1/device")).status == 401
            await kept.rest()


@pytest.mark.promise("W8")
async def test_a_long_wait_of_a_revoked_device_ends(home: Path) -> None:
    async with run_server(home, answering(Answer(pieces=(Say("I begin"), Hang())))) as server:
        browser = await paired(server, port_of(await listen(server)))
        run = (await server.prompt(await server.session()))["run"]
        waiting = asyncio.create_task(browser.send("GET", f"/v1/runs/{run['id']}?wait=600"))
        devices = server.app.services.devices
        await until(lambda: bool(devices._requests))
        await devices.revoke(browser.device["id"])
        assert (await waiting).status == 401
        await server.http.post(f"/v1/runs/{run['id']}/cancel", {})


@pytest.mark.promise("W8")
async def test_pages_of_other_origins_and_rebound_names_get_nothing(home: Path) -> None:
    async with run_server(home, static_files=make_page(home / "page")) as server:
        port = port_of(await listen(server))
        browser = await paired(server, port, "admin")
        before = server.app.store.last_number
        for host in ("evil.example", f"evil.example:{port}", f"127.0.0.1.evil.example:{port}"):
            for path in ("/", "/v1/server", "/v1/health", "/v1/pairing", "/assets/page-1a2b3c4d.js"):
                for method in ("GET", "POST"):
                    answer = await browser.send(method, path, Host=host, Origin=f"http://{host}")
                    assert (answer.status, answer.code) == (403, "foreign_host"), path
        code = await make_code(server)
        sessions = f"/v1/workspaces/{server.workspace_id}/sessions"
        for origin in ("http://evil.example", f"https://127.0.0.1:{port}", "http://127.0.0.1:3000", "null", None):
            answer = await browser.send("POST", sessions, {}, Origin=origin)
            assert (answer.status, answer.code) == (403, "foreign_origin"), origin
            if origin is not None:
                answer = await browser.send("POST", "/v1/pairing", {"code": code}, Origin=origin)
                assert (answer.status, answer.code) == (403, "foreign_origin"), origin
        # A page on another port of this host gets the cookie sent by SameSite, but not the answer.
        for site in ("same-site", "cross-site"):
            answer = await browser.send("GET", "/v1/server", Sec_Fetch_Site=site)
            assert (answer.status, answer.code) == (403, "foreign_origin")
        assert (await browser.send("GET", "/v1/server", Sec_Fetch_Site="same-origin")).status == 200
        assert server.app.store.last_number == before
        (await Browser(port).pair(code)).ok()


@pytest.mark.promise("W8", "W6")
async def test_a_restart_keeps_devices_and_the_address(home: Path) -> None:
    async with run_server(home, static_files=make_page(home / "page")) as server:
        listener = await listen(server)
        assert await listen(server) == listener
        browser = await paired(server, port_of(listener))
    async with run_server(home, static_files=home / "page") as server:
        assert (await server.http.get("/v1/web")).ok()["listeners"] == [listener]
        assert (await browser.send("GET", "/v1/device")).ok()["device"]["id"] == browser.device["id"]
        async with browser.stream() as stream:
            await stream.until("hello")
            assert (await server.http.send("DELETE", "/v1/web", {})).ok() == {"listeners": []}
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                await stream.rest()
        with pytest.raises(ConnectionError):
            await browser.send("GET", "/v1/device")
        assert (await listen(server))["address"] != ""
        (await server.http.send("DELETE", "/v1/web", {})).ok()
    async with run_server(home) as server:
        assert (await server.http.get("/v1/web")).ok()["listeners"] == []


@pytest.mark.promise("W8")
async def test_two_servers_on_one_host_do_not_mix_their_devices(home: Path) -> None:
    (home / "a").mkdir()
    (home / "b").mkdir()
    async with run_server(home / "a") as first, run_server(home / "b") as second:
        one = await paired(first, port_of(await listen(first)))
        two = await paired(second, port_of(await listen(second)))
        assert one.cookie is not None
        assert two.cookie is not None
        both = f"{one.cookie}; theme=dark; {two.cookie}"
        for browser in (one, two):
            answer = await browser.send("GET", "/v1/device", Cookie=both)
            assert answer.ok()["device"]["id"] == browser.device["id"]
        assert (await two.send("GET", "/v1/device", Cookie=one.cookie)).status == 401
        token = f"{one.cookie.partition('=')[2]}{one.page_key}"
        assert (await two.http.get("/v1/device", Authorization=f"Bearer {token}")).status == 401


async def test_an_address_of_the_network_needs_a_certificate(home: Path) -> None:
    async with run_server(home) as server:
        for body, field in (
            ({"host": "0.0.0.0"}, "certificate"),
            ({"host": "::"}, "certificate"),
            ({"host": "example.org"}, "host"),
            ({"certificate": "/c.pem"}, "key"),
        ):
            answer = await server.http.post("/v1/web", body)
            assert (answer.status, answer.json()["error"]["detail"]["field"]) == (400, field), body
        wrong = await server.http.post("/v1/web", {"certificate": "/none.pem", "key": "/none.pem"})
        assert (wrong.status, wrong.code) == (400, "config_invalid")
        assert (await server.http.get("/v1/web")).ok()["listeners"] == []


@pytest.mark.promise("W8")
async def test_a_shared_page_is_served_over_tls_at_the_names_of_its_certificate(home: Path) -> None:
    made = await asyncio.to_thread(own_certificate, home / "certificate", "127.0.0.1")
    async with run_server(home, static_files=make_page(home / "page"), linger=0.2) as server:
        shared = {"certificate": made.certificate, "key": made.key, "names": ["phone.example"]}
        listener = await listen(server, **shared)
        assert listener["address"].startswith("https://127.0.0.1:")
        der = ssl.PEM_cert_to_DER_cert(Path(made.certificate).read_text())
        assert listener["fingerprint"].replace(":", "").lower() == hashlib.sha256(der).hexdigest()
        context = ssl.create_default_context(cafile=made.certificate)

        def exchange(host: str) -> tuple[int, str, int]:
            connection = http.client.HTTPSConnection("127.0.0.1", port_of(listener), context=context, timeout=30)
            try:
                connection.request("GET", "/", headers={"Host": host})
                page = connection.getresponse()
                page.read()
                sent = {"Host": host, "Origin": f"https://{host}", "Content-Type": "application/json"}
                connection.request("POST", "/v1/pairing", json.dumps({"code": code, "name": "phone"}), sent)
                answer = connection.getresponse()
                answer.read()
                return page.status, answer.getheader("Set-Cookie", ""), answer.status
            finally:
                connection.close()

        code = await make_code(server)
        assert (await asyncio.to_thread(exchange, "evil.example"))[::2] == (403, 403)
        status, cookie, paired_status = await asyncio.to_thread(exchange, "phone.example")
        assert (status, paired_status) == (200, 200)
        assert cookie.endswith("; HttpOnly; SameSite=Strict; Secure")
        # Plain HTTP gets nothing there.
        with suppress(ConnectionError):
            assert (
                await HttpClient(("127.0.0.1", port_of(listener))).raw(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                == b""
            )
        assert server.app.services.web.is_shared
        # Both addresses at once, and after a restart.
        assert [one["shared"] for one in (await server.http.get("/v1/web")).ok()["listeners"]] == [True]
        await listen(server)
        both = (await server.http.get("/v1/web")).ok()["listeners"]
        assert [one["shared"] for one in both] == [False, True]
    async with run_server(home, static_files=home / "page") as server:
        assert (await server.http.get("/v1/web")).ok()["listeners"] == both


@pytest.mark.promise("W8")
async def test_another_user_of_this_machine_cannot_use_a_code(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with run_server(home) as server:
        port = port_of(await listen(server))
        code = await make_code(server)
        monkeypatch.setattr("holdfast.tools.process.tool_peers.tcp_peer_uid", lambda client, server: 54321)
        answer = await Browser(port).pair(code)
        assert (answer.status, answer.code) == (403, "other_user")
        monkeypatch.undo()
        (await Browser(port).pair(code)).ok()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/net/tcp")
def test_the_user_of_a_tcp_peer_is_found() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()) as client,
    ):
        assert tcp_peer_uid(client.getsockname(), listening.getsockname()) == os.geteuid()
        assert tcp_peer_uid(("127.0.0.1", 1), listening.getsockname()) is None
        assert tcp_peer_uid(("192.0.2.1", client.getsockname()[1]), listening.getsockname()) is None


@pytest.mark.promise("W8", "R14")
async def test_on_a_full_disk_a_code_is_not_lost_and_revoking_works(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with run_server(home) as server:
        port = port_of(await listen(server))
        browser, code = await paired(server, port), await make_code(server)
        store = server.app.store
        commit = store.commit

        async def refuse(batch: Batch, *, until_known: bool = True) -> Committed:
            raise StoreUnwritable("the disk is full")

        monkeypatch.setattr(store, "commit", refuse)
        server.app.services.devices._stored_use.clear()
        assert (await browser.send("GET", "/v1/device")).status == 200
        assert (await Browser(port).pair(code)).status == 507
        assert (await server.http.send("DELETE", f"/v1/devices/{browser.device['id']}", {})).status == 507
        assert (await browser.send("GET", "/v1/device")).status == 401
        monkeypatch.setattr(store, "commit", commit)
        (await Browser(port).pair(code)).ok()
