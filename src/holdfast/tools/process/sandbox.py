"""Optional confinement of commands: what they may write to, and on request that they have no network.

Everything stays readable. ``workspace-write`` lets a command write below the workspace and a temporary directory of its
own (``TMPDIR``), ``read-only`` only to the latter. bubblewrap does it where it works, Landlock elsewhere; where neither
does, a command that should be confined is refused, never run free.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Literal

import holdfast
from holdfast.config.settings import Sandbox
from holdfast.errors import ToolError
from holdfast.schema.base import Value
from holdfast.tools.process import landlock

SandboxBackend = Literal["bubblewrap", "landlock"]

_PROBE_SECONDS = 5.0
_ROOT_CAPABILITIES = ("CAP_DAC_OVERRIDE", "CAP_CHOWN", "CAP_FOWNER")
"""What root keeps: other people's files, where they may be written at all. With more it could mount its way out."""


class SandboxAvailability(Value, frozen=True):
    """What this machine can confine with; for `doctor`."""

    bubblewrap: str = ""
    """Why not, or empty when it works."""
    landlock: str = ""

    @property
    def backend(self) -> SandboxBackend | None:
        """The one that is used."""
        if not self.bubblewrap:
            return "bubblewrap"
        return None if self.landlock else "landlock"


class CommandSandbox:
    """Wraps commands so that they are confined. Looks once at what the machine has."""

    def __init__(self, *, backend: SandboxBackend | None = None) -> None:
        self._backend = backend
        self._looking = asyncio.Lock()

    async def confine(
        self, argv: tuple[str, ...], *, mode: Sandbox, workspace: Path, temporary: Path, network: bool = True
    ) -> tuple[str, ...]:
        """The command to run instead. Makes the temporary directory."""
        if mode == "off":
            return argv
        backend = await self._found(mode)
        await asyncio.to_thread(temporary.mkdir, mode=0o700, parents=True, exist_ok=True)
        writable = [temporary, workspace] if mode == "workspace-write" else [temporary]
        if backend == "bubblewrap":
            return (*_bubblewrap(writable, network=network), "--chdir", str(workspace), "--", *argv)
        return (*_landlock(writable, network=network), "--", *argv)

    async def _found(self, mode: Sandbox) -> SandboxBackend:
        async with self._looking:
            if self._backend is None:
                found = await asyncio.to_thread(probe_sandboxes)
                if found.backend is None:
                    raise ToolError(
                        f"commands are set to run in the sandbox {mode!r}, but this machine has none"
                        f" (bubblewrap: {found.bubblewrap}; Landlock: {found.landlock});"
                        " install bubblewrap, or set server.sandbox to 'off'"
                    )
                self._backend = found.backend
            return self._backend


def probe_sandboxes() -> SandboxAvailability:
    """Try both. Blocks for some milliseconds: call it in a thread."""
    return SandboxAvailability(bubblewrap=_bubblewrap_problem(), landlock=_landlock_problem())


def _bubblewrap(writable: list[Path], *, network: bool) -> list[str]:
    argv = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-pid", "--die-with-parent"]
    if os.geteuid() == 0:
        argv += ["--cap-drop", "ALL", *(word for right in _ROOT_CAPABILITIES for word in ("--cap-add", right))]
    for path in writable:
        argv += ["--bind", str(path), str(path)]
    return argv if network else [*argv, "--unshare-net"]


def _landlock(writable: list[Path], *, network: bool) -> list[str]:
    root = str(Path(holdfast.__file__).parents[1])
    start = f"import sys; sys.path.append({root!r}); from holdfast.tools.process.landlock import main; main()"
    argv = [sys.executable, "-I", "-S", "-c", start]
    return [*argv, *([] if network else ["--no-network"]), *map(str, writable)]


def _bubblewrap_problem() -> str:
    if sys.platform != "linux":
        return "only for Linux"
    if not shutil.which("bwrap"):
        return "not installed"
    try:
        done = subprocess.run(
            [*_bubblewrap([], network=False), "--", "true"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not start: {error}"
    if done.returncode:
        return f"does not work here: {done.stderr.decode('utf-8', 'replace').strip()}"
    return ""


def _landlock_problem() -> str:
    if sys.platform != "linux":
        return "only for Linux"
    version = landlock.landlock_version()
    if version < landlock.LOWEST_VERSION:
        return f"the kernel has version {version}, version {landlock.LOWEST_VERSION} (Linux 6.2) is needed"
    return ""
