"""Each route needs a scope, and a device gets no further than its own (`W8`)."""

from pathlib import Path
from typing import get_args

import pytest

from holdfast.schema.devices import AccessScope, includes
from holdfast.server.application import ENDPOINTS
from holdfast.server.http.endpoint import Endpoint
from holdfast.server.route_scopes import ROUTE_SCOPES, route_scope
from tests.support.running_server import run_server
from tests.support.web_devices import listen, paired, port_of

SCOPES: tuple[AccessScope, ...] = get_args(AccessScope)


def test_every_route_has_a_scope_and_every_row_a_route() -> None:
    assert {f"{row.method} {row.path}" for row in ENDPOINTS} == set(ROUTE_SCOPES)
    with pytest.raises(AssertionError, match="no scope"):
        route_scope(Endpoint("GET", "/v1/new", ENDPOINTS[0].handler))


def test_reading_needs_watch_and_changing_needs_more() -> None:
    for endpoint in ENDPOINTS:
        if endpoint.mutates and endpoint.path not in ("/v1/device", "/v1/pairing"):
            assert route_scope(endpoint) != "watch", endpoint.path
    assert [includes("answer", scope) for scope in SCOPES] == [True, True, False, False]


@pytest.mark.promise("W8")
async def test_a_device_is_refused_on_every_route_beyond_its_scope(home: Path) -> None:
    """Refused before its body is read, so nothing changes; on the other routes it is not the scope that refuses."""
    async with run_server(home) as server:
        port = port_of(await listen(server))
        before = server.app.store.last_number
        for scope in SCOPES[:3]:
            browser = await paired(server, port, scope)
            for endpoint in ENDPOINTS:
                needed = route_scope(endpoint)
                path = endpoint.path.replace("{", "").replace("}", "")
                if not includes(scope, needed):
                    answer = await browser.send(endpoint.method, path, {"nonsense": 1})
                    assert (answer.status, answer.code) == (403, "scope_too_narrow"), (scope, path)
                    assert answer.json()["error"]["detail"] == {"scope": scope, "needed": needed}
                elif endpoint.mutates and path != "/v1/device":
                    answer = await browser.send(endpoint.method, path, {"nonsense": 1})
                    assert answer.status != 403, (scope, path)
        assert server.app.store.last_number == before


@pytest.mark.promise("W8")
async def test_a_rule_for_all_workspaces_needs_admin(home: Path) -> None:
    async with run_server(home) as server:
        port = port_of(await listen(server))
        always = {"decision": "always", "scope": "all"}
        for scope, status in (("answer", 403), ("drive", 403), ("admin", 404)):
            browser = await paired(server, port, scope)  # type: ignore[arg-type]
            assert (await browser.send("POST", "/v1/approvals/apr_none", always)).status == status
            assert (await browser.send("POST", "/v1/approvals/apr_none", {"decision": "always"})).status == 404
