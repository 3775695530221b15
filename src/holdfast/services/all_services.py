"""The services of one server, and how they are made from its parts."""

from __future__ import annotations

import msgspec

from holdfast.config import SecretStore
from holdfast.runs import Engine
from holdfast.services.approval_service import ApprovalService
from holdfast.services.audit_service import AuditService
from holdfast.services.client_tool_service import ClientToolService
from holdfast.services.device_service import DeviceService
from holdfast.services.event_service import EventService
from holdfast.services.extension_service import ExtensionService
from holdfast.services.idempotency import IdempotencyKeys
from holdfast.services.language_server_service import LanguageServerService
from holdfast.services.mcp_service import McpService
from holdfast.services.memory_service import MemoryService
from holdfast.services.people_service import PeopleService
from holdfast.services.presence import Presence
from holdfast.services.run_service import RunService
from holdfast.services.server_service import ServerService
from holdfast.services.server_state import ServerState
from holdfast.services.session_service import SessionService
from holdfast.services.setting_service import SettingService
from holdfast.services.web_service import WebService
from holdfast.services.workspace_reach import WorkspaceDirectories, WorkspaceReach
from holdfast.services.workspace_service import WorkspaceService
from holdfast.workspace.open_workspace import OpenWorkspaces


class Services(msgspec.Struct, frozen=True, kw_only=True):
    state: ServerState
    presence: Presence
    idempotency: IdempotencyKeys
    workspaces: WorkspaceService
    sessions: SessionService
    runs: RunService
    approvals: ApprovalService
    client_tools: ClientToolService
    events: EventService
    settings: SettingService
    memory: MemoryService
    extensions: ExtensionService
    language_servers: LanguageServerService
    mcp: McpService
    devices: DeviceService
    people: PeopleService
    audit: AuditService
    workspace_paths: WorkspaceDirectories
    web: WebService
    server: ServerService

    async def reach(self, directories: tuple[str, ...]) -> WorkspaceReach:
        """What somebody may see who may use only these directories."""
        await self.workspace_paths.load()
        return WorkspaceReach(directories, store=self.workspaces.store, paths=self.workspace_paths)


def make_services(
    open_workspaces: OpenWorkspaces,
    engine: Engine,
    secrets: SecretStore,
    *,
    max_streams: int,
    keep_events: float,
    keep_audit: float,
    build: str,
) -> Services:
    shared = open_workspaces.shared
    store, hub = shared.store, shared.hub
    state = ServerState()
    presence = Presence(hub, new_id=lambda: shared.ids.new("cli"), on_change=shared.client_calls.note_streams)
    paths = WorkspaceDirectories(store)
    workspaces = WorkspaceService(open_workspaces, engine, presence=presence, state=state, paths=paths)
    devices = DeviceService(store, hub, ids=shared.ids, clock=shared.clock)
    return Services(
        state=state,
        presence=presence,
        idempotency=IdempotencyKeys(store, now=shared.now),
        workspaces=workspaces,
        sessions=SessionService(open_workspaces, engine, presence=presence, workspaces=workspaces),
        runs=RunService(store, hub, engine, workspaces=workspaces, state=state, redact=shared.redact),
        approvals=ApprovalService(store, hub, shared.approvals),
        client_tools=ClientToolService(shared, presence),
        events=EventService(store, hub, presence, state=state, max_streams=max_streams),
        settings=SettingService(shared, workspaces, secrets),
        memory=MemoryService(shared),
        extensions=ExtensionService(workspaces, hub),
        language_servers=LanguageServerService(workspaces),
        mcp=McpService(workspaces, shared.store),
        devices=devices,
        people=PeopleService(store, hub, devices, clock=shared.clock),
        workspace_paths=paths,
        audit=AuditService(store, hub, ids=shared.ids, redact=shared.redact),
        web=WebService(shared.locations.web_file),
        server=ServerService(
            shared,
            engine,
            workspaces=workspaces,
            presence=presence,
            state=state,
            keep_events=keep_events,
            keep_audit=keep_audit,
            build=build,
            sandbox=shared.launcher.sandbox,
        ),
    )
