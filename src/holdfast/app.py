"""The composition root: opens the parts of one server in order, and closes them in reverse order."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.approvals.pending_approvals import PendingApprovals
from holdfast.config import Keyring, PolicyFile, Redactor, SecretStore, Settings, TrustStore, load_config
from holdfast.config.secrets import STORE_PASSWORD
from holdfast.config.setting_types import Secret
from holdfast.config.settings import MAX_AGENT_DEPTH
from holdfast.errors import ConfigError, StoreLocked
from holdfast.events import Hub, prune_periodically
from holdfast.extend.client_calls import ClientCalls
from holdfast.ids import Clock, Ids, build_id
from holdfast.locations import Locations
from holdfast.runs import Engine, EngineLimits, IntentFile
from holdfast.schema.events import CallClosed, CallRequested
from holdfast.server import (
    Listener,
    ServerParts,
    TcpAccess,
    adopt_orphans,
    check_token,
    hide_process,
    listen_tcp,
    listen_unix,
    log_to_file,
    parse_listen,
    raise_descriptor_limit,
    read_token_file,
    serve,
    share_heap,
)
from holdfast.services import Services
from holdfast.store import Store
from holdfast.store.sqlite import open_store
from holdfast.workspace.maintenance import mark_lost_jobs_or_retry, remove_old_files
from holdfast.workspace.open_workspaces import OpenWorkspaces
from holdfast.workspace.shared_parts import SharedParts
from holdfast.workspace.turn_factory import WorkspaceTurns

if TYPE_CHECKING:
    from holdfast.fleet.fleet_member import FleetMember
    from holdfast.models.model_factory import ModelFactory
    from holdfast.models.model_script import ModelScript
    from holdfast.services.run_traces import RunTraces
    from holdfast.store.postgres.store_copy import CopiedTable
    from holdfast.store.sqlite.database_restore import BackupFile, RestoredDatabase
    from holdfast.tools.process.tool_peers import ToolPeers


_logger = logging.getLogger(__name__)

_LOAD_SECONDS = 1.0
"""After the start, before what runs use is imported without a run: a server started for a prompt answers it first."""
DEAD_STATUS = 75
"""The exit status of a server that the others of its fleet have replaced. Its service manager starts it again."""


class App(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of one server."""

    settings: Settings
    """The user's settings at the start. Each workspace has its own."""
    store: Store
    hub: Hub
    engine: Engine
    open_workspaces: OpenWorkspaces
    services: Services
    shared: SharedParts
    member: FleetMember | None = None
    """This server as one of several on the same database."""


@asynccontextmanager
async def open_app(
    locations: Locations,
    env: Mapping[str, str],
    *,
    clock: Clock = time.time,
    scripts: Mapping[str, ModelScript] | None = None,
    engine_limits: EngineLimits | None = None,
    build: str = "",
    policy_file: PolicyFile | None = None,
    on_dead: Callable[[], None] | None = None,
) -> AsyncIterator[App]:
    """Open everything except the sockets. Runs that a crash left are ended before this yields (`W6`).

    ``on_dead`` is called when the other servers of a fleet have replaced this one.

    ``policy_file`` is for tests. It is an argument, so that nothing that a user can set leads around the policy.
    """
    policy_file = policy_file or PolicyFile()
    settings = await asyncio.to_thread(_read_settings, locations, env, policy_file)
    async with AsyncExitStack() as closing:

        async def save_rules(rules: tuple[str, ...]) -> None:
            await services.settings.add_allowed_rules(rules)

        secrets = SecretStore(locations.secrets_file)
        keyring = Keyring(secrets, env=env)
        await keyring.learn(settings)
        member = None
        if settings.store is not None:
            member = await _make_member(settings, locations, env, keyring=keyring, on_dead=on_dead or (lambda: None))
        shared = await _open_shared(
            closing,
            locations,
            env,
            settings=settings,
            clock=clock,
            keyring=keyring,
            scripts=scripts,
            policy_file=policy_file,
            save_rules=save_rules,
            member=member,
        )
        open_workspaces = OpenWorkspaces(shared)
        closing.push_async_callback(open_workspaces.close_all)
        engine = Engine(
            shared.store,
            shared.hub,
            WorkspaceTurns(open_workspaces),
            ids=shared.ids,
            clock=clock,
            limits=engine_limits or _configured_limits(settings),
            intents=IntentFile(locations.intents_file) if member is None else None,
        )
        closing.push_async_callback(engine.stop)
        services = Services(
            open_workspaces,
            engine,
            secrets,
            max_streams=settings.server.max_streams,
            keep_events=float(settings.server.keep_events),
            keep_audit=float(settings.server.keep_audit),
            traces=_open_traces(closing, shared, settings.server.traces),
            build=build,
            ownership=member,
            fleet=member,
        )
        closing.push_async_callback(services.people.close)
        if member is None:
            await engine.recover()
            if (marking := await mark_lost_jobs_or_retry(shared)) is not None:
                closing.push_async_callback(_cancel, asyncio.create_task(marking, name="mark lost jobs"))
        else:
            await member.start(shared, engine, services)
            closing.push_async_callback(_cancel, asyncio.create_task(member.adopt_periodically(), name="adopt"))
        for name, work in _background_work(shared, settings, open_workspaces, services):
            closing.push_async_callback(_cancel, asyncio.create_task(work, name=name))
        yield App(
            settings=settings,
            store=shared.store,
            hub=shared.hub,
            engine=engine,
            open_workspaces=open_workspaces,
            services=services,
            shared=shared,
            member=member,
        )


def _read_settings(locations: Locations, env: Mapping[str, str], policy_file: PolicyFile) -> Settings:
    """Blocks."""
    locations.prepare()
    return load_config(locations, env=env, policy=policy_file.read()).settings


async def _make_member(
    settings: Settings, locations: Locations, env: Mapping[str, str], *, keyring: Keyring, on_dead: Callable[[], None]
) -> FleetMember:
    _require_psycopg()
    from holdfast.fleet.fleet_setup import make_member

    return await make_member(settings, keyring, env, home=locations.data_dir, on_dead=on_dead)


async def _open_shared(
    closing: AsyncExitStack,
    locations: Locations,
    env: Mapping[str, str],
    *,
    settings: Settings,
    clock: Clock,
    keyring: Keyring,
    scripts: Mapping[str, ModelScript] | None,
    policy_file: PolicyFile,
    save_rules: Callable[[tuple[str, ...]], Awaitable[None]],
    member: FleetMember | None,
) -> SharedParts:
    """Open the database and what else all workspaces share. ``closing`` closes it in reverse order."""
    store = await _open_store(settings, locations, keyring, member=member)
    closing.push_async_callback(store.close)
    if member is not None:
        closing.push_async_callback(member.aclose)
    hub = Hub(store, clock=clock, heartbeat_seconds=float(settings.server.heartbeat))
    closing.callback(hub.close)
    ids = Ids(clock=clock)
    shared = SharedParts(
        store=store,
        hub=hub,
        approvals=PendingApprovals(store, ids=ids, clock=clock, save_rules=save_rules),
        client_calls=ClientCalls(publish=partial(_publish_call, hub), new_id=lambda: ids.new("ccl"), now=hub.timestamp),
        keyring=keyring,
        trust=TrustStore(locations.trust_file),
        policy_file=policy_file,
        locations=locations,
        env=env,
        ids=ids,
        clock=clock,
        make_models=partial(_make_models, keyring, settings, scripts),
    )
    closing.push_async_callback(shared.close)
    return shared


def configured_store(locations: Locations, env: Mapping[str, str]) -> str | None:
    """Return the address of the configured PostgreSQL database without its password; None for SQLite. Blocks."""
    store = load_config(locations, env=env, policy=PolicyFile().read()).settings.store
    return None if store is None else store.to_config()


def store_password(locations: Locations, password: str) -> None:
    """Store the password of the PostgreSQL database, or remove it if it is empty. Blocks."""
    locations.prepare()
    secrets = SecretStore(locations.secrets_file)
    if password:
        secrets.put(STORE_PASSWORD, Secret(password))
    else:
        secrets.remove(STORE_PASSWORD)


def list_backups(directory: Path) -> list[BackupFile]:
    """The automatic backups, the newest first. Blocks."""
    from holdfast.store.sqlite import database_restore

    return database_restore.list_backups(directory)


def restore_database(database: Path, backup: Path, *, stamp: str) -> RestoredDatabase:
    """Put a backup in the place of the database. Blocks."""
    from holdfast.store.sqlite import database_restore

    return database_restore.restore_database(database, backup, stamp=stamp)


def copy_store(
    locations: Locations,
    database: Path,
    address: str,
    *,
    to_postgres: bool,
    progress: Callable[[str, int], None],
) -> tuple[CopiedTable, ...]:
    """Copy all rows from the SQLite file to the PostgreSQL database, or back. Blocks."""
    _require_psycopg()
    from holdfast.store.postgres import with_password
    from holdfast.store.postgres.store_copy import copy_to_postgres, copy_to_sqlite

    password = SecretStore(locations.secrets_file).read().get(STORE_PASSWORD)
    conninfo = with_password(address, password.reveal() if password else None)
    if to_postgres:
        return copy_to_postgres(database, conninfo, progress=progress)
    return copy_to_sqlite(conninfo, database, progress=progress)


def _require_psycopg() -> None:
    try:
        import psycopg  # noqa: F401 - only whether it is there
    except ImportError as error:
        raise ConfigError(
            f"PostgreSQL needs psycopg, which is missing ({error}); run \"pip install 'holdfast[fleet]'\", or use "
            "SQLite (without the setting 'store' and HOLDFAST_STORE)"
        ) from error


async def _open_store(
    settings: Settings, locations: Locations, keyring: Keyring, *, member: FleetMember | None
) -> Store:
    """Open the SQLite file, or the PostgreSQL database that the settings name."""
    if settings.store is None or member is None:
        return await open_store(locations.database)
    from holdfast.store.postgres import open_postgres_store, with_password

    password = settings.store.password or await keyring.read_stored(STORE_PASSWORD)
    if password:
        keyring.remember([password])
    store = await open_postgres_store(
        with_password(settings.store, password.reveal() if password else None),
        home=locations.data_dir,
        host_id=member.keeper.host_id,
        shared=member.shared_directories,
        fences=member.keeper,
        renewal_seconds=member.keeper.times.gives_up_after,
    )
    try:
        await member.join(store)
    except BaseException:
        await store.close()
        raise
    return store


def _make_models(keyring: Keyring, settings: Settings, scripts: Mapping[str, ModelScript] | None) -> ModelFactory:
    """By default with the script of ``offline/demo``, the model that needs no key. Blocks."""
    from holdfast.models.model_factory import ModelFactory
    from holdfast.models.model_script import read_script

    if scripts is None:
        path = Path(__file__).parent / "models" / "demo.toml"
        scripts = {"demo": read_script(path.read_bytes(), name=path.name)}
    return ModelFactory(keyring, network=settings.network, scripts=scripts)


def _publish_call(hub: Hub, event: CallRequested | CallClosed) -> None:
    """Tell the clients a call that one of them executes. An open one is also told to clients that connect later."""
    call, is_open = event.call, isinstance(event, CallRequested)
    if not is_open:
        hub.withdraw(CallRequested, key=call.id)
    hub.publish(event, key=call.id, workspace_id=call.workspace_id, is_state=is_open)


def _open_traces(closing: AsyncExitStack, shared: SharedParts, address: str | None) -> RunTraces | None:
    """Follow the runs, if their traces are wanted. They are sent in a thread of their own."""
    if address is None:
        return None
    from holdfast.services.run_traces import RunTraces
    from holdfast.services.trace_export import TraceExport

    export = TraceExport(address)
    closing.push_async_callback(asyncio.to_thread, export.close)
    traces = RunTraces(export)
    closing.callback(shared.store.listen(traces.on_commit))
    shared.hub.observe_progress(traces.on_progress)
    return traces


def _background_work(
    shared: SharedParts, settings: Settings, workspaces: OpenWorkspaces, services: Services
) -> tuple[tuple[str, Coroutine[Any, Any, None]], ...]:
    store, locations, clock = shared.store, shared.locations, shared.clock
    keep_events, keep_audit = float(settings.server.keep_events), float(settings.server.keep_audit)
    work = (
        ("heartbeats", shared.hub.send_heartbeats()),
        (
            "prune events",
            prune_periodically(store, keep_seconds=keep_events, keep_audit_seconds=keep_audit, clock=clock),
        ),
        ("remove old files", _later(partial(remove_old_files, shared))),
        ("load code", _later(partial(_load_code, workspaces, services))),
    )
    if settings.store is not None:
        return work
    return (*work, ("backups", _later(partial(_back_up_daily, store, locations, clock=clock))))


async def _back_up_daily(store: Store, locations: Locations, *, clock: Clock) -> None:
    from holdfast.store.sqlite.daily_backups import back_up_daily

    await back_up_daily(store, locations.database, locations.backups_dir, clock=clock)


async def _load_code(workspaces: OpenWorkspaces, services: Services) -> None:
    """Import what runs and their clients use, so that neither a limit nor an upgrade can break it later."""
    await workspaces.load_code()
    await asyncio.to_thread(services.load)
    await asyncio.to_thread(_import_late)


def _import_late() -> None:
    """What the first connection of a command and the first approval of a tool import. Blocks."""
    import holdfast.store.sqlite.known_grants
    import holdfast.tools.process.tool_peers  # noqa: F401


async def _later(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    await asyncio.sleep(_LOAD_SECONDS)
    await work()


class ListenOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server listens besides its own socket, and with which token."""

    tcp: str | None = None
    """``host:port``."""
    allow_remote: bool = False
    token: str | None = None
    token_file: Path | None = None
    """The file with the token; a new token is written if there is none."""
    crush: str | None = None
    """The address for the clients of Crush. ``None``: as configured."""


async def run_server(
    locations: Locations,
    env: Mapping[str, str],
    *,
    listen: ListenOptions | None = None,
    idle_exit: bool = False,
    ready: Callable[[tuple[str, ...]], None] | None = None,
) -> bool:
    """Run a server that owns its process until it is stopped. ``ready`` gets the addresses once it answers.

    Returns whether the stop is written (see `serve`).
    """
    share_heap()  # before the first thread
    hide_process()
    adopt_orphans()
    raise_descriptor_limit()
    opened: list[App] = []

    def redactor() -> Redactor:
        return opened[0].shared.keyring.redactor if opened else Redactor()

    await asyncio.to_thread(locations.prepare)
    with log_to_file(locations.logs_dir, redactor=redactor):
        async with open_app(locations, env, build=await asyncio.to_thread(build_id), on_dead=_exit_dead) as app:
            opened.append(app)
            listen = listen or ListenOptions()
            parts = ServerParts(
                services=app.services, redactor=redactor, find_tool_peers=find_tool_peers(app, adopts_orphans=True)
            )
            listeners = await asyncio.to_thread(_listen_tcp, listen)
            listeners.append(await asyncio.to_thread(listen_unix, locations.socket))
            if app.member is not None:
                from holdfast.fleet.fleet_setup import in_fleet, own_address

                await app.member.announce(own_address(app.settings, listeners))
                parts = in_fleet(parts, app.member)
            listeners += await asyncio.to_thread(listen_for_crush, app, parts, listen.crush)
            return await serve(
                parts,
                listeners,
                linger=float(app.settings.server.linger),
                idle_exit=idle_exit,
                ready=lambda: ready(tuple(str(listener) for listener in listeners)) if ready else None,
                owns_process=True,
            )


def _exit_dead() -> None:
    """Another server may own everything by now: nothing is cleaned up or written. Commands end with their server."""
    sys.stderr.write(
        "holdfast: this server did not renew its leases in time, and the others have replaced it; nothing more is "
        "written: start it again\n"
    )
    sys.stderr.flush()
    logging.shutdown()
    os._exit(DEAD_STATUS)


def find_tool_peers(app: App, *, adopts_orphans: bool = False) -> Callable[[], ToolPeers | None]:
    """What recognises connections of the agent's own commands; None as long as no command can have been started."""
    shared = app.shared
    found: list[ToolPeers] = []

    def find() -> ToolPeers | None:
        if not found and shared.may_have_started_commands:
            from holdfast.tools.process.tool_peers import ToolPeers

            peers = ToolPeers(tools=shared.launcher, person=shared.person_launcher, adopts_orphans=adopts_orphans)
            found.append(peers)
        return found[0] if found else None

    return find


def serve_until_stopped(
    locations: Locations,
    env: Mapping[str, str],
    *,
    listen: ListenOptions,
    idle_exit: bool,
    ready: Callable[[tuple[str, ...]], None],
) -> bool:
    """`run_server` on an event loop of its own."""
    return asyncio.run(run_server(locations, env, listen=listen, idle_exit=idle_exit, ready=ready))


def _listen_tcp(listen: ListenOptions) -> list[Listener]:
    if listen.tcp is None:
        return []
    address = parse_listen(listen.tcp, allow_remote=listen.allow_remote)
    if listen.token is not None:
        token = check_token(listen.token)
    else:
        assert listen.token_file is not None
        token = read_token_file(listen.token_file)
    return [listen_tcp(address, access=TcpAccess(token))]


def listen_for_crush(app: App, parts: ServerParts, address: str | None) -> list[Listener]:
    """The socket for the clients of Crush, if there is one: at the address, or as configured.

    A configured socket that Crush's own server uses is left to it. Blocks.
    """
    chosen = address or app.settings.server.crush
    if chosen is None:
        return []
    from holdfast.crush import crush_socket, make_crush_app

    shared = app.shared
    socket = crush_socket(chosen, shared.env, uid=os.getuid())
    try:
        return [listen_unix(socket, app=make_crush_app(parts, data_directory=str(shared.locations.crush_dir)))]
    except StoreLocked:
        message = f"Crush's own server answers at {str(socket)!r}; stop it to use its clients with Holdfast"
        if address is not None:
            raise ConfigError(message, detail={"option": "--crush"}) from None
        _logger.warning("%s", message)
        return []


def _configured_limits(settings: Settings) -> EngineLimits:
    return EngineLimits(unfinished_runs=settings.server.max_unfinished_runs, subagent_depth=MAX_AGENT_DEPTH)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
