"""Malformed requests: never a 5xx, always an error body, and a 4xx changes nothing (`W9`)."""

import asyncio
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.server.application import ENDPOINTS
from holdfast.server.http.endpoint import Endpoint
from tests.support.background_server import BackgroundServer, serve_in_background
from tests.support.running_server import RunningServer

NOT_TRIED = ("/v1/server/stop", "/v1/server/backup", "/v1/providers/{provider}/test")
"""They would end the test, write wherever a made-up path leads, and leave the machine."""

TRIED = [endpoint for endpoint in ENDPOINTS if endpoint.path not in NOT_TRIED]

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["", "\0", "/", "\ud800", "ses_1", "a" * 300, "2026-02-30", "1e999", "queue", "session"])
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def server() -> Iterator[BackgroundServer]:
    with tempfile.TemporaryDirectory(prefix="hf-") as directory, serve_in_background(Path(directory)) as found:
        yield found


@st.composite
def requests(draw: st.DrawFn) -> tuple[Endpoint, str, bytes | None, dict[str, str]]:
    endpoint = draw(st.sampled_from(TRIED))
    return endpoint, _path(draw, endpoint) + _query(draw, endpoint), _body(draw, endpoint), _headers(draw)


def _path(draw: st.DrawFn, endpoint: Endpoint) -> str:
    known = {"workspace_id": "WORKSPACE", "session_id": "SESSION", "provider": "anthropic"}
    path = endpoint.path
    for name in [part[1:-1] for part in path.split("/") if part.startswith("{")]:
        chosen = draw(st.sampled_from([known.get(name, "run_1"), None]))
        if chosen is None:
            chosen = quote(draw(st.text(min_size=1, max_size=12)), safe="", errors="replace")
        path = path.replace(f"{{{name}}}", chosen)
    return path


def _query(draw: st.DrawFn, endpoint: Endpoint) -> str:
    names = [field.name for field in msgspec.structs.fields(endpoint.query)]
    pairs = draw(st.lists(st.tuples(st.sampled_from([*names, "other"]), scalars), max_size=3))
    shown = "&".join(f"{name}={quote(str(value), safe='', errors='replace')}" for name, value in pairs)
    return f"?{shown}" if shown else ""


def _body(draw: st.DrawFn, endpoint: Endpoint) -> bytes | None:
    if endpoint.body is None:
        return None
    names = [field.name for field in msgspec.structs.fields(endpoint.body) if field.name != "command"]
    shaped = st.dictionaries(st.sampled_from([*names, "other"]), values, max_size=4)
    body: Any = draw(shaped | values | st.binary(max_size=30))
    if isinstance(body, bytes):
        return body
    return json.dumps(body, ensure_ascii=True).encode()


def _headers(draw: st.DrawFn) -> dict[str, str]:
    names = st.sampled_from(["X-Holdfast-Client", "Idempotency-Key", "Last-Event-ID", "Content-Type", "Range"])
    text = st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=255), max_size=12)
    return draw(st.dictionaries(names, text.map(str.strip), max_size=2))


async def _session(running: RunningServer) -> str:
    """The newest one; another when that was deleted."""
    page = await running.app.store.sessions(running.workspace_id, limit=1, archived=None)
    return page.items[0].id if page.items else await running.session()


async def _quiet(running: RunningServer) -> bool:
    """Whether nothing of earlier requests goes on; a run that hangs is not waited for."""
    for _ in range(5_000):
        if not running.app.services.workspaces.is_busy:
            return True
        await asyncio.sleep(0)
    return False


@pytest.mark.promise("W9")
@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(request=requests())
def test_no_request_gets_a_5xx(
    server: BackgroundServer, request: tuple[Endpoint, str, bytes | None, dict[str, str]]
) -> None:
    endpoint, target, body, headers = request
    running = server.server
    session_id = server.do(_session(running))
    target = target.replace("WORKSPACE", running.workspace_id).replace("SESSION", session_id)
    was_quiet = server.do(_quiet(running))
    before = running.app.store.last_number
    status, answer = server.send(endpoint.method, target, body, headers)
    assert status < 500, (endpoint.method, target, body, answer)
    if status >= 400:
        error = json.loads(answer)["error"]
        assert isinstance(error["code"], str)
        assert error["message"]
    if status in (400, 404) and was_quiet:
        assert running.app.store.last_number == before
