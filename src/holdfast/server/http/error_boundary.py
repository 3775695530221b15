"""The outermost layer: whatever happens inside, the caller hears it in one shape, and never what it should not hear."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, MutableMapping
from typing import Any

from holdfast.errors import HoldfastError, InternalError, ServerStopping, Unauthorized
from holdfast.server.http.endpoint import Responder
from holdfast.server.http.request_parsing import ClientLeft, Receive
from holdfast.server.http.responses import JSON, Header, Reply, Scope, Send, error_reply, send_bytes

_logger = logging.getLogger(__name__)

_EXPECTED_5XX = frozenset({502, 503, 507})
"""Not our faults: a provider said no, the server stops, the disk is full."""


class Faults:
    """An ASGI application around another one (`W9`)."""

    def __init__(self, app: Responder, *, is_stopping: Callable[[], bool], redact: Callable[[bytes], bytes]) -> None:
        self._app = app
        self._is_stopping = is_stopping
        self._redact = redact

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def watched(message: MutableMapping[str, Any]) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except ClientLeft:
            return
        except HoldfastError as error:
            reply = _known(error, scope)
        except asyncio.CancelledError as error:
            reply = self._cancelled(error, scope)
        except Exception as error:  # noqa: BLE001 - the last place that can tell the caller anything
            reply = _fault(error, scope)
        else:
            return
        if started:
            raise ConnectionAbortedError("the answer had begun when it failed; the connection is closed")
        await send_bytes(send, reply.status, self._redact(reply.body()), headers=(JSON, *reply.headers))

    def _cancelled(self, error: asyncio.CancelledError, scope: Scope) -> Reply:
        """Nobody cancels a handler because its caller left; so it is our stop, or our fault."""
        if self._is_stopping():
            return error_reply(ServerStopping("the server is stopping; try again when it is back"))
        return _fault(error, scope)


def _known(error: HoldfastError, scope: Scope) -> Reply:
    if error.status >= 500 and error.status not in _EXPECTED_5XX:
        return _fault(error, scope, said=error)
    headers: tuple[Header, ...] = ()
    if isinstance(error, Unauthorized):
        headers = ((b"www-authenticate", b"Bearer"),)
    elif error.status == 413:
        headers = ((b"connection", b"close"),)
    return error_reply(error, headers=headers)


def _fault(error: BaseException, scope: Scope, *, said: HoldfastError | None = None) -> Reply:
    fault_id = f"flt_{secrets.token_hex(8)}"
    _logger.error("%s: %s %s failed", fault_id, scope["method"], scope["path"], exc_info=error)
    if said is None:
        said = InternalError("something went wrong in the server; its log says more under this id")
    return error_reply(type(said)(said.message, code=said.error_code, detail={**said.detail, "id": fault_id}))
