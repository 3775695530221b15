"""The services of one server, and how they are made from its parts."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from holdfast.config import SecretStore
from holdfast.runs import Engine
from holdfast.services.approval_service import ApprovalService
from holdfast.services.audit_service import AuditService
from holdfast.services.device_service import DeviceService
from holdfast.services.event_service import EventService
from holdfast.services.idempotency import IdempotencyKeys
from holdfast.services.people_service import PeopleService
from holdfast.services.presence import Presence
from holdfast.services.run_service import RunService
from holdfast.services.server_metrics import ServerMetrics
from holdfast.services.server_service import ServerService
from holdfast.services.server_state import ServerState
from holdfast.services.session_service import SessionService
from holdfast.services.web_service import WebService
from holdfast.services.workspace_reach import WorkspaceDirectories, WorkspaceReach
from holdfast.services.workspace_service import WorkspaceService
from holdfast.workspace.open_workspaces import OpenWorkspaces

if TYPE_CHECKING:
    from holdfast.services.client_tool_service import ClientToolService
    from holdfast.services.extension_service import ExtensionService
    from holdfast.services.fleet_service import FleetReader, FleetService
    from holdfast.services.language_server_service import LanguageServerService
    from holdfast.services.mcp_service import McpService
    from holdfast.services.memory_service import MemoryService
    from holdfast.services.run_traces import RunTraces
    from holdfast.services.setting_service import SettingService
    from holdfast.services.workspace_ownership import WorkspaceOwnership


class Services:
    """Those that no prompt needs are imported and made at their first use."""

    def __init__(
        self,
        open_workspaces: OpenWorkspaces,
        engine: Engine,
        secrets: SecretStore,
        *,
        max_streams: int,
        keep_events: float,
        keep_audit: float,
        build: str,
        traces: RunTraces | None = None,
        ownership: WorkspaceOwnership | None = None,
        fleet: FleetReader | None = None,
    ) -> None:
        shared = self._shared = open_workspaces.shared
        self._secrets = secrets
        self._engine = engine
        self._fleet_reader = fleet
        store, hub = shared.store, shared.hub
        self.state = ServerState()
        self.presence = Presence(hub, new_id=lambda: shared.ids.new("cli"), on_change=shared.client_calls.note_streams)
        self.idempotency = IdempotencyKeys(store, now=shared.now)
        self.workspace_paths = WorkspaceDirectories(store)
        self.workspaces = WorkspaceService(
            open_workspaces,
            engine,
            presence=self.presence,
            state=self.state,
            paths=self.workspace_paths,
            ownership=ownership,
        )
        self.sessions = SessionService(open_workspaces, engine, presence=self.presence, workspaces=self.workspaces)
        self.runs = RunService(store, hub, engine, workspaces=self.workspaces, state=self.state, redact=shared.redact)
        self.approvals = ApprovalService(store, hub, shared.approvals)
        self.events = EventService(store, hub, self.presence, state=self.state, max_streams=max_streams)
        self.devices = DeviceService(store, hub, ids=shared.ids, clock=shared.clock)
        self.people = PeopleService(store, hub, self.devices, clock=shared.clock)
        self.audit = AuditService(store, hub, ids=shared.ids, redact=shared.redact)
        self.metrics = ServerMetrics(store, hub, engine)
        self.traces = traces
        self.web = WebService(shared.locations.web_file)
        self.server = ServerService(
            shared,
            engine,
            workspaces=self.workspaces,
            presence=self.presence,
            state=self.state,
            keep_events=keep_events,
            keep_audit=keep_audit,
            build=build,
        )

    @cached_property
    def fleet(self) -> FleetService:
        from holdfast.services.fleet_service import FleetService

        return FleetService(self._engine, self.presence, self._fleet_reader)

    @cached_property
    def settings(self) -> SettingService:
        from holdfast.services.setting_service import SettingService

        return SettingService(self._shared, self.workspaces, self._secrets)

    @cached_property
    def client_tools(self) -> ClientToolService:
        from holdfast.services.client_tool_service import ClientToolService

        return ClientToolService(self._shared, self.presence)

    @cached_property
    def memory(self) -> MemoryService:
        from holdfast.services.memory_service import MemoryService

        return MemoryService(self._shared)

    @cached_property
    def extensions(self) -> ExtensionService:
        from holdfast.services.extension_service import ExtensionService

        return ExtensionService(self.workspaces, self._shared.hub)

    @cached_property
    def language_servers(self) -> LanguageServerService:
        from holdfast.services.language_server_service import LanguageServerService

        return LanguageServerService(self.workspaces)

    @cached_property
    def mcp(self) -> McpService:
        from holdfast.services.mcp_service import McpService

        return McpService(self.workspaces, self._shared.store)

    def load(self) -> None:
        """Import and make all. Blocks."""
        import random  # noqa: F401 - the first new code uses it

        from holdfast.services import session_export  # noqa: F401 - the first export uses it

        _ = (self.settings, self.client_tools, self.memory, self.extensions, self.language_servers, self.mcp)

    async def reach(self, directories: tuple[str, ...]) -> WorkspaceReach:
        """What a person with only these directories may see."""
        await self.workspace_paths.load()
        return WorkspaceReach(directories, store=self.workspaces.store, paths=self.workspace_paths)
