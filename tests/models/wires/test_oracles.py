"""We read streams as the vendors' SDKs do, and our request bodies match the SDKs' types.

The results of the SDKs are in tests/models/goldens; `python -m oracles.regenerate` writes them.
"""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import ModelError
from holdfast.models.model_factory import load_wire
from holdfast.schema.base import to_builtins
from tests.models.requests import requests, target
from tests.models.support import WIRES, answer, golden, streams, summarize

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
"""The codes of our errors for each error class of the SDKs. `test_error_mapping` tests the exact class."""


def test_golden_files_cover_all_streams() -> None:
    assert len(READINGS) >= 40
    assert all(golden(f"readings-{wire}")["readings"].keys() == streams(wire).keys() for wire in WIRES)


@pytest.mark.parametrize(("wire", "name"), READINGS, ids=[f"{wire}: {name}" for wire, name in READINGS])
def test_stream_is_read_as_the_vendors_sdk_reads_it(wire: str, name: str) -> None:
    expected = golden(f"readings-{wire}")["readings"][name]
    if "error" in expected:
        with pytest.raises(ModelError) as raised:
            answer(wire, streams(wire)[name])
        assert raised.value.error_code in ERRORS[expected["error"]["class"]]
    else:
        assert summarize(answer(wire, streams(wire)[name])) == expected


@pytest.mark.parametrize(("wire", "name"), BODIES, ids=[f"{wire}: {name}" for wire, name in BODIES])
def test_body_is_the_one_that_the_vendors_types_accept(wire: Any, name: str) -> None:
    expected = golden(f"bodies-{wire}")["bodies"][name]
    assert expected["verdict"] == "valid"
    assert to_builtins(load_wire(wire).body(requests(wire)[name], target(wire))) == expected["body"]
