"""The scope that each route needs (`W8`). The server cannot be imported if a route is missing here.

``watch`` reads; ``answer`` decides approvals and questions; ``drive`` does what a person at the keyboard does in a
session; ``admin`` changes settings, keys, trust and devices. The private socket and the server's own token are `admin`.
"""

from __future__ import annotations

from typing import Final

from holdfast.schema.devices import AccessScope
from holdfast.server.http.endpoint import Endpoint

_WORKSPACE = "/v1/workspaces/{workspace_id}"
_SESSION = "/v1/sessions/{session_id}"

ROUTE_SCOPES: Final[dict[str, AccessScope]] = {
    "GET /v1/health": "watch",
    "GET /v1/openapi.json": "watch",
    "POST /v1/pairing": "watch",
    "GET /v1/device": "watch",
    "DELETE /v1/device": "watch",
    "GET /v1/events": "watch",
    f"GET {_WORKSPACE}/events": "watch",
    "GET /v1/server": "watch",
    "GET /v1/server/sandbox": "watch",
    "GET /v1/ids": "watch",
    "GET /v1/stats": "watch",
    "GET /metrics": "watch",
    "GET /v1/fleet": "watch",
    "GET /v1/search": "watch",
    "GET /v1/models": "watch",
    "GET /v1/config/schema": "watch",
    "GET /v1/workspaces": "watch",
    f"GET {_WORKSPACE}": "watch",
    f"GET {_WORKSPACE}/clients": "watch",
    f"GET {_WORKSPACE}/grants": "watch",
    f"GET {_WORKSPACE}/files": "watch",
    f"GET {_WORKSPACE}/repository": "watch",
    f"GET {_WORKSPACE}/diff": "watch",
    f"GET {_WORKSPACE}/context": "watch",
    f"GET {_WORKSPACE}/agents": "watch",
    f"GET {_WORKSPACE}/commands": "watch",
    f"GET {_WORKSPACE}/memory": "watch",
    f"GET {_WORKSPACE}/config": "watch",
    f"GET {_WORKSPACE}/language-servers/{{name}}/log": "watch",
    f"GET {_WORKSPACE}/jobs": "watch",
    f"GET {_WORKSPACE}/sessions": "watch",
    f"GET {_WORKSPACE}/approvals": "watch",
    f"GET {_WORKSPACE}/questions": "watch",
    "GET /v1/approvals/{approval_id}": "watch",
    "GET /v1/questions/{question_id}": "watch",
    "GET /v1/jobs/{job_id}": "watch",
    "GET /v1/jobs/{job_id}/output": "watch",
    "GET /v1/calls/{call_id}/output": "watch",
    "GET /v1/runs/{run_id}": "watch",
    f"GET {_SESSION}": "watch",
    f"GET {_SESSION}/messages": "watch",
    f"GET {_SESSION}/runs": "watch",
    f"GET {_SESSION}/changes": "watch",
    f"GET {_SESSION}/undo": "watch",
    f"GET {_SESSION}/export": "watch",
    f"GET {_SESSION}/tools": "watch",
    f"GET {_SESSION}/mcp": "watch",
    # Answers. A rule for all workspaces is a setting, so its route asks for more.
    "POST /v1/approvals/{approval_id}": "answer",
    "POST /v1/questions/{question_id}": "answer",
    # The work of a session, and reads that start programs.
    "POST /v1/workspaces": "drive",
    f"DELETE {_WORKSPACE}": "drive",
    f"GET {_WORKSPACE}/extensions": "drive",
    f"GET {_WORKSPACE}/mcp/{{name}}": "drive",
    f"POST {_WORKSPACE}/mcp/{{name}}/restart": "drive",
    f"POST {_WORKSPACE}/language-servers/{{name}}/restart": "drive",
    f"GET {_WORKSPACE}/mentions": "drive",
    f"POST {_WORKSPACE}/memory": "drive",
    f"DELETE {_WORKSPACE}/memory": "drive",
    f"POST {_WORKSPACE}/sessions": "drive",
    f"POST {_WORKSPACE}/runs": "drive",
    f"PATCH {_SESSION}": "drive",
    f"DELETE {_SESSION}": "drive",
    f"POST {_SESSION}/runs": "drive",
    f"POST {_SESSION}/cancel": "drive",
    f"POST {_SESSION}/pause": "drive",
    f"POST {_SESSION}/resume": "drive",
    f"POST {_SESSION}/shell": "drive",
    f"POST {_SESSION}/compact": "drive",
    f"POST {_SESSION}/accept-plan": "drive",
    f"POST {_SESSION}/undo": "drive",
    f"POST {_SESSION}/redo": "drive",
    f"POST {_SESSION}/fork": "drive",
    f"PUT {_SESSION}/tools": "drive",
    "POST /v1/client-calls/{client_call_id}": "drive",
    "PATCH /v1/runs/{run_id}": "drive",
    "POST /v1/runs/{run_id}/cancel": "drive",
    "POST /v1/jobs/{job_id}/kill": "drive",
    # Settings, keys, trust, devices, and the server itself.
    f"PUT {_SESSION}/mcp": "admin",
    f"POST {_WORKSPACE}/trust": "admin",
    f"DELETE {_WORKSPACE}/grants": "admin",
    f"PATCH {_WORKSPACE}/config": "admin",
    f"POST {_WORKSPACE}/mcp/{{name}}/login": "admin",
    f"POST {_WORKSPACE}/mcp/{{name}}/login/answer": "admin",
    f"DELETE {_WORKSPACE}/mcp/{{name}}/login": "admin",
    "PUT /v1/providers/{provider}/key": "admin",
    "POST /v1/providers/{provider}/test": "admin",
    "POST /v1/pairing/codes": "admin",
    "GET /v1/devices": "admin",
    "PATCH /v1/devices/{device_id}": "admin",
    "DELETE /v1/devices/{device_id}": "admin",
    "GET /v1/people": "admin",
    "POST /v1/people": "admin",
    "PATCH /v1/people/{name}": "admin",
    "DELETE /v1/people/{name}": "admin",
    "POST /v1/people/{name}/tokens": "admin",
    "GET /v1/audit": "admin",
    "GET /v1/web": "admin",
    "POST /v1/web": "admin",
    "DELETE /v1/web": "admin",
    "POST /v1/server/stop": "admin",
    "POST /v1/server/backup": "admin",
    "POST /v1/server/clean-up": "admin",
}


def route_scope(endpoint: Endpoint) -> AccessScope:
    """The scope that a route needs."""
    try:
        return ROUTE_SCOPES[f"{endpoint.method} {endpoint.path}"]
    except KeyError:
        raise AssertionError(
            f"{endpoint.method} {endpoint.path} has no scope; add it to ROUTE_SCOPES in server/route_scopes.py"
        ) from None
