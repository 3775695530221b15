"""Sessions, messages and changed files, for Crush's clients."""

from __future__ import annotations

import os.path
from typing import Any

from holdfast.crush.crush_bodies import AnyBody, AnyQuery, TitleBody
from holdfast.crush.crush_face import CrushFace
from holdfast.crush.crush_workspaces import EMPTY, WORKSPACE
from holdfast.crush.diff_contents import contents_of_diff
from holdfast.crush.message_translation import message_body, seconds_of, session_body
from holdfast.schema.api.request_bodies import SessionsQuery
from holdfast.schema.messages import Message, Text
from holdfast.server.http.endpoint import ApiRequest, Endpoint
from holdfast.server.http.responses import RawResponse

_SESSIONS = 200
_HISTORY_SESSIONS = 20
"""Sessions whose prompts are listed for the whole workspace."""
_PLACEHOLDER_TITLES = frozenset({"New Session", "Untitled Session", "non-interactive"})
"""What Crush's clients call a session that has no title yet. It gets one from its first prompt."""
_NO_TIME = "0001-01-01T00:00:00Z"


class CrushSessions:
    def __init__(self, face: CrushFace) -> None:
        self._face = face

    def endpoints(self) -> tuple[Endpoint, ...]:
        session = f"{WORKSPACE}/sessions/{{session_id}}"
        return (
            Endpoint("GET", f"{WORKSPACE}/sessions", self.list_sessions),
            Endpoint("POST", f"{WORKSPACE}/sessions", self.create, body=TitleBody),
            Endpoint("GET", session, self.get),
            Endpoint("PUT", session, self.rename, body=TitleBody),
            Endpoint("DELETE", session, self.delete, body=AnyBody),
            Endpoint("GET", f"{session}/history", self.history),
            Endpoint("GET", f"{session}/messages", self.messages),
            Endpoint("GET", f"{session}/messages/user", self.user_messages),
            Endpoint("GET", f"{WORKSPACE}/messages/user", self.all_user_messages),
            Endpoint("GET", f"{session}/filetracker/files", self.read_files),
            Endpoint("POST", f"{WORKSPACE}/filetracker/read", self.record_read, body=AnyBody),
            Endpoint("GET", f"{WORKSPACE}/filetracker/lastread", self.last_read, query=AnyQuery),
        )

    async def list_sessions(self, request: ApiRequest[None, Any]) -> list[dict[str, Any]]:
        """List the sessions of a workspace, the one prompted last first."""
        found = await self._face.services.sessions.list_sessions(
            request.path["workspace_id"], SessionsQuery(limit=_SESSIONS)
        )
        return [session_body(session) for session in found.items]

    async def create(self, request: ApiRequest[TitleBody, Any]) -> dict[str, Any]:
        """Create an empty session."""
        title = "" if request.body.title in _PLACEHOLDER_TITLES else request.body.title
        created = await self._face.services.sessions.create(request.path["workspace_id"], title=title)
        return session_body(created)

    async def get(self, request: ApiRequest[None, Any]) -> dict[str, Any]:
        """Get a session."""
        return await self._face.session(request.path["session_id"])

    async def rename(self, request: ApiRequest[TitleBody, Any]) -> dict[str, Any]:
        """Rename a session. Nothing else of it can be changed."""
        session_id = request.path["session_id"]
        await self._face.services.sessions.change(session_id, title=request.body.title)
        return await self._face.session(session_id)

    async def delete(self, request: ApiRequest[AnyBody, Any]) -> RawResponse:
        """Delete a session. Its runs are cancelled first."""
        await self._face.services.sessions.delete(request.path["session_id"])
        return EMPTY

    async def history(self, request: ApiRequest[None, Any]) -> list[dict[str, Any]]:
        """The files that were changed: the text before the first change and after the last."""
        session_id = request.path["session_id"]
        directory = await self._face.directory(request.path["workspace_id"])
        changes = await self._face.services.sessions.changes(session_id)
        at = seconds_of(changes.runs[-1].at) if changes.runs else 0
        return [
            {
                "id": f"{session_id}:{version}:{change.path}",
                "session_id": session_id,
                "path": os.path.join(directory, change.path),
                "content": content,
                "version": version,
                "created_at": at,
                "updated_at": at,
            }
            for change in changes.items
            if change.state != "undone"
            for version, content in enumerate(contents_of_diff(change.diff))
        ]

    async def messages(self, request: ApiRequest[None, Any]) -> list[Any]:
        """List the messages of a session, with the text of answers that are being written."""
        session_id = request.path["session_id"]
        if "$$" in session_id:  # a sub-agent's session by Crush's name for it
            return []
        return [message_body(message) for message in await self._face.all_messages(session_id)]

    async def user_messages(self, request: ApiRequest[None, Any]) -> list[Any]:
        """List the prompts of a session, newest first."""
        return _prompts(await self._face.all_messages(request.path["session_id"]))

    async def all_user_messages(self, request: ApiRequest[None, Any]) -> list[Any]:
        """List the prompts of the last sessions, newest first."""
        query = SessionsQuery(limit=_HISTORY_SESSIONS)
        found = await self._face.services.sessions.list_sessions(request.path["workspace_id"], query)
        return [one for session in found.items for one in _prompts(await self._face.all_messages(session.id))]

    async def read_files(self, request: ApiRequest[None, Any]) -> list[str]:
        """Files that were read are not told: Holdfast keeps them with the session."""
        return []

    async def record_read(self, request: ApiRequest[AnyBody, Any]) -> RawResponse:
        """Nothing: tools record what they read."""
        return EMPTY

    async def last_read(self, request: ApiRequest[None, AnyQuery]) -> str:
        """Never, see `read_files`."""
        return _NO_TIME


def _prompts(messages: list[Message]) -> list[Any]:
    return [
        message_body(message)
        for message in reversed(messages)
        if message.role == "user" and any(isinstance(part, Text) for part in message.parts)
    ]
