"""Optional confinement of commands: which directories they can write, and whether they have a network.

All files stay readable. ``workspace-write`` allows writes below the workspace and a temporary directory (``TMPDIR``),
``read-only`` only below the temporary directory. bubblewrap is used if it works, otherwise Landlock. If neither works,
a command that must be confined is not run.
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
"""What root keeps, to write files of other users in writable directories. With more, it could remount directories."""


class SandboxAvailability(Value, frozen=True):
    """Which sandboxes work on this machine, for `doctor`."""

    bubblewrap: str = ""
    """Why it does not work; empty if it works."""
    landlock: str = ""
    """Why it does not work; empty if it works."""

    @property
    def backend(self) -> SandboxBackend | None:
        """The sandbox to use."""
        if not self.bubblewrap:
            return "bubblewrap"
        return None if self.landlock else "landlock"


class CommandSandbox:
    """Wraps commands in a sandbox. Probes the machine once."""

    def __init__(self, *, backend: SandboxBackend | None = None) -> None:
        self._backend = backend
        self._probing = asyncio.Lock()

    async def confine(
        self, argv: tuple[str, ...], *, mode: Sandbox, workspace: Path, temporary: Path, network: bool = True
    ) -> tuple[str, ...]:
        """Return the command that runs `argv` confined. Creates the temporary directory."""
        if mode == "off":
            return argv
        backend = await self._select_backend(mode)
        await asyncio.to_thread(temporary.mkdir, mode=0o700, parents=True, exist_ok=True)
        writable = [temporary, workspace] if mode == "workspace-write" else [temporary]
        if backend == "bubblewrap":
            return (*_bubblewrap(writable, network=network), "--chdir", str(workspace), "--", *argv)
        return (*_landlock(writable, network=network), "--", *argv)

    async def _select_backend(self, mode: Sandbox) -> SandboxBackend:
        async with self._probing:
            if self._backend is None:
                found = await asyncio.to_thread(probe_sandboxes)
                if found.backend is None:
                    raise ToolError(
                        f"server.sandbox is {mode!r}, but no sandbox works on this machine"
                        f" (bubblewrap: {found.bubblewrap}; Landlock: {found.landlock});"
                        " install bubblewrap, or set server.sandbox to 'off'"
                    )
                self._backend = found.backend
            return self._backend


def probe_sandboxes() -> SandboxAvailability:
    """Try both sandboxes. Blocking: call it in a thread."""
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
        return "requires Linux"
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
        return f"cannot be started: {error}"
    if done.returncode:
        return f"fails on this machine: {done.stderr.decode('utf-8', 'replace').strip()}"
    return ""


def _landlock_problem() -> str:
    if sys.platform != "linux":
        return "requires Linux"
    version = landlock.landlock_version()
    if version < landlock.LOWEST_VERSION:
        return f"the kernel has version {version}, but version {landlock.LOWEST_VERSION} (Linux 6.2) is required"
    return ""
