"""Tools that a client attaches to a session, and the results of their calls (`W13`)."""

from __future__ import annotations

from holdfast.errors import BadRequest, Conflict, Forbidden, Gone, NotFound
from holdfast.schema.api.request_bodies import ClientResultBody, ClientToolsBody, NoParameters
from holdfast.schema.api.response_bodies import PageView
from holdfast.schema.client_tools import ClientCall, ClientTools
from holdfast.server.http.endpoint import KIB, ApiRequest, Endpoint


async def attach_tools(request: ApiRequest[ClientToolsBody, NoParameters]) -> ClientTools:
    """Attach all tools that this client executes for a session. They are gone when the client is gone."""
    return await request.services.client_tools.attach(request.path["session_id"], request.body, caller=request.caller)


async def list_tools(request: ApiRequest[None, NoParameters]) -> PageView[ClientTools]:
    """List the tools that clients have attached to a session."""
    return await request.services.client_tools.list_tools(request.path["session_id"])


async def answer_call(request: ApiRequest[ClientResultBody, NoParameters]) -> ClientCall:
    """Give the result of a call that this client has executed. The first result counts; a later one gets `409`."""
    return request.services.client_tools.answer(request.path["client_call_id"], request.body, caller=request.caller)


_TOOLS = "/v1/sessions/{session_id}/tools"
_UNKNOWN = (NotFound, Gone)

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        *("PUT", _TOOLS, attach_tools),
        body=ClientToolsBody,
        max_body_bytes=1024 * KIB,
        response=ClientTools,
        errors=(*_UNKNOWN, BadRequest, Conflict),
        needs_client_id=True,
        stores_answer=False,  # a server that was started again must do it again
    ),
    Endpoint("GET", _TOOLS, list_tools, response=PageView[ClientTools], errors=_UNKNOWN),
    Endpoint(
        *("POST", "/v1/client-calls/{client_call_id}", answer_call),
        body=ClientResultBody,
        max_body_bytes=32 * 1024 * KIB,
        response=ClientCall,
        errors=(*_UNKNOWN, Conflict, Forbidden),
        stores_answer=False,
    ),
)
