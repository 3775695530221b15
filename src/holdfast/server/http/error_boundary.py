"""The outermost ASGI application: every error becomes a response with an error body (`W9`)."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, MutableMapping
from typing import Any

from holdfast.errors import (
    CommitRefused,
    HoldfastError,
    InternalError,
    OutOfDescriptors,
    ServerStopping,
    Unauthorized,
    WorkspaceElsewhere,
)
from holdfast.files import is_out_of_descriptors
from holdfast.server.http.request_parsing import ClientDisconnected, Receive
from holdfast.server.http.responses import AsgiApp, Header, JsonResponse, Scope, Send, error_response, send_response

_logger = logging.getLogger(__name__)

_EXPECTED_5XX = frozenset({502, 503, 507})
"""Not bugs: a provider refused, the server is stopping, the disk is full."""
_RETRY_AFTER = b"2"
"""Seconds until a commit that the database refused may succeed, or another server has replaced an owner."""


class ErrorBoundary:
    """Bugs get an id that is also in the log; their details stay in the log."""

    def __init__(
        self,
        app: AsgiApp,
        *,
        is_stopping: Callable[[], bool],
        redact: Callable[[bytes], bytes],
        translate: Callable[[JsonResponse], JsonResponse] | None = None,
    ) -> None:
        """``translate`` gives errors the form of another protocol."""
        self._app = app
        self._is_stopping = is_stopping
        self._redact = redact
        self._translate = translate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def noting_start(message: MutableMapping[str, Any]) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, noting_start)
        except ClientDisconnected:
            return
        except HoldfastError as error:
            response = _out_of_descriptors(error, scope) or _expected(error, scope)
        except asyncio.CancelledError as error:
            response = self._cancelled(error, scope)
        except Exception as error:  # noqa: BLE001 - the last place that can answer the client
            response = _out_of_descriptors(error, scope) or _bug(error, scope)
        else:
            return
        if started:
            raise ConnectionAbortedError("the response failed after it had started; the connection is closed")
        if self._translate is not None:
            response = self._translate(response)
        await send_response(send, response, redact=self._redact)

    def _cancelled(self, error: asyncio.CancelledError, scope: Scope) -> JsonResponse:
        """A disconnect does not cancel a handler: it was cancelled by the stop of the server, or by a bug."""
        if self._is_stopping():
            return error_response(ServerStopping("the server is stopping; try again when it is back"))
        return _bug(error, scope)


def _out_of_descriptors(error: Exception, scope: Scope) -> JsonResponse | None:
    """An error that comes from the limit of open files is the server's, whatever it looks like."""
    if not is_out_of_descriptors(error):
        return None
    _logger.error("%s %s failed: too many open files", scope["method"], scope["path"])
    return error_response(
        OutOfDescriptors(
            "the server has too many open files; try again later, close some clients, or raise the limit of open files "
            "(`ulimit -n`) and restart it"
        )
    )


def _expected(error: HoldfastError, scope: Scope) -> JsonResponse:
    if error.status >= 500 and error.status not in _EXPECTED_5XX:
        return _bug(error, scope, shown=error)
    headers: tuple[Header, ...] = ()
    if isinstance(error, Unauthorized):
        headers = ((b"www-authenticate", b"Bearer"),)
    elif error.status == 413:
        headers = ((b"connection", b"close"),)
    elif isinstance(error, CommitRefused | WorkspaceElsewhere):
        headers = ((b"retry-after", _RETRY_AFTER),)
    return error_response(error, headers=headers)


def _bug(error: BaseException, scope: Scope, *, shown: HoldfastError | None = None) -> JsonResponse:
    log_id = f"flt_{os.urandom(8).hex()}"
    _logger.error("%s: %s %s failed", log_id, scope["method"], scope["path"], exc_info=error)
    if shown is None:
        shown = InternalError("the server failed to handle this request; find this id in its log")
    return error_response(type(shown)(shown.message, code=shown.error_code, detail={**shown.detail, "id": log_id}))
