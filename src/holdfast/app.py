"""The composition root: opens one server's parts in their order and closes them in the other."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from holdfast.approvals.pending_approvals import PendingApprovals
from holdfast.config import Keyring, Redactor, SecretStore, Settings, TrustStore, load_config
from holdfast.events import Hub, prune_periodically
from holdfast.ids import Clock, Ids, build_id
from holdfast.locations import Locations
from holdfast.models.model_factory import ModelFactory
from holdfast.models.model_script import ModelScript
from holdfast.runs import Engine, EngineLimits
from holdfast.services.session_service import SessionService
from holdfast.services.setting_service import SettingService
from holdfast.services.workspace_service import WorkspaceService
from holdfast.store import Store
from holdfast.store.sqlite import open_store
from holdfast.workspace.maintenance import mark_lost_jobs, remove_old_files
from holdfast.workspace.open_workspace import OpenWorkspaces, SharedParts
from holdfast.workspace.turn_factory import WorkspaceTurns
from holdfast.workspace.undo.blob_store import BlobStore

if TYPE_CHECKING:
    from holdfast.server import Listener


class App(msgspec.Struct, frozen=True, kw_only=True):
    """One server's parts, wired."""

    settings: Settings
    """The user's own, as they were at the start; what a workspace changes is its own."""
    store: Store
    hub: Hub
    engine: Engine
    approvals: PendingApprovals
    workspaces: WorkspaceService
    sessions: SessionService
    configuring: SettingService
    shared: SharedParts

    async def stop(self) -> None:
        """No new runs; what runs is interrupted and everything is written; bounded (`W5`)."""
        await self.engine.stop()


@asynccontextmanager
async def open_app(
    locations: Locations,
    env: Mapping[str, str],
    *,
    clock: Clock = time.time,
    scripts: Mapping[str, ModelScript] | None = None,
    limits: EngineLimits | None = None,
) -> AsyncIterator[App]:
    """Everything up to, but without, the sockets. What a crash left is ended before this is given out (`W6`)."""
    await asyncio.to_thread(locations.prepare)
    settings = (await asyncio.to_thread(load_config, locations, env=env)).settings
    async with AsyncExitStack() as closing:
        store = await open_store(locations.database)
        closing.push_async_callback(store.close)
        secrets = SecretStore(locations.secrets_file)
        keyring = Keyring(secrets, env=env)
        await keyring.learn(settings)
        scripts = scripts or await asyncio.to_thread(_scripts)
        models = ModelFactory(keyring, network=settings.network, scripts=scripts)
        closing.push_async_callback(models.aclose)
        hub = Hub(store, clock=clock, heartbeat_seconds=float(settings.server.heartbeat))
        closing.callback(hub.close)
        ids = Ids(clock=clock)
        book = _RuleBook(locations)

        async def save_rules(rules: tuple[str, ...]) -> None:
            await book.save(rules)
            await workspaces.tell_config_changed(("approvals.allow",))

        shared = SharedParts(
            store=store,
            hub=hub,
            approvals=PendingApprovals(store, ids=ids, clock=clock, save_rules=save_rules),
            keyring=keyring,
            models=models,
            trust=TrustStore(locations.trust_file),
            blobs=BlobStore(locations.snapshots_dir),
            locations=locations,
            env=env,
            ids=ids,
            clock=clock,
        )
        rooms = OpenWorkspaces(shared)
        closing.push_async_callback(rooms.close_all)
        engine = Engine(
            store, hub, WorkspaceTurns(rooms), ids=ids, clock=clock, limits=limits or _configured_limits(settings)
        )
        closing.push_async_callback(engine.stop)
        workspaces = WorkspaceService(rooms, engine)
        await engine.recover()
        await mark_lost_jobs(shared)
        for name, chore in (
            ("heartbeats", hub.send_heartbeats()),
            ("keep the log", prune_periodically(store, keep_seconds=float(settings.server.keep_events), clock=clock)),
            ("remove old files", remove_old_files(shared)),
        ):
            closing.push_async_callback(_end, asyncio.create_task(chore, name=name))
        yield App(
            settings=settings,
            store=store,
            hub=hub,
            engine=engine,
            approvals=shared.approvals,
            workspaces=workspaces,
            sessions=SessionService(shared),
            configuring=SettingService(shared, workspaces, secrets),
            shared=shared,
        )


def _configured_limits(settings: Settings) -> EngineLimits:
    return EngineLimits(unfinished_runs=settings.server.max_unfinished_runs, subagent_depth=settings.limits.agent_depth)


class Listening(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server listens besides its own socket, and who may speak to it there."""

    tcp: str | None = None
    """``host:port``."""
    allow_remote: bool = False
    token: str | None = None
    token_file: Path | None = None
    """Holds the token, or gets a new one."""


async def run_server(
    locations: Locations,
    env: Mapping[str, str],
    *,
    listening: Listening | None = None,
    idle_exit: bool = False,
    ready: Callable[[tuple[str, ...]], None] | None = None,
) -> None:
    """A whole server that owns its process, until it is stopped. ``ready`` is told the addresses it got."""
    from holdfast.server import ServerLimits, ServerParts, hide_process, listen_unix, logging_to, serve

    hide_process()
    opened: list[App] = []

    def redactor() -> Redactor:
        return opened[0].shared.keyring.redactor if opened else Redactor()

    await asyncio.to_thread(locations.prepare)
    with logging_to(locations.logs_dir, redactor=redactor):
        async with open_app(locations, env) as app:
            opened.append(app)
            listeners = await asyncio.to_thread(_tcp, listening or Listening())
            listeners.append(await asyncio.to_thread(listen_unix, locations.socket))
            settings = app.settings.server
            parts = ServerParts(
                store=app.store,
                hub=app.hub,
                engine=app.engine,
                approvals=app.approvals,
                workspaces=app.workspaces,
                sessions=app.sessions,
                configuring=app.configuring,
                redactor=redactor,
                clock=app.shared.clock,
                ids=app.shared.ids,
                build=await asyncio.to_thread(build_id),
                limits=ServerLimits(streams=settings.max_streams),
            )
            await serve(
                parts,
                listeners,
                linger=float(settings.linger),
                idle_exit=idle_exit,
                ready=lambda: ready(tuple(str(listener) for listener in listeners)) if ready else None,
                owns_process=True,
            )


def _tcp(listening: Listening) -> list[Listener]:
    from holdfast.server import checked_token, listen_tcp, parse_listen, token_from_file

    if listening.tcp is None:
        return []
    address = parse_listen(listening.tcp, allow_remote=listening.allow_remote)
    if listening.token is not None:
        token = checked_token(listening.token)
    else:
        assert listening.token_file is not None
        token = token_from_file(listening.token_file)
    return [listen_tcp(address, token=token)]


def serve_until_stopped(
    locations: Locations,
    env: Mapping[str, str],
    *,
    listening: Listening,
    idle_exit: bool,
    ready: Callable[[tuple[str, ...]], None],
) -> None:
    """`run_server` on an event loop of its own."""
    from holdfast.server import run

    run(run_server(locations, env, listening=listening, idle_exit=idle_exit, ready=ready))


class _RuleBook:
    """Rules that a person wants to hold always go into the user's own configuration."""

    def __init__(self, locations: Locations) -> None:
        self._file = locations.config_file
        self._locations = locations
        self._turn = asyncio.Lock()

    async def save(self, rules: tuple[str, ...]) -> None:
        async with self._turn:
            await asyncio.to_thread(self._save, rules)

    def _save(self, rules: tuple[str, ...]) -> None:
        from holdfast.config.config_edit import edit_config

        known = load_config(self._locations, env={}).settings.approvals.allow
        edit_config(self._file, {"approvals.allow": [*known, *(rule for rule in rules if rule not in known)]})


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def _scripts() -> dict[str, ModelScript]:
    """What the model without a key says."""
    from importlib.resources import files

    from holdfast.models.model_script import read_script

    name = "demo.toml"
    return {"demo": read_script(files("holdfast.models").joinpath(name).read_bytes(), name=name)}
