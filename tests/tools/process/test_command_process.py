"""A kill ends a command's whole process tree, whatever its processes do to survive (C7)."""

import asyncio
import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from io import FileIO
from pathlib import Path
from typing import Any, ClassVar

import pytest
import uvloop
from msgspec.structs import replace

from holdfast.config.provider_catalogue import PROVIDERS
from holdfast.errors import ToolError
from holdfast.tools.process import command_process
from holdfast.tools.process.command_process import (
    KILL_SECONDS,
    NON_INTERACTIVE,
    SUPERVISOR_SECONDS,
    CommandLauncher,
    command_environment,
)
from holdfast.tools.process.process_table import IS_LINUX, find_process, tree_below
from holdfast.tools.process.supervisor_program import SupervisorConnection, SupervisorProgram
from tests.support.running_server import until
from tests.support.stress import StressShare
from tests.support.stubborn_commands import (
    STUBBORN_COMMANDS,
    command,
    still_there,
    unique,
    until_ready,
    wait_until_dead,
)
from tests.support.tool_contexts import settings_of

pytestmark = pytest.mark.skipif(not IS_LINUX, reason="only Linux has child subreapers")

Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Run a coroutine on each kind of event loop."""
    with asyncio.Runner(loop_factory=request.param) as runner:
        yield runner.run


@asynccontextmanager
async def open_launcher(supervisor_seconds: float = SUPERVISOR_SECONDS):
    """A launcher that leaves no process behind."""
    before = await asyncio.to_thread(tree_below, os.getpid())
    launcher = CommandLauncher(supervisor_seconds=supervisor_seconds)
    try:
        yield launcher
    finally:
        await launcher.close()
        assert {p.pid for p in await asyncio.to_thread(tree_below, os.getpid())} <= {p.pid for p in before}


@pytest.mark.promise("C7")
@pytest.mark.parametrize("name", STUBBORN_COMMANDS)
async def test_kill_ends_every_process_of_a_stubborn_command(name: str) -> None:
    async with open_launcher() as launcher:
        with subprocess.Popen(["sleep", "1000"]) as bystander:
            running = await launcher.start(command(STUBBORN_COMMANDS[name].script, mark := f"call_{name}"))
            members = await until_ready(running, STUBBORN_COMMANDS[name].ready)
            result = await running.kill()
            assert result.left == ()
            assert result.killed
            assert await still_there(members, mark) == []
            assert bystander.poll() is None
            bystander.kill()
            running.stop_reading()


@pytest.mark.promise("C7")
def test_all_stubborn_commands_can_be_killed_at_once(run: Run) -> None:
    async def scenario() -> None:
        async with open_launcher(supervisor_seconds=8.0) as launcher:  # so many take longer on a busy machine
            every = [
                await launcher.start(command(stubborn.script, f"call_{name}"))
                for name, stubborn in STUBBORN_COMMANDS.items()
            ]
            ready = [await until_ready(r, a.ready) for r, a in zip(every, STUBBORN_COMMANDS.values(), strict=True)]
            results = await asyncio.gather(*(running.kill() for running in every))
            assert [result.left for result in results] == [()] * len(STUBBORN_COMMANDS)
            for name, processes in zip(STUBBORN_COMMANDS, ready, strict=True):
                assert await still_there(processes, f"call_{name}") == []
            for running in every:
                running.stop_reading()

    run(scenario())


@pytest.mark.promise("C7")
def test_a_kill_reaches_only_its_own_command(run: Run) -> None:
    async def scenario() -> None:
        async with open_launcher() as launcher:
            hidden = STUBBORN_COMMANDS["clears_its_environment"]
            first = await launcher.start(command(hidden.script, "call_1"))
            second = await launcher.start(command(hidden.script, "call_2"))
            of_first, of_second = await until_ready(first, 2), await until_ready(second, 2)
            await first.kill()
            assert await still_there(of_first) == []
            assert await still_there(of_second) == of_second
            await second.kill()
            assert await still_there(of_second) == []
            first.stop_reading()
            second.stop_reading()

    run(scenario())


@pytest.mark.promise("C7")
@pytest.mark.parametrize("attack", ["kill -KILL $PPID", "kill -STOP $PPID"])
def test_a_command_that_kills_or_stops_its_supervisor_is_killed(attack: str, run: Run) -> None:
    async def scenario() -> None:
        async with open_launcher() as launcher:
            stay = "echo ready $$; exec sleep 1000"
            script = f"setsid -f bash -c '{stay}'; env -i setsid -f bash -c '{stay}'; read < fifo; {attack}; sleep 1000"
            running = await launcher.start(command(script, "call_x", directory=home))
            processes = await until_ready(running, 2)
            await asyncio.to_thread((home / "fifo").write_text, "go\n")
            if "KILL" in attack:
                await running.wait_tree_ended()
            result = await running.kill()
            assert result.left == ()
            assert await still_there([], "call_x") == []
            await asyncio.to_thread(wait_until_dead, processes)
            running.stop_reading()

    home = Path(os.environ["HOME"])
    os.mkfifo(home / "fifo")
    run(scenario())


@pytest.mark.promise("C7")
def test_all_commands_end_when_the_server_is_killed(home: Path) -> None:
    program = """
import asyncio, sys
from holdfast.tools.process.command_process import CommandLauncher
from tests.support.tool_contexts import settings_of
from tests.support.stubborn_commands import STUBBORN_COMMANDS, command, until_ready

async def main():
    launcher = CommandLauncher()
    for name in ("ignores_signals", "clears_its_environment", "daemon"):
        running = await launcher.start(command(STUBBORN_COMMANDS[name].script, name))
        for process in await until_ready(running, STUBBORN_COMMANDS[name].ready):
            print(process.pid, flush=True)
    print("done", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        processes = [find_process(int(line)) for line in iter(server.stdout.readline, "done\n")]
        supervisors = tree_below(server.pid)
        server.kill()
    assert len(processes) == 4
    wait_until_dead([process for process in processes if process] + supervisors)


@pytest.mark.promise("C7")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a process that its own parent may not signal")
def test_a_process_that_survives_the_kill_is_named() -> None:
    script = "setpriv --reuid=65534 --clear-groups bash -c 'echo ready $$; exec sleep 1000'"
    program = f"""
import asyncio, time
from holdfast.tools.process.command_process import CommandLauncher
from tests.support.tool_contexts import settings_of
from tests.support.stubborn_commands import command, until_ready

async def main():
    launcher = CommandLauncher()
    running = await launcher.start(command({script!r}, "call_r"))
    [process] = await until_ready(running)
    began = time.monotonic()
    result = await running.kill()
    took = time.monotonic() - began
    running.stop_reading()
    print(process.pid, took < {KILL_SECONDS + 0.5}, *result.left, sep="|", flush=True)
    await launcher.close()

asyncio.run(main())
"""
    without_the_right_to_kill = ["setpriv", "--bounding-set", "-kill", "--inh-caps", "-kill"]
    argv = [*without_the_right_to_kill, sys.executable, "-c", program]
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True)
    pid, in_time, *left = done.stdout.strip().split("|")
    survivor = find_process(int(pid))
    assert survivor
    os.kill(survivor.pid, signal.SIGKILL)
    wait_until_dead([survivor])
    assert in_time == "True"
    assert left == [f"{pid} sleep 1000"]


@pytest.mark.parametrize("name", ["plain", "ignores_signals", "holds_the_pipe", "fifty", "stopped"])
async def test_without_subreapers_the_process_group_is_killed(name: str) -> None:
    class WithoutSubreapers(SupervisorProgram):
        code = (
            "from holdfast.tools.process import process_table, supervisor;"
            " supervisor.IS_LINUX = process_table.IS_LINUX = False; supervisor.main({descriptor})"
        )

    async with open_launcher() as launcher:
        launcher._program = await asyncio.to_thread(WithoutSubreapers)
        running = await launcher.start(command(STUBBORN_COMMANDS[name].script, mark := f"call_{name}"))
        members = await until_ready(running, STUBBORN_COMMANDS[name].ready)
        result = await running.kill()
        assert result.left == ()
        assert await still_there([], mark) == []
        await asyncio.to_thread(wait_until_dead, members)
        running.stop_reading()


def test_output_and_exit_code_are_those_of_the_command(run: Run) -> None:
    async def scenario() -> None:
        async with open_launcher() as launcher:
            running = await launcher.start(command("echo out; echo err >&2; exit 7", "call_1"))
            assert await running.output.read() == b"out\nerr\n"
            await running.wait_tree_ended()
            assert running.exit_code == 7
            running.stop_reading()

    run(scenario())


def test_a_command_ended_by_a_signal_has_a_negative_exit_code(run: Run) -> None:
    async def scenario() -> None:
        async with open_launcher() as launcher:
            running = await launcher.start(command("kill -SEGV $$", "call_1"))
            await running.wait_tree_ended()
            assert running.exit_code == -signal.SIGSEGV
            running.stop_reading()

    run(scenario())


async def test_processes_of_a_command_that_exited_keep_running() -> None:
    async with open_launcher() as launcher:
        running = await launcher.start(command(STUBBORN_COMMANDS["holds_the_pipe"].script, "call_1"))
        [process] = await until_ready(running)
        await running.wait_exited()
        assert running.exit_code == 3
        assert [name.split()[0] for name in await running.processes()] == [str(process.pid)]
        await running.kill()
        running.stop_reading()


async def test_a_command_has_default_signals_no_input_and_no_inherited_descriptors() -> None:
    async with open_launcher() as launcher:
        script = (
            "grep -E 'Sig(Ign|Blk)' /proc/self/status; readlink /proc/self/fd/0; ls /proc/self/fd; pwd; ps -o tty= $$"
        )
        running = await launcher.start(command(script, "call_1", directory=Path("/usr")))
        _, blocked, _, ignored, *rest = (await running.output.read()).decode().split()
        reserved_by_libc = 0b11 << 31  # signals 32 and 33, which programs cannot set and some parents ignore
        assert (int(blocked, 16), int(ignored, 16) & ~reserved_by_libc) == (0, 0)
        assert rest == ["/dev/null", "0", "1", "2", "3", "/usr", "?"]
        running.stop_reading()


async def test_a_command_gets_the_given_environment_and_its_mark() -> None:
    async with open_launcher() as launcher:
        spec = command("exec env -0", "call_1")
        running = await launcher.start(spec)
        lines = (await running.output.read()).decode().rstrip("\0").split("\0")
        seen = dict(line.split("=", 1) for line in lines)
        assert {name: seen[name] for name in seen.keys() - {"PWD", "SHLVL", "_"}} == {
            **spec.environment,
            "HOLDFAST_CALL": spec.mark,
        }
        running.stop_reading()


@pytest.mark.parametrize(
    ("argv", "directory", "reason"),
    [
        (("no-such-program",), Path("/"), "No such file"),
        (("true",), Path("/no/such/directory"), "'/no/such/directory'|/no/such/directory"),
        (("echo", "a\0b"), Path("/"), "zero byte"),
        (("echo", "x" * 200_000), Path("/"), "too long"),
    ],
)
async def test_a_command_that_cannot_start_raises_the_reason(
    argv: tuple[str, ...], directory: Path, reason: str
) -> None:
    async with open_launcher() as launcher:
        spec = command("", "call_1")
        broken = type(spec)(argv, directory, spec.environment, spec.mark)
        with pytest.raises(ToolError, match=reason):
            await launcher.start(broken)


async def test_a_command_that_cannot_start_has_the_number_of_the_error() -> None:
    async with open_launcher() as launcher:
        spec = command("", "call_1")
        with pytest.raises(ToolError) as raised:
            await launcher.start(replace(spec, argv=("/no/such/program",)))
    assert isinstance(raised.value.__cause__, OSError)
    assert raised.value.__cause__.errno == errno.ENOENT


async def test_the_supervisor_program_is_restarted_after_it_was_killed() -> None:
    async with open_launcher() as launcher:
        running = await launcher.start(command("echo one", "call_1"))
        await running.wait_tree_ended()
        running.stop_reading()
        ours = await asyncio.to_thread(tree_below, os.getpid())
        program = next(process for process in ours if process.pid == launcher.pid)
        os.kill(program.pid, signal.SIGKILL)
        await asyncio.to_thread(wait_until_dead, [program])
        again = await launcher.start(command("echo two", "call_2"))
        assert await again.output.read() == b"two\n"
        again.stop_reading()


async def test_concurrent_kills_get_one_result_and_a_cancelled_one_stops_nothing() -> None:
    async with open_launcher() as launcher:
        running = await launcher.start(command(STUBBORN_COMMANDS["ignores_signals"].script, "call_1"))
        processes = await until_ready(running)
        killers = [asyncio.create_task(running.kill()) for _ in range(3)]
        await asyncio.wait(killers, timeout=0)
        killers[0].cancel()
        first, second = await asyncio.gather(*killers[1:])
        assert first == second
        assert killers[0].cancelled()
        assert await still_there(processes, "call_1") == []
        running.stop_reading()


async def test_a_stopped_supervisor_program_is_replaced_and_its_commands_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_launcher() as launcher:
        first = await launcher.start(command(STUBBORN_COMMANDS["plain"].script, "call_1"))
        members = await until_ready(first)
        stopped = launcher.pid
        assert stopped
        os.kill(stopped, signal.SIGSTOP)
        monkeypatch.setattr(command_process, "START_SECONDS", 0.5)
        second = await launcher.start(command(STUBBORN_COMMANDS["plain"].script, "call_2"))
        members += await until_ready(second)  # perhaps of a supervisor that was waiting; then there is no other one
        third = await launcher.start(command("echo three", "call_3"))
        assert await third.output.read() == b"three\n"
        assert launcher.pid != stopped
        assert await still_there(members) == members
        assert (await first.kill()).left == ()
        assert (await second.kill()).left == ()
        assert await still_there(members, "call_1") == []
        first.stop_reading()
        second.stop_reading()
        third.stop_reading()


async def test_the_exit_code_of_the_shortest_command_is_never_lost() -> None:
    async with open_launcher() as launcher:
        for number in range(50):
            running = await launcher.start(command(f"exit {number}", f"call_{number}"))
            await running.wait_tree_ended()
            assert running.exit_code == number
            running.stop_reading()


async def supervisor_of(launcher: CommandLauncher, call: str) -> str:
    """Run a command to its end. Returns the process id of its supervisor."""
    running = await launcher.start(command("echo $PPID", call))
    supervisor = (await running.output.read()).decode().strip()
    await running.wait_tree_ended()
    running.stop_reading()
    return supervisor


async def test_a_supervisor_whose_command_has_ended_gets_another_one() -> None:
    async with open_launcher() as launcher:
        used = [await supervisor_of(launcher, f"call_{number}") for number in range(20)]
        assert len(set(used)) <= 10


async def test_a_supervisor_that_was_not_told_to_stay_gets_no_other_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server may signal a supervisor until it has read that the tree ended; it then tells it to stay."""
    monkeypatch.setattr(SupervisorConnection, "keep_supervisor", lambda self: None)
    async with open_launcher() as launcher:
        used = [await supervisor_of(launcher, f"call_{number}") for number in range(5)]
        assert len(set(used)) == 5


@pytest.mark.promise("C7")
async def test_a_supervisor_whose_command_was_killed_gets_no_other_command() -> None:
    async with open_launcher() as launcher:
        running = await launcher.start(command("echo $PPID; exec sleep 1000", "call_1"))
        supervisor = (await running.output.readline()).decode().strip()
        assert (await running.kill()).left == ()
        running.stop_reading()
        assert await supervisor_of(launcher, "call_2") != supervisor


async def test_one_supervisor_stays_when_commands_that_ran_side_by_side_have_ended(tmp_path: Path) -> None:
    async with open_launcher() as launcher:
        supervisors = []
        started = []
        for name in ("first", "second", "third"):
            os.mkfifo(tmp_path / name)
            running = await launcher.start(command(f"echo ready $PPID; read < {name}", name, directory=tmp_path))
            supervisors += await until_ready(running)
            started.append(running)
        for running, name in zip(started, ("first", "second", "third"), strict=True):
            await asyncio.to_thread((tmp_path / name).write_text, "go\n")
            await running.wait_tree_ended()
            running.stop_reading()
        await asyncio.to_thread(wait_until_dead, supervisors[1:])
        now = [await asyncio.to_thread(find_process, process.pid) for process in supervisors]
        assert [process is not None and process.alive for process in now] == [True, False, False]


async def test_a_command_starts_also_if_the_supervisor_that_stayed_was_killed() -> None:
    async with open_launcher() as launcher:
        supervisor = await supervisor_of(launcher, "call_1")
        program = launcher.pid
        os.kill(int(supervisor), signal.SIGKILL)
        assert await supervisor_of(launcher, "call_2") != supervisor
        assert launcher.pid == program


async def test_a_second_command_has_default_signals_no_descriptors_and_its_own_mark() -> None:
    script = "grep -E 'Sig(Ign|Blk)' /proc/self/status; ls /proc/self/fd; echo $HOLDFAST_CALL"
    async with open_launcher() as launcher:
        for call in ("call_1", "call_2", "call_3"):
            running = await launcher.start(command(script, call))
            _, blocked, _, ignored, *rest = (await running.output.read()).decode().split()
            await running.wait_tree_ended()
            running.stop_reading()
            reserved_by_libc = 0b11 << 31  # signals 32 and 33, which programs cannot set and some parents ignore
            assert (int(blocked, 16), int(ignored, 16) & ~reserved_by_libc) == (0, 0)
            assert rest == ["0", "1", "2", "3", unique(call)]


@pytest.mark.stress
@pytest.mark.promise("C7")
async def test_stubborn_commands_are_killed_many_times_side_by_side(share: StressShare) -> None:
    slowest = 0.0
    loop = asyncio.get_running_loop()
    async with open_launcher() as launcher:
        for number in share.rounds():
            marks = [f"call_{number}_{name}" for name in STUBBORN_COMMANDS]
            every = [
                await launcher.start(command(a.script, m))
                for a, m in zip(STUBBORN_COMMANDS.values(), marks, strict=True)
            ]
            members = [await until_ready(r, a.ready) for r, a in zip(every, STUBBORN_COMMANDS.values(), strict=True)]
            began = loop.time()
            results = await asyncio.gather(*(running.kill() for running in every))
            slowest = max(slowest, loop.time() - began)
            for mark, result, found, running in zip(marks, results, members, every, strict=True):
                assert result.left == ()
                assert await still_there(found, mark) == []
                running.stop_reading()
                share.count("processes killed", len(found))
            share.count("commands", len(every))
    share.note(f"slowest kill {slowest:.2f} s")


@pytest.mark.promise("W8")
@pytest.mark.parametrize("name", [name for provider in PROVIDERS.values() for name in provider.key_env])
def test_keys_of_known_providers_are_not_passed_on(name: str) -> None:
    assert name not in command_environment({name: "secret", "PATH": "/bin"}, settings_of())


@pytest.mark.promise("W8")
@pytest.mark.parametrize(
    "name", ["HOLDFAST_TOKEN", "MY_KEY", "TEAM_TOKEN", "SEARCH_KEY", "TAVILY_API_KEY", "anthropic_api_key"]
)
def test_configured_keys_and_server_tokens_are_not_passed_on(name: str) -> None:
    settings = settings_of(
        providers={
            "mine": {
                "wire": "openai-chat",
                "base_url": "http://127.0.0.1:1",
                "api_key": "env:MY_KEY",
                "headers": {"X-Team": "env:TEAM_TOKEN"},
            }
        },
        web_search={"provider": "brave", "api_key": "env:SEARCH_KEY"},
    )
    assert name not in command_environment({name: "secret"}, settings)


def test_other_variables_are_passed_on() -> None:
    base = {"PATH": "/bin", "HOME": "/root", "GITHUB_TOKEN": "the user's own", "LANG": "C"}
    assert command_environment(base, settings_of()) == {**base, **NON_INTERACTIVE}


def test_the_users_pager_is_replaced() -> None:
    assert command_environment({"PAGER": "less"}, settings_of())["PAGER"] == "cat"


def test_a_piped_command_reads_its_input_and_has_its_errors_apart(run: Run, tmp_path: Path) -> None:
    async def check() -> None:
        async with open_launcher() as launcher:
            spec = command(
                "echo oops >&2; while read line; do echo got $line; done; echo the end", "piped", directory=tmp_path
            )
            running = await launcher.start(replace(spec, piped=True))
            assert running.input is not None
            assert running.errors is not None
            assert await running.errors.readline() == b"oops\n"
            for line in (b"one", b"two"):
                running.input.write(line + b"\n")
                assert await running.output.readline() == b"got " + line + b"\n"
            running.input.close()
            assert await running.output.read() == b"the end\n"
            await running.wait_tree_ended()
            assert running.exit_code == 0
            running.stop_reading()
            waiting = await launcher.start(replace(spec, piped=True, mark=f"{spec.mark}-second"))
            assert (await waiting.kill()).left == ()
            waiting.stop_reading()

    run(check())


class ReusedAfterClose(FileIO):
    """A file whose number belongs to somebody else if it is closed before the file is."""

    reused: ClassVar[list[int]] = []
    seen: ClassVar[list[int]] = []

    def close(self) -> None:
        if not self.closed:
            self.seen.append(number := self.fileno())
            if not is_open(number):
                with open(os.devnull, "rb") as other:
                    os.dup2(other.fileno(), number)
                self.reused.append(number)
        super().close()


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def test_the_end_of_a_command_closes_no_file_of_somebody_else(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """uvloop closes a pipe's number, then the file: in between, another thread may open one with the same number."""
    reused, seen = list[int](), list[int]()
    monkeypatch.setattr(ReusedAfterClose, "reused", reused)
    monkeypatch.setattr(ReusedAfterClose, "seen", seen)
    monkeypatch.setattr(
        os, "fdopen", lambda fd, mode, buffering, **options: ReusedAfterClose(fd, mode.strip("b"), **options)
    )

    async def check() -> None:
        async with open_launcher() as launcher:
            running = await launcher.start(replace(command("echo done", "closing"), piped=True))
            assert await running.output.read() == b"done\n"
            await running.wait_tree_ended()
            running.stop_reading()
            await until(lambda: len(seen) == 1)  # its input; we close the numbers of the others

    run(check())
    assert [number for number in reused if not is_open(number)] == []
    for number in reused:
        os.close(number)
    assert [number for number in seen if is_open(number)] == []


def test_a_command_cancelled_while_it_starts_leaves_no_pipe_open(run: Run) -> None:
    def pipes() -> set[str]:
        names = {f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")}
        return {os.readlink(name) for name in names if os.path.islink(name) and "pipe:" in os.readlink(name)}

    async def check() -> None:
        async with open_launcher() as launcher:
            first = await launcher.start(command("true", "first"))
            await first.wait_tree_ended()
            first.stop_reading()
            before = await asyncio.to_thread(pipes)
            for steps in range(12):
                starting = asyncio.create_task(launcher.start(replace(command("true", f"{steps}"), piped=True)))
                for _ in range(steps):
                    await asyncio.sleep(0)
                starting.cancel()
                for started in await asyncio.gather(starting, return_exceptions=True):
                    if not isinstance(started, asyncio.CancelledError):
                        assert not isinstance(started, BaseException)
                        await started.kill()
                        started.stop_reading()
            while await asyncio.to_thread(pipes) - before:
                pass

    run(check())
