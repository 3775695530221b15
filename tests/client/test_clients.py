"""Both clients: responses, errors, retries, and waiting for runs."""

import threading
from types import NoneType
from typing import Any

import pytest

from holdfast import __version__
from holdfast.client.api_call import api_call
from holdfast.errors import Conflict, NoAnswer, NotFound, NotHoldfast, ServerStopping, Unauthorized, Unreachable
from holdfast.schema.api.response_bodies import PageView
from holdfast.schema.api.server_views import Health
from holdfast.schema.base import to_builtins
from holdfast.schema.messages import Message, Text
from holdfast.schema.runs import Accepted, Receipt, Run, RunRequest
from tests.client.both_clients import Open, both
from tests.client.stub_server import Cut, Piece, Request, StubServer, Wait, answer, error, one_after_another

RUN = Run(id="run_1", session_id="ses_1", seq=1, state="active")
HEALTH = Health("1.0", "b1")


@both
async def test_a_call_returns_its_response_type(open_client: Open) -> None:
    accepted = Accepted(RUN, "queued", 2)
    with StubServer(one_after_another(answer(HEALTH), answer(accepted, status=202), answer(Receipt(4)))) as stub:
        client = open_client(stub.address, name="test")
        assert await client.health() == HEALTH
        assert await client.start_run("ses_1", RunRequest(prompt="hello")) == accepted
        assert await client.cancel_session("ses_1", scope="active") == Receipt(4)
        await client.aclose()
    assert [(request.method, request.target) for request in stub.requests] == [
        ("GET", "/v1/health"),
        ("POST", "/v1/sessions/ses_1/runs"),
        ("POST", "/v1/sessions/ses_1/cancel"),
    ]
    assert stub.requests[1].json["prompt"] == "hello"
    assert stub.requests[2].json == {"scope": "active"}
    assert stub.connections == 1


@both
@pytest.mark.promise("W7")
async def test_each_request_has_the_client_name_and_the_token(open_client: Open) -> None:
    with StubServer(lambda request: answer(HEALTH)) as stub:
        client = open_client(stub.address, name="test", token="secret-token")
        await client.health()
        await client.health()
        await client.aclose()
    first, second = stub.requests
    assert first.headers["authorization"] == "Bearer secret-token"
    assert first.headers["x-holdfast-client"].startswith(f"test/{__version__} cli_")
    assert first.headers["x-holdfast-client"] == second.headers["x-holdfast-client"]
    assert first.headers["host"] == stub.address.authority


@both
async def test_any_route_can_be_called(open_client: Open) -> None:
    with StubServer(one_after_another(answer({"a": 1}), answer(b"", status=204), answer(b"plain"))) as stub:
        client = open_client(stub.address)
        put = api_call("PUT", "/v1/x", {"key": None}, returns=dict[str, int], query={"q": "a b"})
        assert await client.send(put) == {"a": 1}
        assert await client.send(api_call("DELETE", "/v1/x", returns=NoneType)) is None
        assert await client.call_output("call_1") == "plain"
        await client.aclose()
    assert stub.requests[0].target == "/v1/x?q=a%20b"
    assert stub.requests[0].json == {"key": None}


@both
@pytest.mark.promise("W9")
@pytest.mark.parametrize(
    ("pieces", "leaf"),
    [
        (error(404, "run_not_found"), NotFound),
        (error(409, "run_joined", host="run_0"), Conflict),
        (error(401, "unauthorized"), Unauthorized),
        (error(503, "stopping"), ServerStopping),
        (answer(b"<html>"), NotHoldfast),
        (answer(b"<html>", status=404), NotHoldfast),
    ],
)
async def test_an_error_response_is_raised_as_its_class(open_client: Open, pieces: list[Piece], leaf: type) -> None:
    with StubServer(lambda request: pieces) as stub:
        client = open_client(stub.address)
        with pytest.raises(leaf):
            await client.get_run("run_1")
        await client.aclose()
    assert len(stub.requests) == 1


@both
@pytest.mark.promise("R3")
async def test_a_run_is_sent_again_with_the_same_id_when_its_response_is_lost(open_client: Open) -> None:
    accepted = answer(Accepted(RUN, "started"), status=202)
    with StubServer(one_after_another([Cut()], [b"HTTP/1.1 202 Acc", Cut()], accepted)) as stub:
        client = open_client(stub.address)
        assert (await client.start_run("ses_1", RunRequest(prompt="hello"))).run == RUN
        await client.aclose()
    bodies = {request.body for request in stub.requests}
    assert len(stub.requests) == 3
    assert len(bodies) == 1
    assert stub.requests[0].json["run_id"].startswith("run_")


@both
async def test_other_changes_are_sent_again_with_the_same_key(open_client: Open) -> None:
    with StubServer(one_after_another([Cut()], answer(Receipt(1)))) as stub:
        client = open_client(stub.address)
        await client.cancel_run("run_1")
        await client.aclose()
    keys = [request.headers["idempotency-key"] for request in stub.requests]
    assert len(keys) == 2
    assert keys[0] == keys[1]


@both
async def test_a_stale_connection_is_replaced(open_client: Open) -> None:
    def respond(request: Request) -> list[Piece]:
        return [*answer(HEALTH), *([Cut()] if request.connection == 1 else [])]

    with StubServer(respond) as stub:
        client = open_client(stub.address, retry_seconds=5.0)
        for _ in range(3):
            assert await client.health() == HEALTH
        await client.aclose()
    assert stub.connections == 2


@both
async def test_retries_end_with_the_reason(open_client: Open) -> None:
    with StubServer(lambda request: []) as stub:
        address = stub.address
    client = open_client(address, retry_seconds=0.05)
    with pytest.raises(Unreachable, match="cannot connect to http://127"):
        await client.health()
    await client.aclose()


@both
async def test_a_response_that_takes_too_long_raises_no_answer(open_client: Open) -> None:
    go_on = threading.Event()
    with StubServer(lambda request: [Wait(go_on), *answer(HEALTH)]) as stub:
        client = open_client(stub.address, response_seconds=0.05)
        with pytest.raises(NoAnswer, match="has not answered in time"):
            await client.health()
        go_on.set()
        await client.aclose()
    assert len(stub.requests) == 1


@both
async def test_a_server_that_is_gone_is_revived(open_client: Open) -> None:
    revived: list[int] = []

    def respond(request: Request) -> list[Piece]:
        return answer(HEALTH) if revived else [Cut()]

    with StubServer(respond) as stub:
        client = open_client(stub.address, revive=lambda **_: revived.append(1))
        assert await client.health() == HEALTH
        await client.aclose()
    assert revived == [1]


@both
async def test_a_stopping_server_is_revived_and_the_call_sent_again(open_client: Open) -> None:
    revived: list[int] = []
    accepted = answer(Accepted(RUN, "started"), status=202)
    with StubServer(one_after_another(error(503, "stopping"), accepted)) as stub:
        client = open_client(stub.address, revive=lambda **_: revived.append(len(stub.requests)))
        assert (await client.start_run("ses_1", RunRequest(prompt="hello"))).run == RUN
        await client.aclose()
    assert revived == [1]
    assert stub.requests[0].body == stub.requests[1].body


@both
@pytest.mark.promise("R9")
async def test_wait_run_polls_until_the_run_ends(open_client: Open) -> None:
    ended = Run(id="run_1", session_id="ses_1", seq=1, state="completed", reason="end_turn", text="done")
    with StubServer(one_after_another(answer(RUN), [Cut()], answer(RUN), answer(ended))) as stub:
        client = open_client(stub.address)
        assert await client.wait_run("run_1") == ended
        await client.aclose()
    assert {request.target for request in stub.requests} == {"/v1/runs/run_1?wait=30"}


@both
@pytest.mark.promise("R9")
async def test_wait_run_returns_after_its_seconds(open_client: Open) -> None:
    with StubServer(lambda request: answer(RUN)) as stub:
        client = open_client(stub.address)
        assert await client.wait_run("run_1", seconds=0) == RUN
        await client.aclose()
    assert [request.target for request in stub.requests] == ["/v1/runs/run_1"]


@both
@pytest.mark.promise("E7")
async def test_all_messages_returns_the_cursor_of_the_first_page(open_client: Open) -> None:
    messages = [Message(f"msg_{n}", "ses_1", "run_1", "user", n, "", (Text(str(n)),)) for n in range(3)]

    def page(items: list[Message], following: str | None, cursor: str) -> list[Piece]:
        return answer(PageView(tuple(to_builtins(item) for item in items), cursor, following))

    with StubServer(one_after_another(page(messages[:2], "2", "log.5"), page(messages[2:], None, "log.9"))) as stub:
        client = open_client(stub.address)
        assert await client.all_messages("ses_1") == (messages, "log.5")
        await client.aclose()
    assert [request.target.partition("?")[2] for request in stub.requests] == ["after=0", "after=2"]


def test_both_clients_have_the_same_documented_methods() -> None:
    from holdfast.client.async_client import AsyncClient
    from holdfast.client.sync_client import SyncClient

    def methods(client: Any) -> set[str]:
        return {name for name in vars(client) if not name.startswith("_")} - {"close", "aclose"}

    assert methods(SyncClient) == methods(AsyncClient)
    assert "gets one here" in str(SyncClient.start_run.__doc__)
