"""The sandbox of the bash tool: git's programs stay as they are, usual commands work, escalation needs an approval."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from holdfast.errors import ToolError
from holdfast.files import find_program
from holdfast.tools.bash import BashArguments, BashTool
from holdfast.tools.process.command_process import CommandLauncher
from holdfast.tools.process.sandbox import CommandSandbox, probe_sandboxes
from holdfast.tools.protocol import ToolContext, ToolOutput
from holdfast.tools.search.ripgrep import find_ripgrep
from tests.support.tool_contexts import Gate, ToolWorkspace, settings_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

_AVAILABLE = probe_sandboxes()
BACKENDS = [
    pytest.param(backend, marks=pytest.mark.skipif(bool(problem), reason=problem or "works"))
    for backend, problem in msgspec.structs.asdict(_AVAILABLE).items()
]


@pytest.fixture
def workspace(tmp_path: Path) -> ToolWorkspace:
    found = ToolWorkspace(tmp_path)
    subprocess.run(["git", "init", "-q", str(found.directory)], check=True)
    return found


@pytest_asyncio.fixture(params=BACKENDS, scope="module", loop_scope="module")
async def launcher(request: pytest.FixtureRequest) -> AsyncIterator[CommandLauncher]:
    found = CommandLauncher()
    found.sandbox = CommandSandbox(backend=request.param)
    yield found
    await found.close()


@pytest_asyncio.fixture(loop_scope="module")
async def bash(launcher: CommandLauncher, workspace: ToolWorkspace) -> AsyncIterator[BashTool]:
    yield BashTool(launcher)
    await workspace.table.close()


async def call(tool: BashTool, context: ToolContext, command: str, **arguments: Any) -> ToolOutput:
    struct = msgspec.convert({"command": command, **arguments}, BashArguments)
    return await tool.run(struct, context, await tool.plan(struct, context))


def tree(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def starting_programs(git: Path) -> dict[str, bytes]:
    """The files that make git start programs."""
    return {name: content for name, content in tree(git).items() if name.startswith(("config", "hooks"))}


@pytest.mark.parametrize(
    "attack",
    [
        "git config core.fsmonitor ./evil",
        "printf '[core]\\n\\tfsmonitor = ./evil\\n' >> .git/config",
        "rm .git/config; ln -s ../evil .git/config",
        "printf '#!/bin/sh\\n./evil\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
        "mv .git/hooks .git/h; mkdir .git/hooks; cp /bin/true .git/hooks/post-checkout",
        "rm -rf .git/hooks",
        "echo > .git/config.worktree",
        "mkdir .holdfast; echo > .holdfast/config.toml",
        "(sleep 0.2; echo '[x]' >> .git/config) & exit 0",
        "mv .git g; cp -r g .git; chmod -R u+w .git; printf '[core]\\n\\tfsmonitor = ./evil\\n' >> .git/config",
        "mv .git g; ln -s g .git; echo > g/hooks/pre-push",
        "rm -rf .git; git init -q; git config core.fsmonitor ./evil; echo > .git/hooks/pre-push",
        "git config core.fsmonitor ./evil; echo > .git/hooks/pre-push; (setsid sleep 1000 &); exit 0",
    ],
)
async def test_files_that_start_programs_are_as_before(bash: BashTool, workspace: ToolWorkspace, attack: str) -> None:
    git = workspace.directory / ".git"
    before = starting_programs(git)
    await call(bash, workspace.context(), attack)
    assert starting_programs(git) == before
    assert not (workspace.directory / ".holdfast").exists()
    assert not (git / "config").is_symlink()


async def test_a_change_that_was_undone_is_reported(bash: BashTool, workspace: ToolWorkspace) -> None:
    output = await call(bash, workspace.context(), "mkdir .holdfast; echo 'x = 1' > .holdfast/config.toml")
    assert "[sandbox: commands may not change .holdfast" in output.text
    rejected = [path for path in (workspace.outputs / "rejected").rglob("*") if path.is_file()]
    assert [path.read_text() for path in rejected] == ["x = 1\n"]


async def test_programs_of_the_workspace_do_not_confine_or_search(
    bash: BashTool, workspace: ToolWorkspace, tmp_path: Path
) -> None:
    """A person's search path often has `.venv/bin`, which a confined command can write."""
    planted, escaped = workspace.directory / ".venv" / "bin", tmp_path / "escaped"
    planted.mkdir(parents=True)
    script = f"'#!/bin/sh\\ntouch {escaped}'"
    write = f"cd .venv/bin; for p in bwrap bash rg git; do printf {script} > $p; chmod +x $p; done"
    assert (await call(bash, workspace.context(), write)).status == "ok"
    context = workspace.context()
    environment = {**context.environment, "PATH": f"{planted}:{context.environment['PATH']}"}
    context = msgspec.structs.replace(context, environment=environment)
    assert "hello" in (await call(bash, context, "echo hello")).text
    person = BashTool(CommandLauncher(), is_persons=True)
    assert "hello" in (await call(person, context, "echo hello")).text
    await person.launcher.close()
    assert await asyncio.to_thread(find_ripgrep, environment, workspace.directory) != str(planted / "rg")
    git = await asyncio.to_thread(find_program, "git", environment["PATH"], outside=workspace.directory)
    assert git != str(planted / "git")
    assert not escaped.exists()


async def test_what_a_job_changes_is_undone_before_the_next_command(
    bash: BashTool, workspace: ToolWorkspace, tmp_path: Path
) -> None:
    gate, git = Gate(workspace.directory), workspace.directory / ".git"
    script = "(read < gate; git config core.fsmonitor ./evil; echo > .git/hooks/pre-push; touch done; sleep 1000) &"
    await call(bash, workspace.context(), script)
    await gate.open()
    seen = await call(bash, workspace.context(), "while [ ! -e done ]; do sleep 0.01; done")
    seen = await call(bash, workspace.context(), "cat .git/config; ls .git/hooks")
    assert "evil" not in seen.text
    assert "evil" not in (git / "config").read_text()
    assert not (git / "hooks" / "pre-push").exists()
    assert (await workspace.table.kill(workspace.table.running[0].id)).left_running == ()


async def test_commits_branches_and_daemons_work(bash: BashTool, workspace: ToolWorkspace) -> None:
    identity = "-c user.name=a -c user.email=a@b"
    script = f"echo x > f && git add f && git {identity} commit -qm one && git checkout -qb topic && git log --oneline"
    output = await call(bash, workspace.context(), script)
    assert output.status == "ok", output.text
    left = await call(bash, workspace.context(), "(sleep 1000 &) ; echo started")
    assert "these processes still run as job" in left.text
    assert "bwrap" not in left.text
    job = workspace.table.running[0]
    assert (await workspace.table.kill(job.id)).left_running == ()


async def test_a_linked_work_tree_and_a_subdirectory_can_be_committed(bash: BashTool, workspace: ToolWorkspace) -> None:
    run = lambda *argv: subprocess.run(argv, cwd=workspace.directory, check=True, capture_output=True)  # noqa: E731
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    run("git", *identity, "commit", "-q", "--allow-empty", "-m", "one")
    other = workspace.directory.parent / "linked"
    run("git", "worktree", "add", "-q", str(other))
    (workspace.directory / "sub").mkdir()
    for directory in (other, workspace.directory / "sub"):
        context = msgspec.structs.replace(workspace.context(), workspace=directory)
        script = f"echo x > f && git add f && git {' '.join(identity)} commit -qm two"
        output = await call(bash, context, script)
        assert output.status == "ok", output.text
        output = await call(bash, context, "git config core.pager evil")
        assert "evil" not in (workspace.directory / ".git" / "config").read_text()


async def test_a_forged_work_tree_makes_nothing_writable(
    bash: BashTool, workspace: ToolWorkspace, tmp_path: Path
) -> None:
    forged = tmp_path / "forged"
    forged.mkdir()
    (tmp_path / "target" / "worktrees" / "x").mkdir(parents=True)
    (forged / ".git").write_text(f"gitdir: {tmp_path}/target/worktrees/x\n")
    context = msgspec.structs.replace(workspace.context(), workspace=forged)
    await call(bash, context, f"echo x > {tmp_path}/target/new")
    assert not (tmp_path / "target" / "new").exists()


async def test_a_failed_write_outside_says_how_to_escalate(bash: BashTool, workspace: ToolWorkspace) -> None:
    output = await call(bash, workspace.context(), "echo x > ../outside")
    assert output.status == "error"
    assert 'call bash again with escalate="unconfined"' in output.text
    output = await call(bash, workspace.context(), "echo x > ../outside", escalate="unconfined", reason="needed")
    assert output.status == "ok"


async def test_an_escalation_is_part_of_the_subject(bash: BashTool, workspace: ToolWorkspace) -> None:
    arguments = BashArguments("make install", escalate="unconfined", reason="it installs")
    plan = await bash.plan(arguments, workspace.context())
    assert plan.subject.escalation == "unconfined"
    assert plan.display == {"escalation": "unconfined", "reason": "it installs"}
    off = workspace.context(settings=settings_of(server={"sandbox": "off"}))
    assert (await bash.plan(arguments, off)).subject.escalation is None


async def test_the_network_is_a_setting(bash: BashTool, workspace: ToolWorkspace) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        reach = (
            f"{sys.executable} -c 'import socket; socket.create_connection((\"127.0.0.1\", {server.getsockname()[1]}))'"
        )
        assert (await call(bash, workspace.context(), reach)).status == "ok"
        asking = workspace.context(settings=settings_of(server={"sandbox_network": "ask"}))
        output = await call(bash, asking, reach)
        assert output.status == "error"
        assert 'escalate="network"' in output.text
        assert (await call(bash, asking, reach, escalate="network")).status == "ok"
        off = workspace.context(settings=settings_of(server={"sandbox_network": "off"}))
        assert "server.sandbox_network" in (await call(bash, off, reach)).text
        with pytest.raises(ToolError, match="'off'"):
            await call(bash, off, reach, escalate="network")


async def test_caches_are_writable_unless_the_setting_is_off(
    bash: BashTool, workspace: ToolWorkspace, tmp_path: Path
) -> None:
    cache = tmp_path / "npm"
    cache.mkdir()
    for allowed in (True, False):
        context = workspace.context(settings=settings_of(server={"sandbox_caches": allowed}))
        environment = {**context.environment, "npm_config_cache": str(cache)}
        context = msgspec.structs.replace(context, environment=environment)
        await call(bash, context, "echo x > $npm_config_cache/$RANDOM")
    assert len(list(cache.iterdir())) == 1


async def test_a_missing_cache_of_an_installed_program_is_made_and_writable(
    bash: BashTool, workspace: ToolWorkspace, tmp_path: Path
) -> None:
    home, programs = tmp_path / "person", tmp_path / "programs"
    home.mkdir()
    programs.mkdir()
    for name in ("npm", "cargo"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    context = workspace.context()
    environment = {"HOME": str(home), "PATH": f"{programs}:/usr/bin:/bin"}
    context = msgspec.structs.replace(context, environment=environment)
    output = await call(
        bash, context, "echo x > ~/.npm/x && mkdir ~/.cargo/registry/index && echo > ~/.cargo/.package-cache"
    )
    assert output.status == "ok", output.text
    assert (home / ".npm" / "x").read_text() == "x\n"
    await call(bash, context, "mkdir -p ~/.cargo/bin ~/go; echo x > ~/.cargo/config.toml; echo x > ~/.bashrc")
    assert sorted(path.name for path in home.iterdir() if path.name != ".cache") == [".cargo", ".npm"]
    made = sorted(path.name for path in (home / ".cargo").iterdir())
    assert made == [".global-cache", ".package-cache", "git", "registry"]


async def test_sessions_cannot_read_each_others_outputs_and_temporary_files(
    bash: BashTool, workspace: ToolWorkspace, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    first, second = (
        msgspec.structs.replace(
            workspace.context(session_id=name),
            outputs=home / "outputs" / name,
            temporary=home / "tmp" / name,
            hidden=(home,),
        )
        for name in ("ses_a", "ses_b")
    )
    await call(bash, first, "echo precious > $TMPDIR/file; seq 100000")
    assert "precious" in (await call(bash, first, "cat $TMPDIR/file")).text
    assert (await call(bash, first, f"tail -1 {first.outputs}/*.txt")).status == "ok"
    for path in (first.temporary / "file", *first.outputs.glob("*.txt")):
        output = await call(bash, second, f"cat {path} | tail -1")
        assert "precious" not in output.text
        assert "100000" not in output.text
