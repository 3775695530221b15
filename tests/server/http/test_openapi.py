"""The description is of what is served: the same routes, the same types, and real answers fit it."""

from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from holdfast.server.application import ENDPOINTS
from holdfast.server.http.openapi import describe
from tests.support.running_server import run_server

DESCRIPTION = describe(ENDPOINTS, version="1.2.3")


def operations() -> dict[str, dict[str, Any]]:
    return {
        operation["operationId"]: operation for path in DESCRIPTION["paths"].values() for operation in path.values()
    }


def test_every_endpoint_is_described_once_with_its_statuses() -> None:
    described = {(method.upper(), path) for path, methods in DESCRIPTION["paths"].items() for method in methods}
    assert described == {(endpoint.method, endpoint.path) for endpoint in ENDPOINTS}
    assert len(operations()) == len(ENDPOINTS)
    for endpoint in ENDPOINTS:
        operation = operations()[endpoint.handler.__name__]
        assert str(endpoint.status) in operation["responses"]
        assert {str(error.status) for error in endpoint.errors} <= operation["responses"].keys()
        assert ("401" in operation["responses"]) != endpoint.public
        assert operation["summary"].endswith(".")


def test_every_reference_resolves() -> None:
    text = msgspec.json.encode(DESCRIPTION).decode()
    for reference in {part.split('"')[0] for part in text.split('"$ref":"#/')[1:]}:
        found: Any = DESCRIPTION
        for step in reference.split("/"):
            found = found[step]
        assert isinstance(found, dict)


def test_parameters_and_bodies_say_what_is_refused() -> None:
    listing = {parameter["name"]: parameter for parameter in operations()["list_runs"]["parameters"]}
    assert listing["limit"]["schema"] == {"type": "integer", "minimum": 1, "maximum": 1000, "default": 50}
    assert listing["session_id"]["in"] == "path"
    assert DESCRIPTION["components"]["schemas"]["PromptBody"]["additionalProperties"] is False
    assert operations()["start_run"]["requestBody"]["required"]
    assert not operations()["cancel_run"]["requestBody"]["required"]


def test_responses_link_to_the_endpoints_that_take_their_ids() -> None:
    links = operations()["start_run"]["responses"]["202"]["links"]
    assert links["get_run"]["parameters"] == {"run_id": "$response.body#/run/id"}
    assert links["cancel_session"]["parameters"] == {"session_id": "$response.body#/run/session_id"}
    for operation in operations().values():
        for answer in operation["responses"].values():
            assert {link["operationId"] for link in answer.get("links", {}).values()} <= operations().keys()


async def test_the_server_serves_the_description(home: Path) -> None:
    async with run_server(home) as server:
        answer = (await server.http.get("/v1/openapi.json")).ok()
        assert answer["paths"].keys() == DESCRIPTION["paths"].keys()
        assert answer["openapi"] == "3.1.0"


def _fits(schema: dict[str, Any], value: object) -> bool:
    """Whether the description allows the value."""
    whole = {"components": DESCRIPTION["components"], **schema}
    return jsonschema_rs.validator_for(whole, validate_formats=True).is_valid(value)


@pytest.mark.parametrize(
    "body",
    [
        {"host": "127.0.0.1"},
        {"host": "127.1.2.255"},
        {"host": "0.0.0.0"},
        {"host": "192.0.2.1"},
        {"host": "::"},
        {"host": "localhost"},
        {"host": "127.0.0.01"},
        {"host": "127.0.0.1\n"},
        {"certificate": "/c.pem"},
        {"key": "/k.pem"},
        {"certificate": None, "key": "/k.pem"},
        {"certificate": None, "key": None},
        {},
    ],
)
async def test_the_description_allows_the_web_addresses_that_the_server_takes(home: Path, body: dict[str, Any]) -> None:
    async with run_server(home) as server:
        answer = await server.http.post("/v1/web", body)
    schema = operations()["listen_web"]["requestBody"]["content"]["application/json"]["schema"]
    assert (answer.status, _fits(schema, body)) in ((200, True), (400, False))


@pytest.mark.parametrize("client", ["example/1", "example/1 me", "a b c"])
async def test_the_description_says_that_tools_need_a_client_with_an_id(home: Path, client: str) -> None:
    async with run_server(home) as server:
        path = f"/v1/sessions/{await server.session()}/tools"
        answer = await server.http.send("PUT", path, {"tools": []}, **{"X-Holdfast-Client": client})
    [header] = [one for one in operations()["attach_tools"]["parameters"] if one["name"] == "X-Holdfast-Client"]
    assert header["required"]
    assert (answer.status, _fits(header["schema"], client)) in ((200, True), (400, False))
