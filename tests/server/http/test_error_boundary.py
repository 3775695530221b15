"""Errors become error bodies; bugs get an id and show no details (`W9`)."""

import asyncio
import errno
import logging
from collections.abc import MutableMapping
from typing import Any

import msgspec
import pytest

from holdfast.errors import (
    ConfigError,
    HoldfastError,
    ModelNetwork,
    NotFound,
    StoreDamaged,
    StoreUnwritable,
    TooLarge,
    Unauthorized,
)
from holdfast.server.http.error_boundary import ErrorBoundary
from holdfast.server.http.request_parsing import ClientDisconnected, Receive
from holdfast.server.http.responses import Scope, Send

SCOPE: Scope = {"type": "http", "method": "POST", "path": "/v1/x", "headers": []}


class Inside:
    """An application that fails on request."""

    def __init__(self, error: BaseException, *, begins: bool = False) -> None:
        self.error = error
        self.begins = begins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.begins:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        raise self.error


async def answered(inside: Inside, *, stopping: bool = False) -> tuple[int, dict[str, Any], dict[bytes, bytes]]:
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.disconnect"}

    faults = ErrorBoundary(
        inside, is_stopping=lambda: stopping, redact=lambda body: body.replace(b"sk-secret", b"[redacted]")
    )
    await faults(dict(SCOPE), receive, send)
    if not sent:
        return 0, {}, {}
    start, body = sent
    return start["status"], msgspec.json.decode(body["body"])["error"], dict(start["headers"])


@pytest.mark.promise("W9")
@pytest.mark.parametrize(
    ("error", "status"),
    [
        (NotFound("no such run", code="run_not_found", detail={"run_id": "r"}), 404),
        (StoreUnwritable("disk full"), 507),
        (ModelNetwork("unreachable"), 502),
    ],
)
async def test_an_expected_error_is_sent_with_its_status_and_code(error: HoldfastError, status: int) -> None:
    found, told, _ = await answered(Inside(error))
    assert found == status
    assert told == {"code": error.error_code, "message": error.message, "detail": error.detail}


async def test_401_names_the_scheme_and_413_closes_the_connection() -> None:
    _, _, headers = await answered(Inside(Unauthorized("token")))
    assert headers[b"www-authenticate"] == b"Bearer"
    _, _, headers = await answered(Inside(TooLarge("big")))
    assert headers[b"connection"] == b"close"


@pytest.mark.promise("W9")
async def test_a_bug_is_reported_by_an_id_that_is_also_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    status, told, _ = await answered(Inside(ValueError("inner detail of /home/somebody")))
    assert (status, told["code"]) == (500, "internal")
    assert "inner" not in str(told)
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert told["detail"]["id"] in record.getMessage()
    assert "inner detail" in caplog.text


async def test_a_damaged_database_is_reported_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    status, told, _ = await answered(Inside(StoreDamaged("the database is damaged")))
    assert (status, told["code"]) == (500, "store_damaged")
    assert told["detail"]["id"] in caplog.text


@pytest.mark.promise("W9")
async def test_a_cancelled_handler_is_an_internal_error_unless_the_server_stops(
    caplog: pytest.LogCaptureFixture,
) -> None:
    status, told, _ = await answered(Inside(asyncio.CancelledError()))
    assert (status, told["code"]) == (500, "internal")
    assert told["detail"]["id"] in caplog.text
    status, told, _ = await answered(Inside(asyncio.CancelledError()), stopping=True)
    assert (status, told["code"]) == (503, "stopping")


async def test_an_error_after_the_start_of_a_response_closes_the_connection() -> None:
    with pytest.raises(ConnectionAbortedError):
        await answered(Inside(ValueError("late"), begins=True))


async def test_a_disconnected_client_gets_no_response() -> None:
    assert await answered(Inside(ClientDisconnected())) == (0, {}, {})


@pytest.mark.promise("W8")
async def test_a_secret_in_an_error_message_is_redacted() -> None:
    _, told, _ = await answered(Inside(NotFound("no model for sk-secret")))
    assert told["message"] == "no model for [redacted]"


@pytest.mark.promise("W9")
@pytest.mark.parametrize("hidden", [True, False])
async def test_an_error_that_comes_from_the_limit_of_open_files_is_a_503(hidden: bool) -> None:
    cause = OSError(errno.EMFILE, "Too many open files")
    error: Exception = cause
    if hidden:
        error = ConfigError("cannot read 'config.toml'")
        error.__context__ = cause
        error.__suppress_context__ = True
    status, body, _ = await answered(Inside(error))
    assert (status, body["code"]) == (503, "no_descriptors")
