"""`holdfast demo`: an offline tour with a real server, real tools and a scripted model.

Everything is in one temporary directory. When the tour ends, for whatever reason, its server is stopped and the
directory is removed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.cli.argument_parser import Parser
from holdfast.cli.exit_status import Exit, exit_of_run
from holdfast.cli.interrupts import Interrupted, Interrupts
from holdfast.cli.run_follower import RunFollower
from holdfast.cli.screen import Screen, plain
from holdfast.client.own_server import OwnServer
from holdfast.client.sync_client import SyncClient
from holdfast.schema.runs import Run, RunRequest
from holdfast.schema.sessions import WorkspaceView

MODEL = "offline/demo"
PROMPT = "test_slug.py fails. Find out why and fix it."
_MAX_SECONDS = 60.0

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
        "Show the agent at work on a sample project in a temporary directory, with a real server, real tools and a\n"
        "scripted model. Takes a few seconds, needs no key and no network, and leaves no files.",
        examples=(("holdfast demo", "watch it fix a failing test"),),
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    screen = Screen(err=sys.stdout)  # notes and text in one stream, in their order
    with Interrupts(seconds=_MAX_SECONDS) as interrupts:
        try:
            return DemoTour(screen, interrupts).run()
        except Interrupted:
            screen.note("\ninterrupted; the temporary files are removed")
            return Exit.TIMED_OUT if interrupts.timed_out else Exit.CANCELLED
        finally:
            screen.finish()


class DemoTour:
    """Runs the steps of the tour."""

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
                self._print_heading("A small project with a failing test:")
                self._print_command("cat slug.py", SLUG.rstrip())
                self._print_command("python3 test_slug.py", run_test(project)[1])
                self._screen.status("starting a server")
            with running_server(home, self._interrupts) as client:
                return self._run_prompt(client, project)

    def _run_prompt(self, client: SyncClient, project: Path) -> int:
        self._screen.status(None)
        self._print_heading("A real server is running. The model is scripted, so this needs no key and no network:")
        self._screen.line(self._style.bold(f'$ holdfast run --model {MODEL} --mode auto "{PROMPT}"'))
        with self._interrupts.allowed():
            workspace = client.open_workspace(str(project))
        run = self._follow(client, workspace)
        with self._interrupts.allowed():
            self._screen.finish()
            self._print_heading("What it changed:")
            self._print_command("holdfast changes", self._diff(client, run))
            passed, output = run_test(project)
            self._print_command("python3 test_slug.py", output)
        self._print_heading(
            "'holdfast undo' would revert it. A second terminal could have watched, steered or cancelled the run."
        )
        self._print_heading("Next: holdfast run --model offline/demo hello, or run holdfast doctor and set a key.")
        return int(exit_of_run(run)) if run.state != "completed" or passed else Exit.FAILED

    def _follow(self, client: SyncClient, workspace: WorkspaceView) -> Run:
        request = RunRequest(prompt=PROMPT, model=MODEL, mode="auto", interactive=False)
        with self._interrupts.allowed():
            accepted = client.start_session(workspace.id, request)
        follower = RunFollower(client, accepted.run, screen=self._screen, interrupts=self._interrupts)
        return follower.until_end(after=workspace.cursor)

    def _diff(self, client: SyncClient, run: Run) -> str:
        found = client.changes(run.session_id).items
        lines = [line for change in found for line in plain(change.diff).splitlines()]
        return "\n".join(self._style.diff_line(line) for line in lines)

    def _print_heading(self, text: str) -> None:
        self._screen.line("\n" + self._style("36", text))

    def _print_command(self, command: str, output: str) -> None:
        self._screen.line(self._style.bold(f"$ {command}"))
        self._screen.line(output)


def run_test(project: Path) -> tuple[bool, str]:
    """Whether the sample's test passes, and the last line of its output."""
    done = subprocess.run(
        [sys.executable, "-B", "test_slug.py"], cwd=project, capture_output=True, text=True, check=False, timeout=30
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
    """A server process on a private socket. It has ended when this context ends."""
    server = OwnServer(home, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}, options=("--idle-exit",))
    try:
        with interrupts.allowed():
            server.start()
        with SyncClient(server.address, name="demo") as client:
            yield client
    finally:
        server.stop()
