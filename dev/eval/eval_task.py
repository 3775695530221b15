"""The tasks: one file each in `tasks/`.

A file begins with TOML: ``kind``, ``prompt`` and, if the usual limits do not fit, ``max_steps`` and ``seconds``.
Sections follow. ``=== file PATH`` is a file of the repository, ``=== solution PATH`` the same file after a correct
change (an empty one is deleted), ``=== answer`` a correct answer, and ``=== check`` the hidden check: a Python program
that runs in the repository when the agent has ended. It exits with 0 if the task is solved; the variable
``EVAL_ANSWER`` names a file with the agent's last message. Solutions prove the checks: a check fails without and
succeeds with the solution.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

TaskKind = Literal[
    "bug fix", "feature", "refactoring", "failing build", "question", "review", "long output", "many files"
]
TASKS = Path(__file__).parent / "tasks"
_SECTION = "=== "


class EvalTask(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    kind: TaskKind
    prompt: str
    max_steps: int = 60
    seconds: int = 600
    files: dict[str, str] = {}
    solution: dict[str, str] = {}
    answer: str = ""
    check: str = ""


def load_tasks(names: tuple[str, ...] = (), *, directory: Path = TASKS) -> list[EvalTask]:
    """The named tasks, or all of them, in order. Raises `ValueError` for an unknown name."""
    found = {path.stem: path for path in sorted(directory.glob("*.task"))}
    if unknown := [name for name in names if name not in found]:
        raise ValueError(f"there is no task {unknown[0]!r}; known: {', '.join(found)}")
    return [parse_task(found[name].read_text("utf-8"), name=name) for name in names or found]


def parse_task(text: str, *, name: str) -> EvalTask:
    head, *sections = f"\n{text}".split(f"\n{_SECTION}")
    try:
        values: dict[str, Any] = {"name": name, **tomllib.loads(head)}
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"task {name!r}: {error}") from None
    files: dict[str, str] = {}
    solution: dict[str, str] = {}
    for section in sections:
        title, _, body = section.partition("\n")
        body = body + "\n" if body.strip() else ""
        match title.split():
            case ["file", path]:
                files[path] = body
            case ["solution", path]:
                solution[path] = body
            case ["answer" | "check" as single]:
                values[single] = body
            case _:
                raise ValueError(f"task {name!r}: unknown section {title!r}")
    task = msgspec.convert({**values, "files": files, "solution": solution}, EvalTask)
    if not task.check or not task.files or not (task.solution or task.answer):
        raise ValueError(f"task {name!r} needs files, a check, and a solution or an answer")
    return task


def write_files(files: dict[str, str], directory: Path, *, remove_empty: bool = False) -> None:
    for name, text in files.items():
        path = directory / name
        if remove_empty and not text:
            path.unlink(missing_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")


KINDS: tuple[str, ...] = get_args(TaskKind)
