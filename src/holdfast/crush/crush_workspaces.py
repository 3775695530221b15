"""The server, workspaces, and the event stream, for Crush's clients."""

from __future__ import annotations

import platform
from typing import Any

from holdfast import __version__
from holdfast.crush.crush_bodies import (
    AnyBody,
    ClientQuery,
    ControlBody,
    CreateWorkspaceBody,
    CurrentSessionBody,
)
from holdfast.crush.crush_clients import caller_of, checked_client_id
from holdfast.crush.crush_face import CrushFace
from holdfast.crush.crush_stream import CrushStream
from holdfast.crush.event_translation import EventTranslator
from holdfast.errors import BadRequest, Conflict
from holdfast.events.stream_item import Cursor, parse_cursor
from holdfast.schema.client_variables import select_variables
from holdfast.schema.events import ApprovalRequested, QuestionAsked
from holdfast.server.http.endpoint import KIB, ApiRequest, Endpoint
from holdfast.server.http.responses import RawResponse

WORKSPACE = "/v1/workspaces/{workspace_id}"
EMPTY = RawResponse(b"")
_COMMANDS = ("shutdown", "shutdown_if_idle")
_REPEATED_EVENTS = 500
"""Events that a client gets again that was attached to an earlier server, which did not note where its stream ended."""


class CrushWorkspaces:
    def __init__(self, face: CrushFace) -> None:
        self._face = face

    def endpoints(self) -> tuple[Endpoint, ...]:
        return (
            Endpoint("GET", "/v1/health", self.health, public=True),
            Endpoint("GET", "/v1/version", self.version),
            Endpoint("GET", "/v1/config", self.server_config),
            Endpoint("POST", "/v1/control", self.control, body=ControlBody),
            Endpoint("DELETE", "/v1/clients/{client_id}", self.retire, body=AnyBody),
            Endpoint("GET", "/v1/workspaces", self.list_workspaces),
            Endpoint(*("POST", "/v1/workspaces", self.create), body=CreateWorkspaceBody, max_body_bytes=8 * 1024 * KIB),
            Endpoint("GET", WORKSPACE, self.get),
            Endpoint("DELETE", WORKSPACE, self.release, query=ClientQuery, body=AnyBody),
            Endpoint(
                *("POST", f"{WORKSPACE}/current-session", self.set_current_session),
                query=ClientQuery,
                body=CurrentSessionBody,
            ),
            Endpoint("GET", f"{WORKSPACE}/events", self.events, query=ClientQuery),
        )

    async def health(self, request: ApiRequest[None, Any]) -> RawResponse:
        """Check whether the server is up."""
        return EMPTY

    async def version(self, request: ApiRequest[None, Any]) -> dict[str, str]:
        """Name this server. It never equals a version of Crush, so a client then asks it to stop (see `control`)."""
        build = self._face.services.server.health().build
        return {
            "version": f"holdfast-{__version__}",
            "commit": "",
            "build_id": build or __version__,
            "go_version": "",
            "platform": f"{platform.system().lower()}/{platform.machine()}",
        }

    async def server_config(self, request: ApiRequest[None, Any]) -> dict[str, Any]:
        """Nothing, as in Crush."""
        return {}

    async def control(self, request: ApiRequest[ControlBody, Any]) -> None:
        """Refuse to stop for another program. A client that is refused uses the server as it is."""
        if request.body.command not in _COMMANDS:
            raise BadRequest(f"unknown command {request.body.command[:80]!r}")
        raise Conflict("this is Holdfast's server; stop it with 'holdfast stop'", code="server_busy")

    async def retire(self, request: ApiRequest[AnyBody, Any]) -> RawResponse:
        """Forget a client. Its runs go on."""
        self._face.clients.retire(checked_client_id(request.path["client_id"]))
        return EMPTY

    async def list_workspaces(self, request: ApiRequest[None, Any]) -> list[dict[str, Any]]:
        """List the open workspaces."""
        views = await self._face.services.workspaces.views()
        return [await self._face.workspace_body(view.id) for view in views if view.open]

    async def create(self, request: ApiRequest[CreateWorkspaceBody, Any]) -> dict[str, Any]:
        """Open a directory, or join its open workspace."""
        body, face = request.body, self._face
        client_id = checked_client_id(body.client_id)
        if not body.path:
            raise BadRequest("path is required", detail={"field": "path"})
        view, _ = await face.services.workspaces.open(body.path)
        face.clients.add(view.id, client_id)
        choices = face.clients.choices(view.id, skips_permissions=body.yolo)
        variables = dict(one.split("=", 1) for one in body.env or () if "=" in one)
        choices.environment = select_variables(variables, view.variables)
        return {**await face.workspace_body(view.id), "client_id": client_id}

    async def get(self, request: ApiRequest[None, Any]) -> dict[str, Any]:
        """Get a workspace."""
        return await self._face.workspace_body(request.path["workspace_id"])

    async def release(self, request: ApiRequest[AnyBody, ClientQuery]) -> RawResponse:
        """Give up a client's hold. The workspace stays open while it has work, and for a while after."""
        self._face.clients.release(request.path["workspace_id"], checked_client_id(request.query.client_id))
        return EMPTY

    async def set_current_session(self, request: ApiRequest[CurrentSessionBody, ClientQuery]) -> RawResponse:
        """Say which session a client shows."""
        workspace_id, client_id = request.path["workspace_id"], checked_client_id(request.query.client_id)
        await self._face.directory(workspace_id)
        for stream in self._face.clients.attached(workspace_id, client_id).streams:
            stream.show(request.body.session_id or None)
        return EMPTY

    async def events(self, request: ApiRequest[None, ClientQuery]) -> CrushStream:
        """Stream the events of a workspace, from where the client's last stream ended."""
        face, workspace_id = self._face, request.path["workspace_id"]
        client_id = checked_client_id(request.query.client_id)
        directory = await face.directory(workspace_id)
        await face.services.workspaces.configured(workspace_id)
        was_known = face.clients.is_known(workspace_id, client_id)
        client = face.clients.add(workspace_id, client_id)
        now = parse_cursor((await face.services.workspaces.view(workspace_id)).cursor)
        assert now is not None
        after = client.cursor
        if not was_known:
            after = str(Cursor(now.log_id, max(0, now.number - _REPEATED_EVENTS)))
        stream = await face.services.events.open_stream(caller_of(client_id), after=after, workspace_id=workspace_id)
        try:
            first = [] if stream.subscription.is_fresh else await self._open_requests(workspace_id)
        except BaseException:
            stream.close()
            raise
        return CrushStream(
            stream,
            client,
            EventTranslator(directory=directory, workspace_id=workspace_id),
            first=first,
            replayed_until=now.number if after is not None else 0,
            find_message=face.find_message,
            describe_session=face.session,
            redact=request.parts.redact,
        )

    async def _open_requests(self, workspace_id: str) -> list[ApprovalRequested | QuestionAsked]:
        """What waits for an answer. Crush has no way to list it."""
        approvals = (await self._face.services.approvals.list_open(workspace_id)).items
        questions = (await self._face.services.approvals.list_open_questions(workspace_id)).items
        return [
            *(ApprovalRequested(one.created_at, one.session_id, one) for one in approvals),
            *(QuestionAsked(one.created_at, one.session_id, one) for one in questions),
        ]
