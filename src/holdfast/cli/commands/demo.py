"""`holdfast demo`: the offline tour. A real server, real tools, a real project; only the model follows a script.

Everything lives in one temporary directory, the server included; when the tour ends, however it ends, the server is
stopped and the directory removed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.cli.approval_prompt import coloured
from holdfast.cli.argument_parser import Parser
from holdfast.cli.event_printer import EventPrinter
from holdfast.cli.exit_status import Exit, exit_of_run
from holdfast.cli.interrupts import Interrupted, Interrupts
from holdfast.cli.run_watcher import RunWatcher
from holdfast.cli.screen import Screen, plain
from holdfast.client.local_server import LocalServer
from holdfast.client.sync_client import SyncClient
from holdfast.errors import StartFailed
from holdfast.locations import Locations
from holdfast.schema.runs import Run, RunRequest
from holdfast.schema.sessions import WorkspaceView

MODEL = "offline/demo"
PROMPT = "test_slug.py fails. Find out why and fix it."
_SECONDS = 60.0
_STOP_SECONDS = 25.0

SLUG = '''\
"""Titles as they stand in addresses."""


def slug(title: str) -> str:
    """``"Hold Fast!"`` becomes ``"hold-fast"``."""
    plain = title.lower().replace("_", " ")
    kept = "".join(c for c in plain if c.isalnum() or c == " ")
    return "-".join(kept.split(" "))
'''

TEST = """\
from slug import slug

for title, expected in {
    "Hold Fast!": "hold-fast",
    "snake_case": "snake-case",
    "Hold  Fast!": "hold-fast",
}.items():
    assert slug(title) == expected, f"slug({title!r}) is {slug(title)!r}, not {expected!r}"
print("3 titles, all fine")
"""


def configure(parser: Parser) -> None:
    parser.explain(
        "The offline tour: a sample project in a temporary directory, a real server, real tools, and a model that\n"
        "follows a script. It takes a few seconds, needs no key and no network, and leaves nothing behind."
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    screen = Screen(err=sys.stdout)  # a show: what happens stands where it happened, also in a file
    with Interrupts(seconds=_SECONDS) as interrupts:
        try:
            return Tour(screen, interrupts).run()
        except Interrupted:
            screen.note("\nleft; nothing stays behind")
            return Exit.TIMED_OUT if interrupts.timed_out else Exit.CANCELLED
        finally:
            screen.finish()


class Tour:
    def __init__(self, screen: Screen, interrupts: Interrupts) -> None:
        self._screen = screen
        self._interrupts = interrupts
        self._style = screen.style

    def run(self) -> int:
        with temporary_home() as home:
            project = home / "project"
            project.mkdir()
            (project / "slug.py").write_text(SLUG)
            (project / "test_slug.py").write_text(TEST)
            with self._interrupts.allowed():
                self._say("A small project with a failing test:")
                self._shell("cat slug.py", SLUG.rstrip())
                self._shell("python3 test_slug.py", tested(project)[1])
                self._screen.status("starting a server")
            with running_server(home, self._interrupts) as client:
                return self._prompted(client, project)

    def _prompted(self, client: SyncClient, project: Path) -> int:
        self._screen.status(None)
        self._say("A real server runs. The agent is asked; its model follows a script, so no key and no network:")
        self._screen.line(self._style.bold(f'$ holdfast run --model {MODEL} --mode auto "{PROMPT}"'))
        with self._interrupts.allowed():
            workspace = client.open_workspace(str(project))
        run = self._followed(client, workspace)
        with self._interrupts.allowed():
            self._screen.finish()
            self._say("What it changed:")
            self._shell("holdfast changes", self._diff(client, run))
            passed, output = tested(project)
            self._shell("python3 test_slug.py", output)
        self._say("Undo would take it back; a second terminal could have watched, steered or cancelled it.")
        self._say("Next: holdfast run --model offline/demo hello, or set a key and begin: holdfast doctor")
        return int(exit_of_run(run)) if run.state != "completed" or passed else Exit.FAILED

    def _followed(self, client: SyncClient, workspace: WorkspaceView) -> Run:
        request = RunRequest(prompt=PROMPT, model=MODEL, mode="auto", interactive=False)
        with self._interrupts.allowed():
            accepted = client.start_session(workspace.id, request)
        teller = EventPrinter(self._screen, session_id=accepted.run.session_id, runs=[accepted.run.id])
        watch = RunWatcher(client, accepted.run, screen=self._screen, teller=teller, interrupts=self._interrupts)
        return watch.until_end(after=workspace.cursor)

    def _diff(self, client: SyncClient, run: Run) -> str:
        found = client.changes(run.session_id).items
        lines = [line for change in found for line in plain(change.diff).splitlines()]
        return "\n".join(coloured(line, self._screen) for line in lines)

    def _say(self, text: str) -> None:
        self._screen.line("\n" + self._style("36", text))

    def _shell(self, command: str, output: str) -> None:
        self._screen.line(self._style.bold(f"$ {command}"))
        self._screen.line(output)


def tested(project: Path) -> tuple[bool, str]:
    """Whether the sample's test passes, and the last line it prints."""
    done = subprocess.run(
        [sys.executable, "test_slug.py"], cwd=project, capture_output=True, text=True, check=False, timeout=30
    )
    lines = (done.stdout + done.stderr).strip().splitlines()
    return done.returncode == 0, lines[-1] if lines else ""


@contextmanager
def temporary_home() -> Iterator[Path]:
    home = Path(tempfile.mkdtemp(prefix="holdfast-demo-"))
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def running_server(home: Path, interrupts: Interrupts) -> Iterator[SyncClient]:
    """A server process of its own on a private socket; it has ended when this has."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    env["HOLDFAST_HOME"] = str(home / "home")
    server = LocalServer(Locations.from_env(env), env=env)
    log = home / "server.txt"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "holdfast", "serve", "--idle-exit"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=env,
            start_new_session=True,
        )
    try:
        with interrupts.allowed():
            while server.probe() is None:
                if process.poll() is not None:
                    raise StartFailed(f"the server could not start:\n{log.read_text(errors='replace').strip()}")
                time.sleep(0.02)
        with SyncClient(server.address, name="demo") as client:
            yield client
    finally:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
