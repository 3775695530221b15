"""What each sandbox prevents, tested with real commands."""

import errno
import os
import socket
import subprocess
from pathlib import Path
from typing import get_args

import pytest

from holdfast.errors import ToolError
from holdfast.files import is_out_of_descriptors
from holdfast.tools.process import landlock, sandbox
from holdfast.tools.process.mount_namespace import enter_namespace
from holdfast.tools.process.sandbox import (
    CommandSandbox,
    Confinement,
    Ruleset,
    SandboxAvailability,
    SandboxBackend,
    probe_sandboxes,
)
from holdfast.tools.process.sandbox_limits import cache_directories, sandbox_limits

_AVAILABLE = probe_sandboxes()


def _needs(backend: SandboxBackend) -> pytest.MarkDecorator:
    problem = getattr(_AVAILABLE, backend)
    return pytest.mark.skipif(bool(problem), reason=f"this machine cannot confine with {backend}: {problem}")


BACKENDS: tuple[SandboxBackend, ...] = get_args(SandboxBackend)
ALL = [pytest.param(backend, marks=_needs(backend)) for backend in BACKENDS]
MODES = ("workspace-write", "read-only")


class ConfinedDirectory:
    """A workspace, a temporary directory and a directory outside, and commands confined to the first two."""

    def __init__(self, directory: Path, backend: SandboxBackend) -> None:
        self.workspace = directory / "workspace"
        self.temporary = directory / "temporary"
        self.outside = directory / "outside"
        self.workspace.mkdir(parents=True)
        self.outside.mkdir()
        (self.outside / "file").write_text("precious")
        self.hidden = directory / "holdfast"
        (self.hidden / "visible").mkdir(parents=True)
        (self.hidden / "database").write_text("secret")
        (self.hidden / "visible" / "output").write_text("own output")
        self._backend = backend
        self._sandboxes = CommandSandbox(backend=backend)

    def run(self, script: str, *, mode: str, network: bool = True) -> subprocess.CompletedProcess[str]:
        self.temporary.mkdir(exist_ok=True)
        limits = sandbox_limits(
            self.workspace,
            writes_workspace=mode == "workspace-write",
            temporary=self.temporary,
            hidden=(self.hidden,),
            visible=(self.hidden / "visible",),
            network=network,
        )
        confined = self._sandboxes.confine(
            ("bash", "-c", script), limits, backend=self._backend, directory=self.workspace
        )
        environment = {**os.environ, "TMPDIR": str(self.temporary), "OUT": str(self.outside)}
        return subprocess.run(
            confined.argv,
            cwd=self.workspace,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
            preexec_fn=lambda: _confine_process(confined.confinement, self.workspace),
        )


def _confine_process(confinement: Confinement, directory: Path) -> None:
    if confinement.view is not None:
        enter_namespace(confinement.view, directory=str(directory))
    if confinement.ruleset is not None:
        landlock.restrict_thread(confinement.ruleset.fileno())


@pytest.fixture(params=ALL)
def confined(request: pytest.FixtureRequest, tmp_path: Path) -> ConfinedDirectory:
    return ConfinedDirectory(tmp_path, request.param)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "attack",
    [
        "echo gone > $OUT/file",
        "echo more >> $OUT/file",
        ": > $OUT/file",
        "truncate -s 0 $OUT/file",
        "rm $OUT/file",
        "mv $OUT/file .",
        "mv $OUT/file $OUT/other",
        "ln -sf $OUT/file link && echo gone > link",
        "ln $OUT/file hard && echo gone > hard",
        "cp /bin/true $OUT/new",
        "mkdir $OUT/new",
        "cd $OUT && touch new",
        "mknod $OUT/new p",
        "setsid -w bash -c 'echo gone > $OUT/file'",
        "unshare -rm bash -c 'mount -o remount,rw,bind / ; echo gone > $OUT/file'",
        "mount -o remount,rw,bind / ; echo gone > $OUT/file",
        "mount -o remount,rw / ; echo gone > $OUT/file",
        "chroot / bash -c 'echo gone > $OUT/file'",
        "exec 3<$OUT/file; echo gone > /proc/self/fd/3",
        "for p in /proc/[0-9]*; do echo gone > $p/root$OUT/file; done",
        "for p in /proc/[0-9]*; do echo gone > $p/cwd/../outside/file; done",
        "echo gone > /proc/$PPID/root$OUT/file",
    ],
)
def test_files_outside_cannot_be_changed(confined: ConfinedDirectory, attack: str, mode: str) -> None:
    confined.run(attack, mode=mode)
    assert (confined.outside / "file").read_text() == "precious"
    assert [path.name for path in confined.outside.iterdir()] == ["file"]


def test_workspace_write_allows_writes_to_the_workspace(confined: ConfinedDirectory) -> None:
    script = (
        "echo x > new && mkdir d && mv new d/renamed && ln d/renamed hard && rm hard && cat d/renamed && : > d/renamed"
    )
    done = confined.run(script, mode="workspace-write")
    assert (done.returncode, done.stdout) == (0, "x\n"), done.stderr


def test_read_only_forbids_writes_to_the_workspace(confined: ConfinedDirectory) -> None:
    (confined.workspace / "file").write_text("precious")
    done = confined.run("echo gone > file; echo x > new; rm -f file; mkdir d", mode="read-only")
    assert done.returncode != 0
    assert [path.name for path in confined.workspace.iterdir()] == ["file"]
    assert (confined.workspace / "file").read_text() == "precious"


@pytest.mark.parametrize("mode", MODES)
def test_reads_temporary_files_devices_and_pipes_work(confined: ConfinedDirectory, mode: str) -> None:
    script = (
        "cat $OUT/file > /dev/null && f=$(mktemp) && echo x > $f && cat $f | tr x y && cat <<< here && echo > /dev/null"
    )
    done = confined.run(script, mode=mode)
    assert (done.returncode, done.stdout) == (0, "y\nhere\n"), done.stderr


@pytest.mark.parametrize("mode", MODES)
def test_processes_outside_cannot_be_signalled(confined: ConfinedDirectory, mode: str) -> None:
    if landlock.landlock_version() < landlock.SCOPE_VERSION and _AVAILABLE.bubblewrap:
        pytest.skip("signals are scoped from Landlock's version 6 (Linux 6.12) on, or by bubblewrap")
    with subprocess.Popen(["sleep", "1000"]) as outside_process:
        done = confined.run(f"kill -KILL {outside_process.pid}", mode=mode)
        assert done.returncode != 0
        assert outside_process.poll() is None
        outside_process.kill()


def test_the_network_is_available_unless_disabled(confined: ConfinedDirectory) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        reach = f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]}"
        assert confined.run(reach, mode="read-only").returncode == 0
        assert confined.run(reach, mode="read-only", network=False).returncode != 0


async def test_off_confines_nothing() -> None:
    assert await CommandSandbox().backend("off") is None


@pytest.mark.parametrize("mode", MODES)
def test_hidden_directories_cannot_be_read_except_visible_parts(confined: ConfinedDirectory, mode: str) -> None:
    done = confined.run(f"cat {confined.hidden}/database; cat {confined.hidden}/visible/output", mode=mode)
    assert done.stdout == "own output"
    done = confined.run(f"echo x > {confined.hidden}/new; echo x > {confined.hidden}/visible/new", mode=mode)
    assert sorted(path.name for path in confined.hidden.rglob("*")) == ["database", "output", "visible"]
    through = f"for p in /proc/[0-9]*; do cat $p/root{confined.hidden}/database; done"
    assert "secret" not in confined.run(through, mode=mode).stdout
    linked = "ln -s ../holdfast/database link; cat link; cp -r ../holdfast copy; cat copy/database"
    assert "secret" not in confined.run(linked, mode=mode).stdout


def test_a_workspace_that_contains_a_hidden_directory_can_be_written(tmp_path: Path) -> None:
    for backend in BACKENDS:
        if getattr(_AVAILABLE, backend):
            continue
        directory = ConfinedDirectory(tmp_path / backend, backend)
        directory.hidden = directory.workspace / ".local" / "holdfast"
        directory.hidden.mkdir(parents=True)
        (directory.hidden / "database").write_text("secret")
        (directory.workspace / "project").mkdir()
        done = directory.run("echo x > project/new; cat .local/holdfast/database", mode="workspace-write")
        assert (directory.workspace / "project" / "new").exists(), done.stderr
        assert done.stdout == ""


@_needs("landlock")
def test_a_ruleset_that_another_command_replaced_is_open_until_its_own_command_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The descriptor could be one of other rules by then, or of none."""
    # Other tests change the directories above this one.
    monkeypatch.setattr(landlock, "listed_directories", lambda _: {str(tmp_path)})
    hidden = tmp_path / "holdfast"
    hidden.mkdir()
    limits = sandbox_limits(tmp_path, writes_workspace=False, temporary=tmp_path, hidden=(hidden,))
    sandboxes = CommandSandbox(backend="landlock")

    def ruleset() -> Ruleset:
        found = sandboxes.confine(("true",), limits, backend="landlock", directory=tmp_path).confinement.ruleset
        assert found is not None
        return found

    first = ruleset()
    assert ruleset() is first
    (tmp_path / "new").mkdir()
    assert ruleset() is not first
    descriptor = first.fileno()
    os.fstat(descriptor)
    del first
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    sandboxes.close()


def test_namespaces_are_preferred_to_bubblewrap_and_both_to_landlock() -> None:
    assert SandboxAvailability().backend == "namespace"
    assert SandboxAvailability(namespace="forbidden").backend == "bubblewrap"
    assert SandboxAvailability(namespace="forbidden", bubblewrap="not installed").backend == "landlock"
    assert SandboxAvailability(namespace="forbidden", bubblewrap="not installed", landlock="no").backend is None


async def test_without_a_sandbox_a_command_that_must_be_confined_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = SandboxAvailability("forbidden", "not installed", "no kernel support")
    monkeypatch.setattr(sandbox, "probe_sandboxes", lambda: nothing)
    with pytest.raises(
        ToolError, match=r"but no sandbox works on this machine .*forbidden.*not installed.*no kernel support.*'off'"
    ):
        await CommandSandbox().backend("read-only")
    assert await CommandSandbox().backend("auto") is None


def test_the_probe_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(landlock, "landlock_version", lambda: 1)
    assert probe_sandboxes() == SandboxAvailability(
        "requires Linux 6.12 with Landlock",
        "not installed",
        "the kernel has version 1, but version 3 (Linux 6.2) is required",
    )


def test_a_cache_variable_cannot_make_the_home_writable(tmp_path: Path) -> None:
    spelled = (f"{tmp_path}/", f"{tmp_path.parent}//{tmp_path.name}/.", f"{tmp_path}/cache/..")
    for value in ("/", str(tmp_path), str(tmp_path.parent), "relative", *spelled):
        assert cache_directories({"HOME": str(tmp_path), "npm_config_cache": value, "PATH": "/nowhere"}) == ()


def test_the_limits_name_what_exists_with_its_links_resolved(tmp_path: Path) -> None:
    outside, temporary = tmp_path / "outside", tmp_path / "tmp"
    for directory in (tmp_path / "real" / ".git", outside, temporary):
        directory.mkdir(parents=True)
    (tmp_path / "work").symlink_to("real")
    (outside / "config").write_text("")
    (tmp_path / "real" / ".git" / "config").symlink_to(outside / "config")
    (tmp_path / "real" / ".git" / "hooks").symlink_to("nowhere")
    (tmp_path / "real" / ".claude").symlink_to(".claude")
    limits = sandbox_limits(
        tmp_path / "work",
        writes_workspace=True,
        temporary=temporary,
        hidden=(outside / ".." / "outside", tmp_path / "missing"),
        extra=(tmp_path / "tmp" / "..", tmp_path / "real"),
    )
    assert limits.writable == (str(tmp_path / "real"), str(tmp_path))
    assert limits.read_only == (str(outside / "config"),)
    assert limits.hidden == (str(outside),)
    assert limits.private_writable == (str(temporary),)


def test_limits_resolve_links_anywhere_in_a_path(tmp_path: Path) -> None:
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "a" / "up").symlink_to("..")
    (tmp_path / "a" / "b" / "far").symlink_to(tmp_path / "link" / "b")
    (tmp_path / "loop").symlink_to("loop")
    spelled = (
        *("a/b/c", "link/b/c", "a/up/link/b", "a/b/far/c", "link", "link/../a/b", "link/b/..", "a/up/.."),
        *("loop", "loop/x", "none", "a/none/c", "link/up/link/up"),
    )
    given = (Path("/"), *(tmp_path / path for path in spelled), Path(f"/{tmp_path}/link/b"))
    existing = [path for path in given if os.path.exists(path)]
    limits = sandbox_limits(tmp_path, writes_workspace=True, temporary=tmp_path, extra=given)
    assert limits.writable == tuple(dict.fromkeys([str(tmp_path), *map(os.path.realpath, existing)]))


async def test_too_many_open_files_choose_no_weaker_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    def starved(*args: object, **options: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    found = CommandSandbox()
    with monkeypatch.context() as patch:
        patch.setattr(sandbox.subprocess, "run", starved)
        with pytest.raises(ToolError, match="too many open files") as raised:
            await found.backend("auto")
    assert is_out_of_descriptors(raised.value)
    assert await found.availability() == _AVAILABLE
