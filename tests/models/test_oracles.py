"""Our reading of each wire equals its vendor's SDK's; our bodies are what its SDK's types allow.

The SDKs' word is checked in (tests/models/goldens) and written anew by `python -m oracles.regenerate`.
"""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import ModelError
from holdfast.models.model_factory import wire_named
from holdfast.schema.base import to_builtins
from tests.models.requests import requests, target
from tests.models.support import WIRES, answer, golden, streams, told

READINGS = [(wire, name) for wire in WIRES for name in streams(wire)]
BODIES = [(wire, name) for wire in WIRES for name in requests(wire)]

ERRORS = {
    "AuthenticationError": {"auth"},
    "PermissionDeniedError": {"auth"},
    "NotFoundError": {"invalid_request_to_model"},
    "RateLimitError": {"rate_limit", "auth"},
    "InternalServerError": {"overloaded"},
    "ServiceUnavailableError": {"overloaded"},
    "OverloadedError": {"overloaded"},
    "ContentTooLargeError": {"context"},
    "ServerError": {"overloaded"},
    "BadRequestError": {"context", "refused", "invalid_request_to_model", "auth"},
    "ClientError": {"context", "invalid_request_to_model", "auth", "rate_limit"},
    "APIError": {"overloaded", "rate_limit"},
    "APIStatusError": {"overloaded", "context"},
    "in stream": {"overloaded", "rate_limit"},
}
"""Which of our classes an SDK's class may become; where it is wide, the test of `failures` says which it must be."""


def test_the_table_is_as_long_as_promised() -> None:
    assert len(READINGS) >= 40
    assert all(golden(f"readings-{wire}")["readings"].keys() == streams(wire).keys() for wire in WIRES)


@pytest.mark.parametrize(("wire", "name"), READINGS, ids=[f"{wire}: {name}" for wire, name in READINGS])
def test_we_read_a_stream_as_its_vendors_sdk_does(wire: str, name: str) -> None:
    expected = golden(f"readings-{wire}")["readings"][name]
    if "error" in expected:
        with pytest.raises(ModelError) as raised:
            answer(wire, streams(wire)[name])
        assert raised.value.error_code in ERRORS[expected["error"]["class"]]
    else:
        assert told(answer(wire, streams(wire)[name])) == expected


@pytest.mark.parametrize(("wire", "name"), BODIES, ids=[f"{wire}: {name}" for wire, name in BODIES])
def test_a_body_is_the_one_that_its_vendors_types_allow(wire: Any, name: str) -> None:
    expected = golden(f"bodies-{wire}")["bodies"][name]
    assert expected["verdict"] == "valid"
    assert to_builtins(wire_named(wire).body(requests(wire)[name], target(wire))) == expected["body"]
