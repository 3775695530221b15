"""What a server has imported when it accepts its first prompt, with nothing configured."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from holdfast.locations import Locations

SERVER = """
from holdfast.cli import _import_msgspec
from holdfast.late_modules import import_without
_import_msgspec()  # this and the next two as `holdfast serve` does
import_without('urllib.parse', 'ipaddress')
import_without('asyncio', 'ssl', 'asyncio.sslproto', 'tokenize', 'textwrap', 'inspect', 'locale')
import asyncio, os, sys, threading
from holdfast.app import run_server
from holdfast.locations import Locations
from holdfast.workspace.open_workspaces import OpenWorkspaces

may_load, load = threading.Event(), OpenWorkspaces._import_code

def load_when_told(self):  # the turn of the accepted prompt waits until the modules are listed
    may_load.wait(50)
    return load(self)

def list_modules():
    for _ in range(2):
        sys.stdin.readline()
        print(" ".join(sorted(sys.modules)), flush=True)
        may_load.set()

def ready(addresses):
    threading.Thread(target=list_modules, daemon=True).start()
    print("ready", flush=True)

OpenWorkspaces._import_code = load_when_told
asyncio.run(run_server(Locations.from_env(os.environ), os.environ, ready=ready))
"""

NEEDED = {
    *(
        "app",
        "config",
        "directories",
        "errors",
        "events",
        "files",
        "ids",
        "locations",
        "runs",
        "schema",
        "server",
        "services",
    ),
    *("services", "store", "tasks"),
}
"""Packages that every server needs."""
OTHERS = {
    *("agent.protocol", "agent.run_outcome", "agent.turn_limits", "agent.unfinished_messages"),
    *("approvals.pending_approvals", "extend.client_calls", "extend.instructions"),
    *("workspace.maintenance", "workspace.open_workspaces", "workspace.run_settings"),
    *("workspace.shared_parts", "workspace.turn_factory", "workspace.workspace_setup"),
}
"""Modules of other packages that it needs before the first turn."""
MOST_MODULES = 194
"""Of ours. Think twice before you raise it: each takes about 0.4 ms of every start."""
NOT_YET = {
    *("ast", "bz2", "inspect", "ipaddress", "json", "locale", "logging.handlers", "lzma", "pickle", "random"),
    *("secrets", "shutil", "tempfile", "textwrap", "tokenize", "zipfile"),
}
"""Modules of Python that take about a millisecond each, and that no prompt needs."""
NOT_EVEN_FOR_RUNS = {"_hashlib", "_ssl", "bz2", "encodings.idna", "lzma", "shutil", "tempfile", "zipfile"}
"""Modules of Python that take 5 MB together, most of it OpenSSL, and that few runs need."""
LIBRARIES = {"httptools", "msgspec"}


def _send(connection: socket.socket, method: str, path: str, body: Any = None) -> Any:
    sent = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(sent)}\r\n\r\n"
    connection.sendall(head.encode() + sent)
    with connection.makefile("rb") as reader:
        status = int(reader.readline().split()[1])
        length = 0
        while line := reader.readline().strip():
            if line.startswith(b"content-length:"):
                length = int(line[15:])
        answer = json.loads(reader.read(length))
    assert status in (200, 201, 202), answer
    return answer


def test_what_runs_use_is_imported_after_the_first_prompt_was_accepted(tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    env = {**kept, "HOME": str(tmp_path), "HOLDFAST_HOME": str(tmp_path / "h")}
    work = tmp_path / "work"
    work.mkdir()
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, cwd=tmp_path, text=True
    )
    assert server.stdin is not None
    assert server.stdout is not None

    def modules() -> set[str]:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write("\n")
        server.stdin.flush()
        return set(server.stdout.readline().split())

    try:
        assert server.stdout.readline() == "ready\n"
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(50)
            connection.connect(str(Locations.from_env(env).socket))
            workspace = _send(connection, "POST", "/v1/workspaces", {"path": str(work)})
            prompt = {"prompt": "hello", "model": "offline/demo"}
            accepted = _send(connection, "POST", f"/v1/workspaces/{workspace['id']}/runs", prompt)
            at_first = modules()
            run = _send(connection, "GET", f"/v1/runs/{accepted['run']['id']}?wait=50")
            at_last = modules()
        assert run["state"] == "completed"
    finally:
        server.terminate()
        server.communicate()
    ours = {name.removeprefix("holdfast.") for name in at_first if name.startswith("holdfast.")}
    ours -= {"cli", "cli.screen"}
    more = {name for name in ours if name.partition(".")[0] not in NEEDED and "." in name} - OTHERS
    assert more == set(), "import these where they are needed first, or say why every server needs them"
    assert len(ours) <= MOST_MODULES
    assert at_first.isdisjoint(NOT_YET | NOT_EVEN_FOR_RUNS)
    roots = {name.partition(".")[0] for name in at_first}
    libraries = {name for name in roots if name not in sys.stdlib_module_names and not name.startswith("_")}
    assert libraries - {"holdfast", "cython_runtime", "sitecustomize"} <= LIBRARIES
    # A run needs more, but nothing of what is not configured.
    assert "holdfast.agent.prompt_turn" in at_last
    assert {"inspect", "ipaddress", "locale", "textwrap", "tokenize"} <= at_last
    unused = ("mcp", "yaml", "tree_sitter", "httpx2", "anyio", "starlette", "uvicorn", "click", "holdfast.crush")
    assert at_last.isdisjoint(unused)
    assert at_last.isdisjoint(NOT_EVEN_FOR_RUNS)
