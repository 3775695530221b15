"""Whatever runs without approval changes nothing: allowed lines are executed in a jail, and everything is compared.

The jail is a copy of a hostile project in a mount, process and network namespace of its own. Only its directory can be
written. Files outside the workspace contain a canary that no output may show.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.approvals.decision import Allow, Approver
from holdfast.approvals.rules import Rules
from holdfast.approvals.workspace_paths import WorkspacePaths
from holdfast.schema.approvals import Subject
from holdfast.tools.process.command_process import NON_INTERACTIVE
from holdfast.tools.process.read_only_environment import read_only_environment
from tests.approvals.conftest import decide
from tests.approvals.line_fuzzer import LineFuzzer
from tests.approvals.shell.test_attacks import EVERYDAY
from tests.support.stress import StressShare

_CANARY = "canary-7f3a"
_DRIVER = Path(__file__).parent.parent / "jail_driver.py"
_SEARCH_PATH = "/usr/local/bin:/usr/bin:/bin"
_FIXED_LINES = 100
_STRESS_LINES = 10_000
"""At least, in a whole `make stress`. About five minutes are enough on an idle machine."""


def _bubblewrap_works() -> bool:
    if not shutil.which("bwrap"):
        return False
    words = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-all", "true"]
    return subprocess.run(words, capture_output=True, timeout=30, check=False).returncode == 0


pytestmark = pytest.mark.skipif(not _bubblewrap_works(), reason="bubblewrap cannot make a namespace here")


class Jail:
    """A directory with a hostile project, its approver, and the namespaces in which lines run."""

    def __init__(self, directory: Path) -> None:
        self.root = directory.resolve()
        self.workspace = self.root / "project"
        self._home = self.root / "home"
        self._make()
        self._approver = Approver(WorkspacePaths(root=str(self.workspace), home=str(self._home)))
        base = {"PATH": _SEARCH_PATH, "HOME": str(self._home), "LANG": "C.UTF-8", **NON_INTERACTIVE}
        self._environment = read_only_environment(base, directory=self.workspace)

    def _make(self) -> None:
        workspace, outside = self.workspace, self.root / "outside"
        for name in ("src/deep", "odd", "links", "bin", "nested"):
            (workspace / name).mkdir(parents=True)
        for path in (self._home, outside, self.root / "tmp"):
            path.mkdir()
        (outside / "secret").write_text(f"{_CANARY}\n")
        (outside / f"name-{_CANARY}").touch()
        (self._home / "x").write_text(f"{_CANARY}\n")
        for name in (".profile", ".bash_profile", ".bash_login", ".bashrc", ".bash_logout"):
            (self._home / name).write_text(f"PATH=./bin:$PATH; touch {workspace}/p\n")
        for name in ("README.md", "src/a.py", "src/b.py", "notes.txt", "odd/x", "odd/-delete", "odd/-rf", "*", "p.txt"):
            (workspace / name).write_text("text a b\nname x\n1 2 3\n")
        (workspace / "data.json").write_text('{"name": "a", "a": [1, 2]}\n')
        (workspace / "@opts").write_text("../outside/secret\n")
        (workspace / "opts").write_text("../outside/secret\n")
        (workspace / "-exec").touch()
        for name in ("evil", "git", "ls", "env", "timeout", "sh", "bash", "bin/env", "bin/ls", "cat", "src/git"):
            (workspace / name).write_text(f"#!/bin/sh\ntouch {workspace}/p\n")
            (workspace / name).chmod(0o755)
        (workspace / "SYMLINK").symlink_to(outside / "secret")
        (workspace / "links/link.py").symlink_to(outside / "secret")
        (workspace / "out").symlink_to(outside)
        (workspace / "é").symlink_to(outside / "secret")
        (workspace / "inner").symlink_to("src/deep")
        self._make_repositories()

    def _make_repositories(self) -> None:
        def git(*words: str) -> None:
            subprocess.run(["git", *words], cwd=self.workspace, check=True, capture_output=True, timeout=60)

        git("init", "-q", "-b", "main")
        git("config", "user.name", "n")
        git("config", "user.email", "n@example.org")
        git("add", "README.md", "src", "notes.txt")
        git("commit", "-q", "-m", "first")
        (self.workspace / "notes.txt").write_text("text changed\n")
        git("commit", "-q", "-am", "second")
        (self.workspace / "README.md").write_text("text a b\nname y\n")
        git("init", "-q", "--bare", "bare")
        git("-C", "bare", "config", "core.fsmonitor", f"touch {self.workspace}/p;:")
        git("init", "-q", "nested")
        git("-C", "nested", "config", "core.fsmonitor", f"touch {self.workspace}/p;:")

    def allows(self, line: str) -> bool:
        """Whether the line runs without approval in an untrusted directory, for a run that cannot ask."""
        subject = Subject(
            tool="bash", effect="runs", title=line, command=line, cwd=str(self.workspace), search_path=_SEARCH_PATH
        )
        verdict = decide(self._approver, subject, rules=Rules(), trusted=False, interactive=False)
        return isinstance(verdict, Allow)

    def start(self, *, sh: str, patience: float = 30) -> "RunningJail":
        """Start the namespaces, in which ``sh`` is the given program. Processes may take ``patience`` to end."""
        words = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/dev/shm"]
        words += ["--bind", str(self.root), str(self.root), "--unshare-all", "--die-with-parent"]
        words += ["--ro-bind", os.path.realpath(sh), os.path.realpath("/bin/sh")]
        setup = {
            "jail": str(self.root),
            "workspace": str(self.workspace),
            "environment": self._environment,
            "canary": _CANARY,
            "patience": patience,
        }
        return RunningJail([*words, sys.executable, "-I", "-S", str(_DRIVER)], setup)


class RunningJail:
    def __init__(self, words: list[str], setup: dict[str, object]) -> None:
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._send(setup)

    def _send(self, value: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(value) + "\n")
        self._process.stdin.flush()

    def run(self, line: str) -> list[str]:
        """Run a line; return what it changed."""
        assert self._process.stdout is not None
        self._send(line)
        report = self._process.stdout.readline()
        assert report, "the jail ended"
        problems: list[str] = json.loads(report)
        return problems

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._process.stdout.close()


@pytest.fixture(params=["dash", "bash"])
def sh(request: pytest.FixtureRequest) -> str:
    found = shutil.which(request.param)
    if found is None:
        pytest.skip(f"there is no {request.param}")
    return found


@pytest.fixture
def jail(tmp_path: Path) -> Jail:
    return Jail(tmp_path)


@pytest.fixture
def running(jail: Jail, sh: str) -> Iterator[RunningJail]:
    started = jail.start(sh=sh)
    yield started
    started.close()


def _execute_allowed(jail: Jail, running: RunningJail, *, seed: int, enough: Callable[[int], bool]) -> tuple[int, int]:
    """Execute allowed lines until they are enough; return how many were tried and executed."""
    tried = executed = 0
    for line in LineFuzzer(seed, EVERYDAY).lines():
        if enough(executed):
            break
        tried += 1
        if jail.allows(line):
            executed += 1
            assert running.run(line) == [], f"seed {seed}, line {executed}: {line!r}"
    return tried, executed


def test_lines_that_change_something_are_noticed(jail: Jail) -> None:
    """The comparison itself works: every kind of difference is found."""
    running = jail.start(sh="/bin/sh", patience=0.2)
    assert running.run("ls") == []
    for line, kind in (
        ("touch p", "changed"),
        ("chmod 600 notes.txt", "changed"),
        ("export A=1", "variable"),
        ("f() { ls; }", "variable"),
        ("cat SYMLINK", "read a file"),
        ("ls out/", "read a file"),
        ("setsid sleep 30 >/dev/null 2>&1 &", "left"),
    ):
        assert any(problem.startswith(kind) for problem in running.run(line)), line
    running.close()


def test_allowed_lines_change_nothing(jail: Jail, running: RunningJail) -> None:
    for line in EVERYDAY:
        if jail.allows(line):
            assert running.run(line) == [], line
    until = time.monotonic() + 50
    tried, executed = _execute_allowed(
        jail, running, seed=1, enough=lambda executed: executed == _FIXED_LINES or time.monotonic() > until
    )
    assert executed > 0
    print(f"{executed} allowed lines of {tried} were executed and changed nothing")


@pytest.mark.stress(weight=7)
def test_many_allowed_lines_change_nothing(jail: Jail, running: RunningJail, share: StressShare) -> None:
    least = share.full(_STRESS_LINES)
    tried, executed = _execute_allowed(
        jail, running, seed=share.seed, enough=lambda executed: executed >= least and share.over()
    )
    share.count("lines", tried)
    share.count("of them allowed and executed", executed)
