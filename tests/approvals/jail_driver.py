"""Runs inside the jail: executes each line and reports what it changed.

Standard input has the set-up, then one line as JSON; standard output gets one report for each. It imports only the
standard library.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

_IGNORED = {"PWD", "OLDPWD", "_", "SHLVL"}
_PROBE = "\n{ builtin declare -px; builtin declare -F; builtin alias; builtin trap; } >&9 2>/dev/null"


def snapshot(root: Path) -> dict[str, tuple[object, ...]]:
    """Identify every file below the root by everything but its time of access."""
    found: dict[str, tuple[object, ...]] = {}
    waiting = [str(root)]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                found[entry.path] = (status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_nlink)
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
    return found


def other_processes() -> list[str]:
    """The processes of the jail, without its own two."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in {1, os.getpid()}:
            with contextlib.suppress(OSError):
                found.append(f"{name} {Path('/proc', name, 'comm').read_text().strip()}")
    return found


def variables(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.partition("=")[0].rpartition(" ")[2] not in _IGNORED]


def run(line: str, setup: dict[str, object]) -> tuple[bytes, str]:
    """Run a line with bash; return its output and the shell's state afterwards."""
    reading, writing = os.pipe()
    shell = subprocess.Popen(
        ["/bin/bash", "-c", line + _PROBE],
        cwd=str(setup["workspace"]),
        env=setup["environment"],  # type: ignore[arg-type]
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=lambda: os.dup2(writing, 9),  # noqa: PLW1509
        pass_fds=(9,),
        start_new_session=True,
    )
    os.close(writing)
    try:
        output, _ = shell.communicate(timeout=20)
    except subprocess.TimeoutExpired:
        os.killpg(shell.pid, signal.SIGKILL)
        output, _ = shell.communicate()
    with open(reading, "rb") as probe:
        os.set_blocking(reading, False)
        state = (probe.read() or b"").decode(errors="replace")
    return output, state


def main() -> None:
    setup = json.loads(sys.stdin.readline())
    root, canary = Path(setup["jail"]), setup["canary"].encode()
    _, state = run("", setup)
    usual = variables(state)
    before = snapshot(root)
    for text in sys.stdin:
        line = json.loads(text)
        output, state = run(line, setup)
        deadline = time.monotonic() + setup["patience"]
        while (left := other_processes()) and time.monotonic() < deadline:
            time.sleep(0.002)
        after = snapshot(root)
        problems = [
            f"changed {path}" for path in sorted(before.keys() | after.keys()) if before.get(path) != after.get(path)
        ]
        problems += [f"left {name}" for name in left]
        if state and variables(state) != usual:
            problems += [f"variable {entry}" for entry in set(variables(state)) ^ set(usual)]
        if canary in output:
            problems.append("read a file outside the workspace")
        print(json.dumps(problems), flush=True)
        before = after


if __name__ == "__main__":
    main()
