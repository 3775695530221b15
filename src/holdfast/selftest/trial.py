"""The self-test as a whole: a temporary home, a server, the provider, and one check after another."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec

from holdfast.client.async_client import AsyncClient
from holdfast.client.own_server import SERVE, OwnServer
from holdfast.client.server_address import ServerAddress
from holdfast.schema.base import Value
from holdfast.selftest.check_context import WAIT_SECONDS, CheckContext, end_of_log, provider_config
from holdfast.selftest.check_provider import CheckProvider
from holdfast.selftest.check_result import CheckResult, CheckSkipped, PromiseBroken
from holdfast.selftest.check_table import Check

OnChange = Callable[[Sequence[CheckResult]], None]
_NEEDS_OWN_SERVER = "this check kills or configures its server; it is left out on a running one"


class TrialResult(Value, frozen=True):
    checks: tuple[CheckResult, ...]
    seconds: float
    seed: int
    server_log: str = ""
    """The end of the logs and outputs of the servers, if a check broke. Without the secret of this trial."""

    @property
    def held(self) -> bool:
        return not any(check.state == "broken" for check in self.checks)


class Trial:
    """Runs checks within ``seconds``. Each check gets its share, and at least one round."""

    def __init__(self, checks: Sequence[Check], *, seconds: float, seed: int, on_change: OnChange) -> None:
        self._checks = checks
        self._seconds = seconds
        self._seed = seed
        self._on_change = on_change
        self._results = [CheckResult(check.name, check.title, check.promises) for check in checks]
        self._secret = f"sk-selftest-{secrets.token_hex(16)}"

    async def run(self, *, command: Sequence[str] = SERVE) -> TrialResult:
        """With a server of its own, in a temporary home. ``command``: the arguments of Python that start it."""
        home = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="holdfast-selftest-"))
        env = {**_quiet_environment(), "HOME": str(home)}
        server = await asyncio.to_thread(OwnServer, home, env=env, command=command)
        try:
            async with CheckProvider() as provider:
                await asyncio.to_thread(server.locations.prepare)
                server.locations.config_file.write_text(provider_config(provider.port, key=self._secret))
                try:
                    await asyncio.to_thread(server.start)
                    return await self._run_checks(
                        home, provider=provider, address=server.address, token=None, server=server
                    )
                finally:
                    await asyncio.to_thread(server.stop)
        finally:
            await asyncio.to_thread(shutil.rmtree, home, ignore_errors=True)

    async def run_on(self, address: ServerAddress, *, token: str | None) -> TrialResult:
        """On a server that is already running, in a temporary workspace, which is removed from it again."""
        home = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="holdfast-selftest-"))
        try:
            async with CheckProvider() as provider, _trusted_workspace(home, provider, address, token):
                return await self._run_checks(home, provider=provider, address=address, token=token, server=None)
        finally:
            await asyncio.to_thread(shutil.rmtree, home, ignore_errors=True)

    async def _run_checks(
        self,
        home: Path,
        *,
        provider: CheckProvider,
        address: ServerAddress,
        token: str | None,
        server: OwnServer | None,
    ) -> TrialResult:
        began = time.monotonic()
        directory = home / "project"
        directory.mkdir(exist_ok=True)
        async with AsyncClient(address, token=token, name="selftest") as client:
            beginning = (await client.open_workspace(str(directory))).cursor
        logs: list[str] = []
        shares = sum(check.share for check in self._checks if server is not None or not check.own_server) or 1.0
        for number, check in enumerate(self._checks):
            if check.own_server and server is None:
                self._set(number, state="skipped", detail=_NEEDS_OWN_SERVER)
                continue
            context = CheckContext(
                address=address,
                token=token,
                server=server,
                provider=provider,
                directory=directory,
                secret=self._secret,
                beginning=beginning,
                name=check.name,
                seconds=self._seconds * check.share / shares,
                seed=self._seed,
                on_count=partial(self._set_counts, number),
            )
            await self._run_check(number, check, context)
            if context.other_log:
                logs.append(f"The server of the check {check.name}:\n{context.other_log}")
        if server is not None and any(result.state == "broken" for result in self._results):
            logs.insert(0, await asyncio.to_thread(end_of_log, server))
        log = "\n\n".join(logs).replace(self._secret, "[redacted]")
        return TrialResult(tuple(self._results), time.monotonic() - began, self._seed, log)

    async def _run_check(self, number: int, check: Check, context: CheckContext) -> None:
        began = time.monotonic()
        self._set(number, state="running")
        try:
            await check.run(context)
            self._set(number, state="held")
        except CheckSkipped as why:
            self._set(number, state="skipped", detail=str(why))
        except PromiseBroken as broken:
            self._set(number, state="broken", detail=str(broken))
        except TimeoutError:
            self._set(number, state="broken", detail=f"something that must happen did not, within {WAIT_SECONDS:g} s")
        except Exception as error:  # noqa: BLE001 - a server that breaks its promises may surprise a check in any way
            self._set(number, state="broken", detail=f"{type(error).__name__}: {error}")
        finally:
            await context.aclose()
            self._set(number, seconds=round(time.monotonic() - began, 3))

    def _set_counts(self, number: int, counts: dict[str, int]) -> None:
        self._set(number, counts=dict(counts))

    def _set(self, number: int, **changes: object) -> None:
        self._results[number] = msgspec.structs.replace(self._results[number], **changes)
        self._on_change(self._results)


@asynccontextmanager
async def _trusted_workspace(
    home: Path, provider: CheckProvider, address: ServerAddress, token: str | None
) -> AsyncIterator[None]:
    """A directory that names the provider in its own configuration, trusted for the time of the trial."""
    directory = home / "project"
    (directory / ".holdfast").mkdir(parents=True)
    (directory / ".holdfast" / "config.toml").write_text(provider_config(provider.port, key=""))
    async with AsyncClient(address, token=token, name="selftest") as client:
        workspace = await client.open_workspace(str(directory))
        await client.trust(workspace.id)
        try:
            yield
        finally:
            while found := (await client.sessions(workspace.id)).items:
                for session in found:
                    await client.delete_session(session.id)
            await client.trust(workspace.id, trusted=False)
            await client.close_workspace(workspace.id)


def _quiet_environment() -> dict[str, str]:
    """What a server needs of the caller's environment. Keys and proxies stay outside."""
    kept = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "PYTHONPATH", "PYTHONPYCACHEPREFIX", "TZ")
    return {name: os.environ[name] for name in kept if name in os.environ}
