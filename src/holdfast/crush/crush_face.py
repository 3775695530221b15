"""What the routes for Crush's clients share: the services, what clients chose, and bodies made of several reads."""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast.crush.config_translation import config_body
from holdfast.crush.crush_clients import CrushClients, WorkspaceChoices
from holdfast.crush.message_translation import session_body
from holdfast.schema.api.request_bodies import MessagesQuery
from holdfast.schema.api.response_bodies import ModelsView
from holdfast.schema.messages import Message
from holdfast.schema.runs import Run
from holdfast.services import Services

_MODELS_SECONDS = 5.0
_LAST_MESSAGES = 20
_PAGE = 200
MAX_PAGES = 50


class CrushFace:
    """The state of the face. It belongs to one server."""

    def __init__(self, services: Services, *, data_directory: str) -> None:
        self.services = services
        self.clients = CrushClients()
        self._data_directory = data_directory
        self._paths: dict[str, str] = {}
        self._models: dict[str, tuple[float, ModelsView]] = {}

    async def directory(self, workspace_id: str) -> str:
        """The directory of a workspace. Raises `NotFound`."""
        if workspace_id not in self._paths:
            self._paths[workspace_id] = (await self.services.workspaces.view(workspace_id)).path
        return self._paths[workspace_id]

    async def models(self, workspace_id: str) -> ModelsView:
        """The models; kept for a moment, because the client asks often and local model servers are looked for."""
        now = asyncio.get_running_loop().time()
        kept = self._models.get(workspace_id)
        if kept is None or now - kept[0] > _MODELS_SECONDS:
            kept = self._models[workspace_id] = now, await self.services.settings.models(workspace_id)
        return kept[1]

    def forget_models(self) -> None:
        self._models.clear()

    async def workspace_body(self, workspace_id: str) -> dict[str, Any]:
        directory = await self.directory(workspace_id)
        choices = self.clients.choices(workspace_id)
        return {
            "id": workspace_id,
            "path": directory,
            "yolo": choices.skips_permissions,
            "data_dir": self._data_directory,
            "config": await self.config(workspace_id, choices),
        }

    async def config(self, workspace_id: str, choices: WorkspaceChoices) -> dict[str, Any]:
        models = await self.models(workspace_id)
        return config_body(
            models,
            large=choices.large or models.large,
            small=choices.small or models.small,
            data_directory=self._data_directory,
            options=choices.options,
        )

    async def session(self, session_id: str) -> dict[str, Any]:
        """A session with its task list and the usage of its last step."""
        view = await self.services.sessions.view(session_id)
        last = await self.last_messages(session_id)
        step = next((message.usage for message in reversed(last) if message.usage is not None), None)
        return session_body(view, todos=view.todos, last_step=step, message_count=last[-1].seq if last else 0)

    async def last_messages(self, session_id: str) -> tuple[Message, ...]:
        query = MessagesQuery(before="end", limit=_LAST_MESSAGES)
        return (await self.services.sessions.list_messages(session_id, query)).items

    async def find_message(self, session_id: str, message_id: str) -> Message | None:
        """A message that is being written. It is one of the last."""
        return next((one for one in await self.last_messages(session_id) if one.id == message_id), None)

    async def all_messages(self, session_id: str) -> list[Message]:
        """All messages of a session, in order."""
        found: list[Message] = []
        after: str | None = None
        while True:
            page = await self.services.sessions.list_messages(session_id, MessagesQuery(limit=_PAGE, after=after))
            found.extend(page.items)
            if page.next is None:
                return found
            after = page.next

    async def queue(self, session_id: str) -> list[Run]:
        """The prompts of a session that have not started, in the order in which they start."""
        page = await self.services.runs.list_runs(session_id, limit=_PAGE, states=("queued", "waiting"))
        return sorted(page.items, key=lambda run: (run.state == "queued", run.rank, run.seq))
