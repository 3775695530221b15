"""Run tasks headless with the command line of this tree, on a server of their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dev.eval.eval_report import TaskResult
from dev.eval.eval_task import EvalTask, write_files
from holdfast.locations import Locations

_CHECK_SECONDS = 60
_MORE_SECONDS = 120
"""How long a command may take beyond the limit of its run."""
_MAX_TEXT = 2000


class EvalRunner:
    """Runs tasks in copies below ``directory``. The configuration and the keys are copies of the user's."""

    def __init__(self, directory: Path, *, model: str, env: Mapping[str, str], options: Sequence[str] = ()) -> None:
        self._directory = directory
        self._model = model
        self._options = tuple(options)
        self._home = directory / "home"
        _copy_configuration(Locations.from_env(env), self._home)
        self._env = {**env, "HOLDFAST_HOME": str(self._home), "PYTHONDONTWRITEBYTECODE": "1"}
        for name in ("HOLDFAST_SERVER", "HOLDFAST_MODEL", "VIRTUAL_ENV"):
            self._env.pop(name, None)

    def run(self, tasks: Sequence[EvalTask], *, parallel: int, done: Callable[[TaskResult], None]) -> list[TaskResult]:
        def one(task: EvalTask) -> TaskResult:
            result = self.run_task(task)
            done(result)
            return result

        with ThreadPoolExecutor(parallel) as pool:
            return list(pool.map(one, tasks))

    def run_task(self, task: EvalTask) -> TaskResult:
        repository = self._directory / "tasks" / task.name
        make_repository(task, repository)
        started = time.monotonic()
        ended = self._prompt(task, repository)
        seconds = time.monotonic() - started
        solved, reason = run_check(task, repository, answer=str(ended.get("text", "")))
        usage = ended.get("usage") or {}
        return TaskResult(
            name=task.name,
            kind=task.kind,
            solved=solved,
            state=str(ended.get("state", "failed")),
            reason=str(ended.get("reason") or ""),
            steps=int(ended.get("steps", 0)),
            input=int(usage.get("input", 0)) + int(usage.get("cache_read", 0)) + int(usage.get("cache_write", 0)),
            output=int(usage.get("output", 0)),
            cost=float(usage.get("cost", 0.0)),
            seconds=round(seconds, 1),
            check=reason,
            error=str((ended.get("error") or {}).get("message", "")),
        )

    def close(self) -> None:
        subprocess.run([*_COMMAND, "stop"], env=self._env, capture_output=True, check=False)

    def _prompt(self, task: EvalTask, repository: Path) -> dict[str, Any]:
        """The object that ``holdfast run --output json`` prints; an error in the same shape if it prints none."""
        words = ["--model", self._model, "--mode", "auto", "--max-steps", str(task.max_steps)]
        words += ["--timeout", str(task.seconds), "--output", "json", *self._options, "--", task.prompt]
        try:
            done = subprocess.run(
                [*_COMMAND, "run", *words],
                cwd=repository,
                env=self._env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=task.seconds + _MORE_SECONDS,
                check=False,
            )
            found: dict[str, Any] = json.loads(done.stdout)
        except subprocess.TimeoutExpired:
            return {"state": "failed", "error": {"message": "the command did not end"}}
        except json.JSONDecodeError:
            return {"state": "failed", "error": {"message": done.stderr.strip()[-_MAX_TEXT:]}}
        return found


_COMMAND = (sys.executable, "-m", "holdfast")


@contextmanager
def eval_directory(keep: Path | None) -> Iterator[Path]:
    """A directory for the copies: ``keep``, or a temporary one that is removed."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep.resolve()
        return
    made = Path(tempfile.mkdtemp(prefix="hfe-"))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def make_repository(task: EvalTask, directory: Path) -> None:
    """A fresh copy, as a git repository with one commit."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    write_files(task.files, directory)
    git = ["git", "-c", "user.name=eval", "-c", "user.email=eval@localhost", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "The repository of the task"]):
        subprocess.run([*git, *words], cwd=directory, check=True, capture_output=True)


def run_check(task: EvalTask, repository: Path, *, answer: str) -> tuple[bool, str]:
    """Whether the task is solved, and otherwise what the check says."""
    with tempfile.TemporaryDirectory(prefix="hfe-check-") as place:
        program, answered = Path(place, "check.py"), Path(place, "answer.txt")
        program.write_text(task.check, "utf-8")
        answered.write_text(answer, "utf-8")
        env = {
            **os.environ,
            "EVAL_ANSWER": str(answered),
            "PYTHONPATH": str(repository),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        try:
            done = subprocess.run(
                [sys.executable, "-P", str(program)],
                cwd=repository,
                env=env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_CHECK_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False, f"the check did not end within {_CHECK_SECONDS} s"
    said = (done.stderr or done.stdout).strip().splitlines()
    return done.returncode == 0, "" if done.returncode == 0 else (said[-1] if said else f"exit {done.returncode}")[:300]


def _copy_configuration(source: Locations, home: Path) -> None:
    """Copy the user's settings and stored keys, so that the server of the tasks can use the same models."""
    target = Locations.from_env({"HOLDFAST_HOME": str(home), "HOME": str(home)})
    target.prepare()
    for path, copy in ((source.config_file, target.config_file), (source.secrets_file, target.secrets_file)):
        if path.exists():
            copy.touch(mode=0o600)
            copy.write_bytes(path.read_bytes())
