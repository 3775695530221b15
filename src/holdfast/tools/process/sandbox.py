"""Confinement of commands by namespaces of their own, else by bubblewrap, else by Landlock: the first one that works.

What is allowed is in `sandbox_limits`. With the mode ``auto`` commands are confined where a sandbox works. With another
mode a command that cannot be confined is not run.
"""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal, NamedTuple

import holdfast
from holdfast.config.settings import Sandbox
from holdfast.errors import ToolError
from holdfast.files import is_out_of_descriptors
from holdfast.schema.base import Value
from holdfast.tools.process import landlock
from holdfast.tools.process.mount_namespace import NamespaceView
from holdfast.tools.process.sandbox_limits import SandboxLimits

SandboxBackend = Literal["namespace", "bubblewrap", "landlock"]

_PROBE_SECONDS = 5.0
_PROBE = "enter_namespace(NamespaceView(network=False))"
_MAX_RULESETS = 16
_ROOT_CAPABILITIES = ("CAP_DAC_OVERRIDE", "CAP_CHOWN", "CAP_FOWNER")
"""What root keeps, to write files of other users in writable directories. With more, it could remount directories."""
_SYSTEM = ("/usr/", "/bin/", "/sbin/", "/opt/", "/nix/", "/gnu/", "/run/", "/snap/")
"""Where the system has its programs."""
_STARTERS = ("docker.sock", "podman", "containerd", "screen", "snapd.socket")
"""Sockets in ``/run`` of programs that start processes outside the sandbox on request."""
_USER_STARTERS = ("bus", "systemd", "docker.sock", "podman", "tmux-{uid}")
"""The same, in the user's runtime directory."""


class SandboxAvailability(Value, frozen=True):
    """Which sandboxes work on this machine. Each field says why one does not work; it is empty if it works."""

    namespace: str = ""
    bubblewrap: str = ""
    landlock: str = ""

    @property
    def backend(self) -> SandboxBackend | None:
        """The sandbox to use."""
        if not self.namespace:
            return "namespace"
        if not self.bubblewrap:
            return "bubblewrap"
        return None if self.landlock else "landlock"

    @property
    def not_covered(self) -> tuple[str, ...]:
        """What the sandbox to use does not prevent."""
        match self.backend:
            case "landlock":
                return landlock.not_covered()
            case "namespace" | "bubblewrap" | None:
                return ()


class Ruleset:
    """A Landlock ruleset. Its descriptor is open until nobody can use it any more.

    A command may be about to start with a ruleset that another one has just replaced. If that closed it, the descriptor
    could be one of other rules by then.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor

    def __del__(self) -> None:
        os.close(self._descriptor)


class Confinement(NamedTuple):
    """What a supervisor does to confine a command."""

    ruleset: Ruleset | None = None
    """To be applied before the start."""
    view: NamespaceView | None = None
    """What the command sees in namespaces of its own."""


NOT_CONFINED = Confinement()


class ConfinedCommand(NamedTuple):
    """What to start so that a command is confined."""

    argv: tuple[str, ...]
    confinement: Confinement = NOT_CONFINED


_ONLY: Mapping[SandboxBackend, SandboxAvailability] = {
    "namespace": SandboxAvailability(),
    "bubblewrap": SandboxAvailability(namespace="not used"),
    "landlock": SandboxAvailability(namespace="not used", bubblewrap="not used"),
}


class CommandSandbox:
    """Confines commands. Probes the machine once, and keeps Landlock rulesets, for threads that use it at once."""

    def __init__(self, *, backend: SandboxBackend | None = None) -> None:
        self._available = _ONLY[backend] if backend else None
        self._probing = asyncio.Lock()
        self._lock = threading.Lock()
        self._scope: Ruleset | None = None
        self._rulesets: dict[SandboxLimits, tuple[Ruleset, tuple[object, ...]]] = {}

    async def availability(self) -> SandboxAvailability:
        async with self._probing:
            if self._available is None:
                self._available = await asyncio.to_thread(probe_sandboxes)
            return self._available

    async def backend(self, mode: Sandbox) -> SandboxBackend | None:
        """Return what confines commands in this mode; ``None`` if they are not confined. Raises `ToolError`."""
        if mode == "off":
            return None
        found = await self.availability()
        if found.backend is None and mode != "auto":
            raise ToolError(
                f"server.sandbox is {mode!r}, but no sandbox works on this machine"
                f" (namespaces: {found.namespace}; bubblewrap: {found.bubblewrap}; Landlock: {found.landlock});"
                " install bubblewrap, or set server.sandbox to 'auto' or 'off'"
            )
        return found.backend

    def confine(
        self, argv: tuple[str, ...], limits: SandboxLimits, *, backend: SandboxBackend, directory: Path
    ) -> ConfinedCommand:
        """Return how to run a command confined. Blocking: call it in a thread."""
        match backend:
            case "namespace":
                return ConfinedCommand(argv, Confinement(self._scope_ruleset(), namespace_view(limits)))
            case "bubblewrap":
                scope = self._scope_ruleset() if scopes_processes() else None
                options = _bubblewrap(limits, own_pids=_needs_own_pids())
                return ConfinedCommand((*options, "--chdir", str(directory), "--", *argv), Confinement(scope))
            case "landlock":
                return ConfinedCommand(argv, Confinement(self._ruleset(limits)))

    def close(self) -> None:
        with self._lock:
            self._rulesets.clear()
            self._scope = None

    def _scope_ruleset(self) -> Ruleset:
        with self._lock:
            if self._scope is None:
                self._scope = Ruleset(landlock.make_scope_ruleset())
            return self._scope

    def _ruleset(self, limits: SandboxLimits) -> Ruleset:
        stamps = tuple(_stamp(path) for path in sorted(landlock.listed_directories(limits.hidden)))
        with self._lock:
            known = self._rulesets.pop(limits, None)
            if known is None or known[1] != stamps:
                if len(self._rulesets) >= _MAX_RULESETS:
                    del self._rulesets[next(iter(self._rulesets))]
                known = Ruleset(_make_ruleset(limits)), stamps
            self._rulesets[limits] = known
            return known[0]


def _make_ruleset(limits: SandboxLimits) -> int:
    return landlock.make_ruleset(
        writable=limits.writable,
        hidden=limits.hidden,
        visible=limits.visible,
        private_writable=limits.private_writable,
        network=limits.network,
    )


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def probe_sandboxes() -> SandboxAvailability:
    """Try all sandboxes. Raises `ToolError` if too many files are open to try them. Blocking: call it in a thread."""
    return SandboxAvailability(_namespace_problem(), _bubblewrap_problem(), _landlock_problem())


def namespace_view(limits: SandboxLimits) -> NamespaceView:
    """Return what a command sees in namespaces of its own. Blocking."""
    return NamespaceView(
        writable=limits.writable,
        read_only=limits.read_only,
        covered=tuple(map(os.path.realpath, _starter_sockets())),
        hidden=limits.hidden,
        visible=limits.visible,
        private_writable=limits.private_writable,
        network=limits.network,
    )


def scopes_processes() -> bool:
    """Whether Landlock keeps a command from signalling other processes.

    A user's commands then need no pid namespace, and the pids that they print are the real ones.
    """
    found = _find_bubblewrap()
    is_setuid = bool(found and os.stat(found).st_mode & stat.S_ISUID)
    return landlock.landlock_version() >= landlock.SCOPE_VERSION and not is_setuid


def _needs_own_pids() -> bool:
    """Whether a command must not see the processes outside.

    The outer process of bubblewrap has the whole file system at ``/proc/PID/root``. A command of a user cannot open it,
    because it is in a user namespace of its own; a command of root can.
    """
    return os.geteuid() == 0 or not scopes_processes()


def _find_bubblewrap() -> str | None:
    """The program, if it is one of the system. One in a project or a home could be written by a command."""
    for entry in os.environ.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(entry, "bwrap")
        if os.path.isabs(path) and os.path.realpath(path).startswith(_SYSTEM) and os.access(path, os.X_OK):
            return os.path.realpath(path)
    return None


def _bubblewrap(limits: SandboxLimits, *, own_pids: bool) -> list[str]:
    """The options in the order in which they are applied. Processes that outlive the command stay in its namespaces."""
    argv = [_find_bubblewrap() or "/usr/bin/bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    if own_pids:
        argv.append("--unshare-pid")
    if os.geteuid() == 0:
        argv += ["--cap-drop", "ALL", *(word for right in _ROOT_CAPABILITIES for word in ("--cap-add", right))]
    for path in limits.writable:
        argv += ["--bind", path, path]
    for path in limits.read_only:
        argv += ["--ro-bind", path, path]
    for path in _starter_sockets():
        argv += ["--tmpfs", path] if os.path.isdir(path) else ["--ro-bind", "/dev/null", path]
    for path in limits.hidden:
        argv += ["--tmpfs", path]
    for path in limits.visible:
        argv += ["--ro-bind", path, path]
    for path in (*limits.private_writable, *(path for path in limits.writable if _is_hidden(path, limits))):
        argv += ["--bind", path, path]
    for path in limits.hidden:
        argv += ["--remount-ro", path]
    return argv if limits.network else [*argv, "--unshare-net"]


def _is_hidden(path: str, limits: SandboxLimits) -> bool:
    return any(path.startswith(hidden + "/") for hidden in limits.hidden)


def _starter_sockets() -> list[str]:
    uid = os.getuid()
    names = [f"/run/{name}" for name in _STARTERS]
    for directory in (f"/run/user/{uid}", "/tmp"):
        names += [f"{directory}/{name.format(uid=uid)}" for name in _USER_STARTERS]
    return [path for path in names if os.path.exists(path) and not os.path.islink(path)]


def _namespace_problem() -> str:
    if sys.platform != "linux":
        return "requires Linux"
    if landlock.landlock_version() < landlock.SCOPE_VERSION:
        return "requires Linux 6.12 with Landlock"
    root = str(Path(holdfast.__file__).parents[1])
    code = f"import sys; sys.path.append({root!r}); from holdfast.tools.process.mount_namespace import *; {_PROBE}"
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", code],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        _raise_if_out_of_descriptors(error)
        return f"cannot be tried: {error}"
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return f"forbidden on this machine: {lines[-1] if lines else done.returncode}" if done.returncode else ""


def _raise_if_out_of_descriptors(error: Exception) -> None:
    """A server with too many open files says nothing about the machine, and must not choose a weaker sandbox."""
    if is_out_of_descriptors(error):
        raise ToolError("the sandbox cannot be tried: too many open files") from error


def _bubblewrap_problem() -> str:
    if sys.platform != "linux":
        return "requires Linux"
    if not _find_bubblewrap():
        return "not installed"
    with ThreadPoolExecutor(1) as thread:  # it confines itself
        return thread.submit(_try_bubblewrap).result()


def _try_bubblewrap() -> str:
    scoped = scopes_processes()
    try:
        if scoped:
            ruleset = landlock.make_scope_ruleset()
            landlock.restrict_thread(ruleset)
            os.close(ruleset)
        done = subprocess.run(
            [*_bubblewrap(SandboxLimits((), network=False), own_pids=_needs_own_pids()), "--", "true"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        _raise_if_out_of_descriptors(error)
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
