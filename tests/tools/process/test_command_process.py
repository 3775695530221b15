"""A command's whole tree ends when it is told to, whatever its processes do to stay (C7)."""

import asyncio
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop

from holdfast.config.provider_catalogue import PROVIDERS
from holdfast.errors import ToolError
from holdfast.tools.process import command_process
from holdfast.tools.process.command_process import KILL_SECONDS, NON_INTERACTIVE, CommandLauncher, child_environment
from holdfast.tools.process.process_table import IS_LINUX, Process, find_process, tree_below
from tests.support.stubborn_commands import STUBBORN_COMMANDS, command, still_there, until_ready
from tests.support.tool_contexts import settings_of

pytestmark = pytest.mark.skipif(not IS_LINUX, reason="child subreapers are Linux's; elsewhere groups take their place")

Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Runs a coroutine on each kind of loop."""
    with asyncio.Runner(loop_factory=request.param) as runner:
        yield runner.run


@asynccontextmanager
async def keeping():
    before = await asyncio.to_thread(tree_below, os.getpid())
    launcher = CommandLauncher()
    try:
        yield launcher
    finally:
        await launcher.close()
        assert {p.pid for p in await asyncio.to_thread(tree_below, os.getpid())} <= {p.pid for p in before}


def wait_for_the_end_of(processes: list[Process]) -> None:
    """Until the kernel says that all of them have ended."""
    for process in processes:
        try:
            descriptor = os.pidfd_open(process.pid)
        except ProcessLookupError:
            continue
        try:
            now = find_process(process.pid)
            if now and now.started == process.started:
                assert select.select([descriptor], [], [], 10)[0], f"{process} did not end"
        finally:
            os.close(descriptor)


@pytest.mark.promise("C7")
@pytest.mark.parametrize("name", STUBBORN_COMMANDS)
async def test_nothing_is_left_after_a_kill(name: str) -> None:
    async with keeping() as launcher:
        with subprocess.Popen(["sleep", "1000"]) as bystander:
            running = await launcher.start(command(STUBBORN_COMMANDS[name].script, mark := f"call_{name}"))
            members = await until_ready(running, STUBBORN_COMMANDS[name].ready)
            death = await running.kill()
            assert death.left == ()
            assert death.killed
            assert await still_there(members, mark) == []
            assert bystander.poll() is None
            bystander.kill()
            running.stop_reading()


@pytest.mark.promise("C7")
def test_the_whole_zoo_at_once_is_gone_after_killing_it(run: Run) -> None:
    async def scenario() -> None:
        async with keeping() as launcher:
            every = [
                await launcher.start(command(stubborn.script, f"call_{name}"))
                for name, stubborn in STUBBORN_COMMANDS.items()
            ]
            ready = [await until_ready(r, a.ready) for r, a in zip(every, STUBBORN_COMMANDS.values(), strict=True)]
            deaths = await asyncio.gather(*(running.kill() for running in every))
            assert [death.left for death in deaths] == [()] * len(STUBBORN_COMMANDS)
            for name, processes in zip(STUBBORN_COMMANDS, ready, strict=True):
                assert await still_there(processes, f"call_{name}") == []
            for running in every:
                running.stop_reading()

    run(scenario())


@pytest.mark.promise("C7")
def test_a_kill_reaches_only_its_own_command(run: Run) -> None:
    async def scenario() -> None:
        async with keeping() as launcher:
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
def test_a_command_that_takes_out_its_supervisor_is_still_ended(attack: str, run: Run) -> None:
    async def scenario() -> None:
        async with keeping() as launcher:
            stay = "echo ready $$; exec sleep 1000"
            script = f"setsid -f bash -c '{stay}'; env -i setsid -f bash -c '{stay}'; read < fifo; {attack}; sleep 1000"
            running = await launcher.start(command(script, "call_x", directory=home))
            processes = await until_ready(running, 2)
            await asyncio.to_thread((home / "fifo").write_text, "go\n")
            if "KILL" in attack:
                await running.wait_gone()
            death = await running.kill()
            assert death.left == ()
            assert await still_there([], "call_x") == []
            await asyncio.to_thread(wait_for_the_end_of, processes)
            running.stop_reading()

    home = Path(os.environ["HOME"])
    os.mkfifo(home / "fifo")
    run(scenario())


@pytest.mark.promise("C7")
def test_everything_ends_when_the_server_is_killed(home: Path) -> None:
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
        kept = tree_below(server.pid)
        server.kill()
    assert len(processes) == 4
    wait_for_the_end_of([process for process in processes if process] + kept)


@pytest.mark.promise("C7")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a process that its own parent may not signal")
def test_what_will_not_die_is_named_and_given_up() -> None:
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
    death = await running.kill()
    took = time.monotonic() - began
    running.stop_reading()
    print(process.pid, took < {KILL_SECONDS + 0.5}, *death.left, sep="|", flush=True)
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
    wait_for_the_end_of([survivor])
    assert in_time == "True"
    assert left == [f"{pid} sleep 1000"]


@pytest.mark.parametrize("name", ["plain", "ignores_signals", "holds_the_pipe", "fifty", "stopped"])
async def test_where_there_are_no_subreapers_the_group_is_killed(name: str) -> None:
    class Elsewhere(command_process._SupervisorProcess):
        program = "from holdfast.tools import keeper as k, proctable as p; k.IS_LINUX = p.IS_LINUX = False; k.main({})"

    async with keeping() as launcher:
        launcher._keeper = await asyncio.to_thread(Elsewhere)
        running = await launcher.start(command(STUBBORN_COMMANDS[name].script, mark := f"call_{name}"))
        members = await until_ready(running, STUBBORN_COMMANDS[name].ready)
        death = await running.kill()
        assert death.left == ()
        assert await still_there([], mark) == []
        await asyncio.to_thread(wait_for_the_end_of, members)
        running.stop_reading()


def test_output_and_exit_code_are_the_commands(run: Run) -> None:
    async def scenario() -> None:
        async with keeping() as launcher:
            running = await launcher.start(command("echo out; echo err >&2; exit 7", "call_1"))
            assert await running.output.read() == b"out\nerr\n"
            await running.wait_gone()
            assert running.exit_code == 7
            running.stop_reading()

    run(scenario())


def test_a_commands_death_by_signal_is_a_negative_code(run: Run) -> None:
    async def scenario() -> None:
        async with keeping() as launcher:
            running = await launcher.start(command("kill -SEGV $$", "call_1"))
            await running.wait_gone()
            assert running.exit_code == -signal.SIGSEGV
            running.stop_reading()

    run(scenario())


async def test_a_command_that_ends_early_leaves_what_it_started_running() -> None:
    async with keeping() as launcher:
        running = await launcher.start(command(STUBBORN_COMMANDS["holds_the_pipe"].script, "call_1"))
        [process] = await until_ready(running)
        await running.wait_exited()
        assert running.exit_code == 3
        assert [name.split()[0] for name in await running.names()] == [str(process.pid)]
        await running.kill()
        running.stop_reading()


async def test_a_command_has_default_signals_no_input_and_no_descriptor_of_ours() -> None:
    async with keeping() as launcher:
        script = (
            "grep -E 'Sig(Ign|Blk)' /proc/self/status; readlink /proc/self/fd/0; ls /proc/self/fd; pwd; ps -o tty= $$"
        )
        running = await launcher.start(command(script, "call_1", directory=Path("/usr")))
        _, blocked, _, ignored, *rest = (await running.output.read()).decode().split()
        c_librarys_own = 0b11 << 31  # signals 32 and 33, which no program can set; some parents hand them down ignored
        assert (int(blocked, 16), int(ignored, 16) & ~c_librarys_own) == (0, 0)
        assert rest == ["/dev/null", "0", "1", "2", "3", "/usr", "?"]
        running.stop_reading()


async def test_a_commands_environment_is_what_was_given_and_its_mark() -> None:
    async with keeping() as launcher:
        asked = command("exec env -0", "call_1")
        running = await launcher.start(asked)
        lines = (await running.output.read()).decode().rstrip("\0").split("\0")
        seen = dict(line.split("=", 1) for line in lines)
        assert {name: seen[name] for name in seen.keys() - {"PWD", "SHLVL", "_"}} == {
            **asked.environment,
            "HOLDFAST_CALL": asked.mark,
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
async def test_a_command_that_cannot_start_says_why(argv: tuple[str, ...], directory: Path, reason: str) -> None:
    async with keeping() as launcher:
        asked = command("", "call_1")
        broken = type(asked)(argv, directory, asked.environment, asked.mark)
        with pytest.raises(ToolError, match=reason):
            await launcher.start(broken)


async def test_the_keeper_is_started_again_when_it_was_killed() -> None:
    async with keeping() as launcher:
        running = await launcher.start(command("echo one", "call_1"))
        await running.wait_gone()
        running.stop_reading()
        ours = await asyncio.to_thread(tree_below, os.getpid())
        keeper = next(process for process in ours if process.pid == launcher.pid)
        os.kill(keeper.pid, signal.SIGKILL)
        await asyncio.to_thread(wait_for_the_end_of, [keeper])
        again = await launcher.start(command("echo two", "call_2"))
        assert await again.output.read() == b"two\n"
        again.stop_reading()


async def test_many_killers_get_one_answer_and_a_cancelled_one_stops_nothing() -> None:
    async with keeping() as launcher:
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


async def test_a_keeper_that_was_stopped_is_replaced_and_its_commands_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async with keeping() as launcher:
        first = await launcher.start(command(STUBBORN_COMMANDS["plain"].script, "call_1"))
        members = await until_ready(first)
        stopped = launcher.pid
        assert stopped
        os.kill(stopped, signal.SIGSTOP)
        monkeypatch.setattr(command_process, "START_SECONDS", 0.5)
        second = await launcher.start(command("echo two", "call_2"))
        assert await second.output.read() == b"two\n"
        assert launcher.pid != stopped
        assert await still_there(members) == members
        assert (await first.kill()).left == ()
        assert await still_there(members, "call_1") == []
        first.stop_reading()
        second.stop_reading()


async def test_the_exit_code_of_the_shortest_command_is_never_lost() -> None:
    async with keeping() as launcher:
        for number in range(50):
            running = await launcher.start(command(f"exit {number}", f"call_{number}"))
            await running.wait_gone()
            assert running.exit_code == number
            running.stop_reading()


@pytest.mark.stress
@pytest.mark.timeout(600)
@pytest.mark.promise("C7")
async def test_the_zoo_many_times_beside_other_commands() -> None:
    rounds, slowest, gone = 25, 0.0, 0
    loop = asyncio.get_running_loop()
    async with keeping() as launcher:
        for number in range(rounds):
            marks = [f"call_{number}_{name}" for name in STUBBORN_COMMANDS]
            every = [
                await launcher.start(command(a.script, m))
                for a, m in zip(STUBBORN_COMMANDS.values(), marks, strict=True)
            ]
            members = [await until_ready(r, a.ready) for r, a in zip(every, STUBBORN_COMMANDS.values(), strict=True)]
            began = loop.time()
            deaths = await asyncio.gather(*(running.kill() for running in every))
            slowest = max(slowest, loop.time() - began)
            for mark, death, found, running in zip(marks, deaths, members, every, strict=True):
                assert death.left == ()
                assert await still_there(found, mark) == []
                running.stop_reading()
                gone += len(found)
    commands = rounds * len(STUBBORN_COMMANDS)
    print(f"{rounds} rounds, {commands} commands, {gone} named processes gone, slowest round {slowest:.2f} s")


@pytest.mark.promise("W8")
@pytest.mark.parametrize("name", [name for provider in PROVIDERS.values() for name in provider.key_env])
def test_no_known_providers_key_is_passed_on(name: str) -> None:
    assert name not in child_environment({name: "secret", "PATH": "/bin"}, settings_of())


@pytest.mark.promise("W8")
@pytest.mark.parametrize(
    "name", ["HOLDFAST_TOKEN", "MY_KEY", "TEAM_TOKEN", "SEARCH_KEY", "TAVILY_API_KEY", "anthropic_api_key"]
)
def test_no_configured_key_and_no_token_is_passed_on(name: str) -> None:
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
    assert name not in child_environment({name: "secret"}, settings)


def test_everything_else_is_passed_on() -> None:
    base = {"PATH": "/bin", "HOME": "/root", "GITHUB_TOKEN": "the user's own", "LANG": "C"}
    assert child_environment(base, settings_of()) == {**base, **NON_INTERACTIVE}


def test_a_users_pager_does_not_wait_for_a_key_press() -> None:
    assert child_environment({"PAGER": "less"}, settings_of())["PAGER"] == "cat"
