"""Hooks, language servers and commands in prompts that hang end with their run, their workspace or the server.

One server has a workspace for each point at which something of an extension can run, so that all of them hang at once.
"""

import asyncio
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast.testing import Answer, Call, ReceivedRequest, TestProvider, text
from tests.server.test_process import Process, process

HOSTILE_SERVER = Path(__file__).parents[1] / "extend/lsp/hostile_server.py"
HANG = 'trap "" INT TERM; sleep 1000 & setsid -f sleep 1001; echo $$ >"$PWD/hangs"; wait; sleep 1000'
HOOKS = (
    *("session_start", "prompt", "before_tool", "after_tool", "approval", "notification"),
    *("compaction", "before_end", "end"),
)
CALLS = {
    "touch": Call("bash", {"command": "true > made"}),
    "edit": Call("write", {"path": "new.txt", "content": "two\n"}),
    "definition": Call("definition", {"path": "a.txt", "line": 1, "symbol": "one"}),
    "rename": Call("rename", {"path": "a.txt", "line": 1, "symbol": "one", "new_name": "two"}),
}
LANGUAGE_SERVERS = {"start": ("hang-start", "edit"), "diagnostics": ("silent", "edit")}
LANGUAGE_SERVERS |= {"definition": ("hang", "definition"), "rename": ("hang", "rename")}


def respond(received: ReceivedRequest) -> Answer:
    last = received.body["messages"][-1]
    call = next((call for word, call in CALLS.items() if last["role"] == "user" and word in str(last)), None)
    return text("done") if call is None else Answer((call,))


def prepare(home: Path) -> dict[str, tuple[Path, str, str]]:
    """Write a directory for each point. Returns the directory, the prompt and the mode by point."""
    points: dict[str, tuple[Path, str, str]] = {}
    for event in HOOKS:
        work = home / f"hook-{event}"
        asks = event in ("approval", "notification")
        points[f"hook {event}"] = (work, "touch" if "tool" in event or asks else "go", "ask" if asks else "auto")
        (work / ".holdfast").mkdir(parents=True)
        (work / "hang.sh").write_text(HANG)
        settings = f'[hooks.hangs]\nevents = ["{event}"]\ncommand = ["sh", "hang.sh"]\n'
        (work / ".holdfast/config.toml").write_text(settings)
    for point, (mode, prompt) in LANGUAGE_SERVERS.items():
        work = home / f"lsp-{point}"
        points[f"lsp {point}"] = (work, prompt, "auto")
        (work / ".holdfast").mkdir(parents=True)
        (work / "a.txt").write_text("one\n")
        command = f'["{sys.executable}", "{HOSTILE_SERVER}", "{mode}", "{work}/hangs"]'
        settings = (
            f'[tools]\nlsp_wait = "100s"\nlsp_timeout = "100s"\n[lsp.hostile]\ncommand = {command}\nfiles = ["*.txt"]\n'
        )
        (work / ".holdfast/config.toml").write_text(settings)
    work = home / "command"
    (work / ".claude/commands").mkdir(parents=True)
    (work / "hang.sh").write_text(HANG)
    (work / ".claude/commands/look.md").write_text("Look: !`bash hang.sh`\n")
    points["command"] = (work, "/look", "auto")
    return points


def processes_of(work: Path) -> set[int]:
    """The processes that were started in a directory or for it."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                known = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
                if str(work).encode() in known or entry.joinpath("cwd").readlink() == work:
                    found.add(int(entry.name))
            except OSError:
                continue  # it has ended
    return found


def wait_until_hanging(directories: list[Path]) -> None:
    deadline = time.monotonic() + 40
    while directories := [work for work in directories if not is_hanging(work)]:
        assert time.monotonic() < deadline, f"nothing hangs in {directories}"
        time.sleep(0.02)


def is_hanging(work: Path) -> bool:
    return (work / "hangs").exists() if (work / "hang.sh").exists() else bool(processes_of(work))


async def until_hanging(server: Process, points: dict[str, tuple[Path, str, str]]) -> dict[str, str]:
    """Send a prompt to each directory. Returns the run by point, when each of them hangs there."""
    runs: dict[str, str] = {}
    for point, (work, prompt, mode) in points.items():
        workspace = (await server.http.post("/v1/workspaces", {"path": str(work)})).json()["id"]
        (await server.http.post(f"/v1/workspaces/{workspace}/trust", {})).ok()
        run = await start(server, f"/v1/workspaces/{workspace}/runs", prompt=prompt, mode=mode)
        if point == "hook compaction":
            await ended(server, run["id"])
            run = await start(server, f"/v1/sessions/{run['session_id']}/compact")
        if point == "hook end":
            await ended(server, run["id"])
        runs[point] = run["id"]
    await asyncio.to_thread(wait_until_hanging, [work for work, _, _ in points.values()])
    return runs


async def start(server: Process, target: str, **body: str) -> dict[str, Any]:
    run: dict[str, Any] = (await server.http.post(target, body)).ok(202)["run"]
    return run


async def ended(server: Process, run_id: str) -> str:
    run = (await server.http.get(f"/v1/runs/{run_id}?wait=50")).ok()
    return str(run["state"])


@pytest.mark.promise("C4", "W5", "W11")
async def test_what_hangs_in_an_extension_ends_with_its_run_its_workspace_or_the_server(home: Path) -> None:
    points = prepare(home)
    async with process(home, TestProvider(respond)) as server:
        runs = await until_hanging(server, points)
        for point, run_id in runs.items():
            if point != "hook end":  # its run has ended
                (await server.http.post(f"/v1/runs/{run_id}/cancel", {})).ok()
                assert await ended(server, run_id) == "cancelled", point
            if not point.startswith(("lsp", "hook end")):  # a language server belongs to the workspace
                assert processes_of(points[point][0]) == set(), point
        for workspace in (await server.http.get("/v1/workspaces")).ok()["items"]:
            (await server.http.send("DELETE", f"/v1/workspaces/{workspace['id']}", {})).ok()
            assert processes_of(Path(workspace["path"])) == set(), workspace["path"]

        for work, _, _ in points.values():
            (work / "hangs").unlink(missing_ok=True)
            (work / "new.txt").unlink(missing_ok=True)
        runs = await until_hanging(server, points)
        cancels = [
            asyncio.create_task(server.http.post(f"/v1/runs/{run_id}/cancel", {}))
            for run_id in list(runs.values())[::2]  # half of them are cancelled while the server stops
        ]
        assert await server.end(signal.SIGTERM) == 0
        await asyncio.gather(*cancels, return_exceptions=True)
        assert {point: left for point, (work, _, _) in points.items() if (left := processes_of(work))} == {}
