"""Commands in namespaces of their own: what they see, which rights they have, how they start and end."""

import asyncio
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from holdfast.errors import ToolError
from holdfast.tools.process import command_process, landlock
from holdfast.tools.process.command_process import CommandLauncher, CommandSpec, RunningCommand
from holdfast.tools.process.mount_namespace import NamespaceView, enter_namespace
from holdfast.tools.process.process_table import Process, find_process, tree_below
from holdfast.tools.process.sandbox import Confinement, Ruleset, probe_sandboxes
from holdfast.tools.process.supervisor import CommandKind, CommandRequest, KillTimes
from tests.support.stubborn_commands import STUBBORN_COMMANDS, command, still_there, until_ready, wait_until_dead

_PROBLEM = probe_sandboxes().namespace
pytestmark = pytest.mark.skipif(bool(_PROBLEM), reason=_PROBLEM or "works")

_NOBODY = 65534
_PR_SET_DUMPABLE = 4


@pytest.fixture
def scope() -> Ruleset:
    return Ruleset(landlock.make_scope_ruleset())


def run_confined(
    script: str, view: NamespaceView, scope: Ruleset, *, directory: Path = Path("/"), user: int | None = None
) -> subprocess.CompletedProcess[str]:
    def confine() -> None:
        if user is not None:
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
        enter_namespace(view, directory=str(directory))
        landlock.restrict_thread(scope.fileno())

    return subprocess.run(
        ["/bin/bash", "-c", script],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
        preexec_fn=confine,
    )


@pytest_asyncio.fixture
async def launcher() -> AsyncIterator[CommandLauncher]:
    found = CommandLauncher()
    yield found
    await found.close()


async def start(launcher: CommandLauncher, spec: CommandSpec, scope: Ruleset, view: NamespaceView) -> RunningCommand:
    return await launcher.start(msgspec.structs.replace(spec, confinement=Confinement(scope, view)))


async def output_of(running: RunningCommand) -> str:
    text = await running.output.read()
    await running.wait_tree_ended()
    running.stop_reading()
    return text.decode()


def test_a_request_with_a_view_is_unpacked_as_it_was() -> None:
    view = NamespaceView(("/a b", "/ö\n"), ("/a b/c",), (), ("/h",), ("/h/v", "/h/1"), ("/h/2",), network=False)
    for sent in (view, NamespaceView(), None):
        request = CommandRequest("/d", ["bash", "-c", ""], {"A": "", "B": "x=y"}, 0.4, 1.0, sent)
        assert CommandRequest.unpack(body := request.pack()[4:]) == request
        assert KillTimes.unpack(body) == (0.4, 1.0)


async def test_a_command_that_was_not_announced_as_confined_is_not_started(
    launcher: CommandLauncher, scope: Ruleset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its supervisor reads the rest of the request only after it has chosen how to start it."""
    monkeypatch.setattr(command_process, "CommandKind", lambda piped, **_: CommandKind(piped, in_namespace=False))
    with pytest.raises(ToolError, match="was not announced"):
        await start(launcher, command(f"touch {tmp_path}/new", "call_a"), scope, NamespaceView())
    assert not (tmp_path / "new").exists()


@pytest.mark.promise("C7")
async def test_stubborn_commands_in_namespaces_can_be_killed(launcher: CommandLauncher, scope: Ruleset) -> None:
    for name, stubborn in STUBBORN_COMMANDS.items():
        running = await start(launcher, command(stubborn.script, mark := f"call_{name}"), scope, NamespaceView())
        members = await until_ready(running, stubborn.ready)
        result = await running.kill()
        assert (result.left, bool(result.killed)) == ((), True), name
        assert await still_there(members, mark) == []
        running.stop_reading()


async def test_confined_and_unconfined_commands_alternate(launcher: CommandLauncher, scope: Ruleset) -> None:
    """The process that waits for a confined command is not used for an unconfined one, and does not stay."""
    for _ in range(3):
        spec = command("echo x > /dev/null; readlink /proc/self/ns/mnt; exit 3", "call_a")
        confined = await start(launcher, spec, scope, NamespaceView())
        plain = await launcher.start(spec)
        mine = os.readlink("/proc/self/ns/mnt")
        assert (await output_of(plain)).strip() == mine
        assert (await output_of(confined)).strip() not in ("", mine)
        assert plain.exit_code == confined.exit_code == 3


async def test_no_namespace_of_a_command_stays_when_it_has_ended(launcher: CommandLauncher, scope: Ruleset) -> None:
    def kept() -> list[str]:
        found = []
        for process in tree_below(os.getpid()):
            with suppress(FileNotFoundError):
                found += [os.readlink(entry.path) for entry in os.scandir(f"/proc/{process.pid}/fd")]
        return [name for name in found if name.startswith("mnt:")]

    running = await start(launcher, command("exec sleep 1000", "call_a"), scope, NamespaceView())
    await running.kill()
    running.stop_reading()
    assert await output_of(await start(launcher, command("echo done", "call_b"), scope, NamespaceView())) == "done\n"
    while await asyncio.to_thread(kept):
        pass


async def test_a_confined_program_can_have_pipes(launcher: CommandLauncher, scope: Ruleset) -> None:
    spec = msgspec.structs.replace(command("read x; echo $x >&2; echo out; exec cat", "call_a"), piped=True)
    for _ in range(2):
        running = await start(launcher, spec, scope, NamespaceView())
        assert running.input is not None
        assert running.errors is not None
        running.input.write(b"first\nsecond\n")
        running.input.close()
        assert await running.errors.read() == b"first\n"
        assert await output_of(running) == "out\nsecond\n"


async def test_a_program_that_does_not_exist_is_reported(launcher: CommandLauncher, scope: Ruleset) -> None:
    spec = msgspec.structs.replace(command("", "call_a"), argv=("/no/such/program",))
    for _ in range(2):
        with pytest.raises(ToolError, match="No such file or directory"):
            await start(launcher, spec, scope, NamespaceView())


async def test_without_a_ruleset_for_signals_nothing_is_started(launcher: CommandLauncher, tmp_path: Path) -> None:
    spec = command(f"touch {tmp_path}/new", "call_a")
    with pytest.raises(ToolError, match="cannot be started"):
        await launcher.start(
            msgspec.structs.replace(spec, confinement=Confinement(None, NamespaceView(writable=(str(tmp_path),))))
        )
    assert not (tmp_path / "new").exists()


async def test_a_path_that_became_a_link_ends_the_start(
    launcher: CommandLauncher, scope: Ruleset, tmp_path: Path
) -> None:
    """A job of the same workspace could exchange a directory between the plan and the start."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "cache").symlink_to(tmp_path / "outside")
    spec = command(f"touch {tmp_path}/outside/new", "call_a")
    for field in ("writable", "read_only", "hidden", "visible", "private_writable"):
        view = NamespaceView()._replace(**{field: (f"{tmp_path}/workspace/cache",)})
        with pytest.raises(ToolError, match=r"symbolic links.*cache"):
            await start(launcher, spec, scope, view)
    assert list((tmp_path / "outside").iterdir()) == []


async def test_a_waiting_process_ends_with_its_supervisors(launcher: CommandLauncher, scope: Ruleset) -> None:
    await output_of(await start(launcher, command("true", "call_a"), scope, NamespaceView()))
    await output_of(await start(launcher, command("true", "call_b"), scope, NamespaceView()))
    assert launcher.pid is not None
    await asyncio.to_thread(_wait_for_prepared, launcher.pid)
    waiting = await asyncio.to_thread(tree_below, launcher.pid)
    await launcher.close()
    await asyncio.to_thread(wait_until_dead, waiting)


def _wait_for_prepared(pid: int) -> Process:
    """The process that will become the next command. It is below a supervisor; others may wait beside that."""
    while not (found := [process for process in tree_below(pid) if process.parent != pid]):
        time.sleep(0.01)
    return found[0]


def test_a_command_has_no_privileges_and_its_own_devices(scope: Ruleset) -> None:
    script = (
        "grep -E '^(CapPrm|CapEff|CapInh|CapAmb|NoNewPrivs)' /proc/self/status; ls /dev;"
        " echo x > /dev/null && head -c 1 /dev/zero > /dev/shm/x && test -s /dev/shm/x && echo devices;"
        " test -e /dev/pts/0 || echo no terminals; echo 1 > /proc/sys/kernel/printk || echo no controls"
    )
    lines = run_confined(script, NamespaceView(), scope).stdout.split("\n")
    rights = {line.split()[0]: int(line.split()[1], 16) for line in lines[:5]}
    allowed = 0b1011 if os.geteuid() == 0 else 0
    assert rights == {"CapInh:": 0, "CapPrm:": allowed, "CapEff:": allowed, "CapAmb:": 0, "NoNewPrivs:": 1}
    links = {"fd", "stdin", "stdout", "stderr", "ptmx", "pts", "shm"}
    assert set(lines[5:-4]) <= {"null", "zero", "full", "random", "urandom", "tty"} | links
    assert lines[-4:] == ["devices", "no terminals", "no controls", ""]


@pytest.mark.skipif(os.geteuid() != 0, reason="other users cannot change the kernel's settings anyway")
@pytest.mark.parametrize("writable", [(), ("/",)])
def test_root_cannot_change_the_kernel_in_proc_but_its_own_processes(scope: Ruleset, writable: tuple[str, ...]) -> None:
    controls = {name for name in ("sys", "sysrq-trigger", "irq", "bus", "fs") if Path("/proc", name).exists()}
    script = "cat /proc/self/mountinfo; echo new > /proc/$$/comm && read name < /proc/$$/comm; echo $name"
    *mounts, name = run_confined(script, NamespaceView(writable), scope).stdout.splitlines()
    options = {(fields := line.split())[4]: fields[5] for line in mounts}  # the last one at a place is seen
    assert {path for path in options if path.removeprefix("/proc/") in controls} == {
        f"/proc/{each}" for each in controls
    }
    assert {options[f"/proc/{each}"][:3] for each in controls} == {"ro,"}
    assert (options["/proc"][:3], name) == ("rw,", "new")


@pytest.mark.parametrize(
    "attack",
    [
        "umount {hidden}",
        "umount -l {hidden}",
        "mount --move {hidden} {workspace}",
        "mount -o remount,rw {hidden}",
        "mount --bind {parent} {workspace}",
        "mount --rbind / {workspace}; W={workspace}",
        "mount -t proc proc /proc",
        "pivot_root . .",
        "umount -l /",
        "mount -o remount,bind,rw /; mount -o remount,bind,rw {parent}",
        "umount {workspace}/config; mount -o remount,bind,rw {workspace}/config",
    ],
)
def test_nested_namespaces_reveal_and_change_nothing(scope: Ruleset, tmp_path: Path, attack: str) -> None:
    hidden, workspace = tmp_path / "hidden", tmp_path / "workspace"
    for directory in (hidden, workspace):
        directory.mkdir()
    (hidden / "secret").write_text("precious")
    (workspace / "config").write_text("good")
    view = NamespaceView(writable=(str(workspace),), read_only=(f"{workspace}/config",), hidden=(str(hidden),))
    line = attack.format(hidden=hidden, workspace=workspace, parent=tmp_path)
    reads = f"cat {{,$W}}{hidden}/secret {workspace}/hidden/secret"
    tries = f"{line}; {reads}; echo bad > {workspace}/config; mkdir {tmp_path}/new"
    for options in ("-rm", "-rmpf", "-rmn"):
        done = run_confined(f"unshare {options} bash -c '{tries}'; {tries}", view, scope, directory=workspace)
        assert "precious" not in done.stdout
        assert (workspace / "config").read_text() == "good"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["hidden", "workspace"]


_HOSTILE_LINES = (
    *("chmod 777 $O/f", "chown 1234 $O/f", "touch -d 2001-01-01 $O/f", "ln -f $O/f hard && echo x > hard"),
    *("install -m 777 /etc/hostname $O/f", "dd if=/etc/hostname of=$O/f conv=notrunc", "mv $W $O/moved"),
    *("echo x > config", "mv config other", "ln -f config c2; echo x > c2", "chmod 777 config"),
    "cp --remove-destination /etc/hostname config",
    *("cat $H/secret", "ls -a $H | grep secret", "cat /proc/1/root$H/secret", "chroot /proc/1/root cat $H/secret"),
    "for p in /proc/[0-9]*; do cat $p/root$H/secret $p/task/*/root$H/secret; done",
    *("tr '\\0' '\\n' < /proc/$D/environ", "ls -l /proc/$D/fd", "cat < /proc/$D/fd/0", "cat /proc/$D/mem"),
    *("kill -9 $D", "kill -STOP $D", "kill -0 $D && echo REACHED", "nsenter -t $D -m cat $H/secret"),
    *("mount --bind . $O && echo REACHED", "mount -t tmpfs x $O && echo REACHED", "umount $H; cat $H/secret"),
    "cat /proc/sys/kernel/printk > /proc/sys/kernel/printk && echo REACHED",
    "mkdir /sys/fs/cgroup/*/holdfast-test && echo REACHED",
    "mknod d b 1 0 && head -c 1 d && echo REACHED",
    "setsid -f bash -c 'echo x > $O/f'; sleep 0.1",
)


def test_hostile_lines_change_and_reveal_nothing(
    scope: Ruleset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside, hidden, workspace = tmp_path / "outside", tmp_path / "hidden", tmp_path / "workspace"
    for directory in (outside, hidden, workspace):
        directory.mkdir()
    for file in (outside / "f", hidden / "secret", workspace / "config"):
        file.write_text("precious")
    view = NamespaceView(writable=(str(workspace),), read_only=(f"{workspace}/config",), hidden=(str(hidden),))

    def state() -> list[object]:
        found = [(path, path.lstat()) for path in sorted((*outside.rglob("*"), *hidden.rglob("*"), outside))]
        stamps = [(path, status.st_mode, status.st_uid, status.st_mtime_ns, status.st_nlink) for path, status in found]
        return [*stamps, (outside / "f").read_text(), (workspace / "config").read_text()]

    with (
        (hidden / "secret").open() as secret,
        subprocess.Popen(["sleep", "1000"], stdin=secret, env={"KEY": "precious"}) as bystander,
    ):
        for name, value in (("O", outside), ("W", workspace), ("H", hidden), ("D", bystander.pid)):
            monkeypatch.setenv(name, str(value))
        before = state()
        for line in _HOSTILE_LINES:
            printed = run_confined(line, view, scope, directory=workspace).stdout
            assert "precious" not in printed, line
            assert "REACHED" not in printed, line
            assert state() == before, line
            found = find_process(bystander.pid)
            assert found is not None
            assert found.alive, line
            assert found.state != "T", line
        bystander.kill()


def test_a_workspace_among_the_devices_is_seen(scope: Ruleset) -> None:
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("there is no /dev/shm")
    directory = Path(tempfile.mkdtemp(dir="/dev/shm", prefix="holdfast-test-"))
    try:
        for name in ("workspace", "hidden", "hidden/tmp"):
            (directory / name).mkdir()
        (directory / "hidden" / "secret").write_text("precious")
        (directory / "workspace" / "config").write_text("good")
        view = NamespaceView(
            writable=(f"{directory}/workspace",),
            read_only=(f"{directory}/workspace/config",),
            hidden=(f"{directory}/hidden",),
            private_writable=(f"{directory}/hidden/tmp",),
        )
        script = f"echo x > new; echo x > ../hidden/tmp/new; echo x > config; cat {directory}/hidden/secret"
        done = run_confined(script, view, scope, directory=directory / "workspace")
        assert done.stdout == ""
        assert (directory / "workspace" / "config").read_text() == "good"
        assert (directory / "workspace" / "new").exists()
        assert (directory / "hidden" / "tmp" / "new").exists()
    finally:
        shutil.rmtree(directory)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_an_ordinary_user_is_confined_in_a_user_namespace(scope: Ruleset) -> None:
    directory = Path(tempfile.mkdtemp(prefix="holdfast-test-"))
    try:
        for name in ("workspace", "hidden", "other"):
            (directory / name).mkdir()
            os.chown(directory / name, _NOBODY, _NOBODY)
        directory.chmod(0o755)
        (directory / "hidden" / "secret").write_text("precious")
        view = NamespaceView(writable=(f"{directory}/workspace",), hidden=(f"{directory}/hidden",), network=False)
        script = "id -u; touch new; touch ../other/new; cat ../hidden/secret; cat /sys/class/net/*/operstate | wc -l"
        done = run_confined(script, view, scope, directory=directory / "workspace", user=_NOBODY)
        assert done.stdout.splitlines()[0] == str(_NOBODY)
        assert "precious" not in done.stdout
        assert list((directory / "other").iterdir()) == []
        assert (directory / "workspace" / "new").stat().st_uid == _NOBODY
    finally:
        shutil.rmtree(directory)


def test_a_low_limit_of_open_files_is_enough() -> None:
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))\n"
        "from holdfast.tools.process.mount_namespace import NamespaceView, enter_namespace\n"
        "enter_namespace(NamespaceView(hidden=('/mnt',)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
async def test_a_command_sees_what_was_mounted_after_its_process_was_prepared(
    launcher: CommandLauncher, scope: Ruleset, tmp_path: Path
) -> None:
    for name in ("first", "second"):
        await output_of(await start(launcher, command("true", "call_a"), scope, NamespaceView()))
        assert launcher.pid is not None
        waiting = await asyncio.to_thread(_wait_for_prepared, launcher.pid)
        await asyncio.to_thread(_wait_for_namespace, waiting)
        subprocess.run(["mount", "-t", "tmpfs", name, str(tmp_path)], check=True)
        try:
            await asyncio.to_thread(wait_until_dead, [waiting])  # it would keep what is unmounted
            found = await output_of(
                await start(launcher, command("cat /proc/mounts", "call_b"), scope, NamespaceView())
            )
            assert f"{name} {tmp_path} tmpfs" in found
        finally:
            subprocess.run(["umount", str(tmp_path)], check=True)


async def test_a_prepared_process_is_not_used_with_another_network(launcher: CommandLauncher, scope: Ruleset) -> None:
    mine = os.readlink("/proc/self/ns/net")
    for network in (True, False, False, True, True):
        running = await start(
            launcher, command("readlink /proc/self/ns/net", "call_a"), scope, NamespaceView(network=network)
        )
        assert ((await output_of(running)).strip() == mine) == network


def _wait_for_namespace(process: Process) -> None:
    mine = os.readlink("/proc/self/ns/mnt")
    with suppress(FileNotFoundError):  # another test has mounted something, which ended it
        while os.readlink(f"/proc/{process.pid}/ns/mnt") == mine:
            time.sleep(0.01)
