"""10. A command of the agent attacks the server that runs it: its socket, its files, its processes, and git's programs.

The server has its default settings, so it confines commands with what works here. The other sandboxes are forced: the
better ones do not work in that server. Without a sandbox only the server itself is protected.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from holdfast.schema.messages import ToolResult
from holdfast.testing import Answer, Call, text
from holdfast.tools.process.sandbox import SandboxBackend, probe_sandboxes
from tests.e2e.conftest import Join
from tests.e2e.player import Player
from tests.e2e.provider import Provider
from tests.e2e.server import ServerProcess

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
_AVAILABLE = probe_sandboxes()
BACKENDS: tuple[str, ...] = get_args(SandboxBackend)
CONFINED = [
    pytest.param(backend, marks=pytest.mark.skipif(bool(problem), reason=problem or "works"))
    for backend, problem in msgspec.structs.asdict(_AVAILABLE).items()
]
_SECRET = "canary-of-another-session"

_ATTACK = r"""
import json, os, socket, subprocess, sys, time
told = json.load(open("told.json"))
results = {}

def ask(method, path, body=None):
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(told["socket"])
        data = json.dumps(body or {}).encode() if method != "GET" else b""
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json"]
        lines += [f"Content-Length: {len(data)}", "Connection: close", "", ""]
        connection.sendall("\r\n".join(lines).encode() + data)
        return connection.makefile("rb").read().split(b" ", 2)[1].decode()
    except OSError as error:
        return type(error).__name__

def ask_all():
    workspace, session = told["workspace"], told["other_session"]
    settings = {"changes": {"server.sandbox": "off", "approvals.mode": "auto"}}
    return {
        "status": ask("GET", "/v1/server"),
        "settings": ask("PATCH", f"/v1/workspaces/{workspace}/config", settings),
        "trust": ask("POST", f"/v1/workspaces/{workspace}/trust", {"trusted": True}),
        "messages": ask("GET", f"/v1/sessions/{session}/messages"),
        "backup": ask("POST", "/v1/server/backup", {"path": told["outside"] + "/backup.db"}),
        "shell": ask("POST", f"/v1/sessions/{session}/shell", {"command": f"echo x > {told['outside']}/shell"}),
        "approval": ask("POST", "/v1/approvals/apr_x", {"decision": "always"}),
        "stop": ask("POST", "/v1/server/stop", {"if_idle": False}),
    }

def attempt(action):
    try:
        action()
        return "done"
    except OSError as error:
        return type(error).__name__

def write(path):
    with open(path, "a") as file:
        file.write("evil = 1\n")

if sys.argv[1:] == ["detached"]:
    with open("detached.new", "w") as file:
        json.dump(ask_all(), file)
    os.rename("detached.new", "detached.json")
    sys.exit()

results["server"] = ask_all()
results["client"] = {
    " ".join(words): subprocess.run([sys.executable, "-m", "holdfast", *words], capture_output=True).returncode
    for words in (["trust"], ["config", "set", "server.sandbox", "off"], ["sessions"])
}
results["reads"] = {}
for name in told["private"]:
    try:
        with open(name, "rb") as file:
            results["reads"][name] = file.read(1 << 20).decode("latin-1")
    except OSError:
        pass
results["proc"] = []
for pid in filter(str.isdigit, os.listdir("/proc")):
    for name in told["private"]:
        try:
            with open(f"/proc/{pid}/root{name}", "rb") as file:
                results["proc"] += [[pid, name]] if file.read(1) else []
        except OSError:
            pass
if told["confined"]:
    results["writes"] = {name: attempt(lambda: write(name)) for name in told["forbidden"]}
results["kill"] = attempt(lambda: os.kill(told["pid"], 0))
subprocess.run(["setsid", "-f", "env", "-i", sys.executable, __file__, "detached"])
while not os.path.exists("detached.json"):
    time.sleep(0.01)
with open("results.json", "w") as file:
    json.dump(results, file)
"""


class Attacked:
    """A server, a client of it, and the workspace in which its agent is hostile."""

    def __init__(self, server: ServerProcess, provider: Provider, player: Player) -> None:
        self.server = server
        self.provider = provider
        self.player = player
        self.outside = player.directory.parent / "outside"

    async def bash(self, session_id: str, command: str) -> ToolResult:
        prompt = self.provider.tell("call", Answer(pieces=(Call("bash", {"command": command}),)), text("done"))
        run = await self.player.run(session_id, prompt, mode="auto")
        assert run.state == "completed", run
        messages = await self.player.messages(session_id)
        results = [part for message in messages for part in message.parts if isinstance(part, ToolResult)]
        return results[-1]

    async def attack(self) -> dict[str, Any]:
        """Run the hostile program; return what it found."""
        other, own = await self.player.session(), await self.player.session()
        printed = await self.bash(other.id, f"echo {_SECRET} > $TMPDIR/file; echo {_SECRET}; seq 100000")
        assert printed.status == "ok", printed.text
        await asyncio.to_thread(self._prepare, other.id, own.workspace_id)
        result = await self.bash(own.id, f"{sys.executable} attack.py")
        found = await asyncio.to_thread(self._results)
        assert found, result.text
        return found

    def _prepare(self, other: str, workspace: str) -> None:
        """Tell the hostile program everything that a real one would look for."""
        locations = self.server.locations
        private = [locations.database, locations.config_file, locations.trust_file, locations.secrets_file]
        private += [path for path in locations.logs_dir.rglob("*") if path.is_file()]
        private += [path for path in locations.session_outputs(other).rglob("*") if path.is_file()]
        private.append(locations.session_temporary(other) / "file")
        git = self.player.directory / ".git"
        forbidden = [*private, self.outside / "new", git / "config", git / "hooks" / "pre-commit"]
        told = {
            "socket": str(locations.socket),
            "workspace": workspace,
            "other_session": other,
            "outside": str(self.outside),
            "private": [str(path) for path in private],
            "forbidden": [str(path) for path in (*forbidden, Path(self.server.env["HOME"]) / ".bashrc")],
            "pid": self.server.pid,
            "confined": 'sandbox = "off"' not in locations.config_file.read_text(),
        }
        directory = self.player.directory
        (directory / "told.json").write_text(json.dumps(told))
        (directory / "attack.py").write_text(_ATTACK)

    def _results(self) -> dict[str, Any]:
        directory = self.player.directory
        if not (directory / "results.json").exists():
            return {}
        found: dict[str, Any] = json.loads((directory / "results.json").read_text())
        found["detached"] = json.loads((directory / "detached.json").read_text())
        found["changed"] = [
            str(path)
            for path in (self.outside / "backup.db", self.outside / "shell", directory / ".git/hooks/pre-commit")
            if path.exists()
        ]
        found["git_config"] = (directory / ".git" / "config").read_text()
        return found

    async def assert_nothing_was_reached(self, found: dict[str, Any]) -> None:
        """The server runs on, with the same settings, and nobody read or made what a client can."""
        assert all(status != 0 for status in found["client"].values()), found["client"]
        workspace = await self.player.client.open_workspace(str(self.player.directory))
        assert not workspace.trusted
        config = await self.player.client.config(workspace.id)
        assert "evil" not in str(config.values)
        assert config.values["approvals"]["mode"] == "ask"
        assert found["changed"] == []
        assert (await self.player.client.server()).pid == self.server.pid


@pytest.fixture
def hostile_server(request: pytest.FixtureRequest, tmp_path: Path, pycache: Path) -> Iterator[ServerProcess]:
    """A server with its default settings and the sandbox that the parameter names, and a repository."""
    home, outside = tmp_path / "own", tmp_path / "outside"
    home.mkdir()
    outside.mkdir()
    server = ServerProcess(home, pycache=pycache)
    better = () if request.param == "off" else BACKENDS[: BACKENDS.index(request.param)]
    forced = "".join(f"sandbox._{name}_problem = lambda: 'not used'; " for name in better)
    code = (
        f"from holdfast.tools.process import sandbox; {forced}from holdfast.cli import main; raise SystemExit(main())"
    )
    server.command = [sys.executable, "-c", code, "serve"]
    if request.param == "off":
        config = server.locations.config_file
        config.write_text(config.read_text().replace("[server]", '[server]\nsandbox = "off"'))
    server.start()
    try:
        yield server
    finally:
        server.close()
    assert server.complaints() == []


@pytest.fixture
async def attacked(hostile_server: ServerProcess, join: Join, tmp_path: Path) -> AsyncIterator[Attacked]:
    player, provider = join(hostile_server, "person"), Provider()
    await provider.start(hostile_server.provider_port)
    init = await asyncio.create_subprocess_exec("git", "init", "-q", str(player.directory))
    assert await init.wait() == 0
    yield Attacked(hostile_server, provider, player)
    await provider.stop()


@pytest.mark.promise("W8")
@pytest.mark.parametrize("hostile_server", CONFINED, indirect=True)
async def test_a_confined_command_reaches_neither_the_server_nor_its_files(attacked: Attacked) -> None:
    found = await attacked.attack()
    assert set(found["server"].values()) | set(found["detached"].values()) <= {"403", *_NO_SOCKET}, found
    await attacked.assert_nothing_was_reached(found)
    assert [name for name, content in found["reads"].items() if content] == []
    assert found["proc"] == []
    assert found["kill"] != "done"
    in_repository = [name for name in found["writes"] if "/.git/" in name]
    done = [name for name, outcome in found["writes"].items() if outcome == "done" and name not in in_repository]
    assert done == []
    assert "evil" not in found["git_config"]
    assert _SECRET not in str(found)


@pytest.mark.promise("W8")
@pytest.mark.parametrize("hostile_server", ["off"], indirect=True)
async def test_a_command_without_a_sandbox_is_refused_by_the_server(attacked: Attacked) -> None:
    found = await attacked.attack()
    assert set(found["server"].values()) == set(found["detached"].values()) == {"403"}, found
    await attacked.assert_nothing_was_reached(found)


_NO_SOCKET = ("FileNotFoundError", "PermissionError", "ConnectionRefusedError")
