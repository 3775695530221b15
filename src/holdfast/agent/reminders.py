"""Reminders: what the model should know now, at the moment when it matters. Pure.

A reminder is text in the conversation, after what was sent before; the system prompt and earlier messages stay as they
are. What was told is kept as facts with the message (`schema.messages.Context`), so that nothing is told twice, also
after a restart or by another server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.agent.system_prompt import Instructions
from holdfast.digests import sha256_hex
from holdfast.schema.base import Value
from holdfast.schema.sessions import Job, Todo

SILENT_STEPS = 12
"""After so many steps without a look at it, the model is reminded of its task list."""
_NEARLY = 0.8
"""The share of a limit from which the model is told."""
_LAST_STEPS = 3
_LAST_STEP_SHARE = 0.1
_MIN_STEP_LIMIT = 10
"""A run with fewer steps than this is not told that they are nearly over: it knows no other."""
_MAX_NAMED = 20
_MAX_INSTRUCTION_CHARACTERS = 16_000


class ChangedFile(Value, frozen=True):
    """A file that changed since the session read it."""

    path: str
    state: str
    """The hash of its content, or ``absent``."""


class Observations(Value, frozen=True, kw_only=True):
    """What happened around a session, without what the model knows."""

    ended_jobs: tuple[Job, ...] = ()
    """Jobs that ended, and whose end the session has not read."""
    changed_files: tuple[ChangedFile, ...] = ()
    entered_instructions: tuple[Instructions, ...] = ()
    """Instruction files of the directories that the session has entered."""


class RunLimits(Value, frozen=True, kw_only=True):
    """How much of its limits a run has used. A limit of 0 does not exist."""

    run_id: str
    steps: int = 0
    max_steps: int = 0
    cost: float = 0.0
    max_cost: float = 0.0
    seconds: float = 0.0
    max_seconds: float = 0.0


class Reminder(Value, frozen=True):
    text: str
    facts: dict[str, str]
    """What the model knows after it, besides what it knew."""


def due_reminder(
    observed: Observations,
    *,
    limits: RunLimits,
    known: Mapping[str, str],
    neglected: Sequence[Todo] = (),
) -> Reminder | None:
    """Return the reminder of everything that the model does not know yet; None if it knows everything.

    ``neglected`` is the task list, if the model has not looked at it for long.
    """
    facts: dict[str, str] = {}
    blocks = [
        *_jobs(observed.ended_jobs, known, facts),
        *_files(observed.changed_files, known, facts),
        *_instructions(observed.entered_instructions, known, facts),
        *_limits(limits, known, facts),
        *_todos(neglected),
    ]
    if not blocks:
        return None
    return Reminder("<reminder>\n" + "\n\n".join(blocks) + "\n</reminder>", facts)


def _jobs(jobs: Sequence[Job], known: Mapping[str, str], facts: dict[str, str]) -> list[str]:
    lines: list[str] = []
    for job in jobs:
        subject = f"job:{job.id}"
        if subject not in known:
            facts[subject] = job.state
            how = f"exited with code {job.exit_code}" if job.state == "exited" else f"was {job.state}"
            lines.append(f"- {job.id} {how}: {job.command}")
    if not lines:
        return []
    return ["Background jobs have ended. Read the rest of their output with `job_output`.\n" + "\n".join(lines)]


def _files(files: Sequence[ChangedFile], known: Mapping[str, str], facts: dict[str, str]) -> list[str]:
    news = [file for file in files if known.get(f"changed:{file.path}") != file.state]
    if not news:
        return []
    facts |= {f"changed:{file.path}": file.state for file in news}
    lines = [f"- {file.path}" + (" (deleted)" if file.state == "absent" else "") for file in news[:_MAX_NAMED]]
    if len(news) > _MAX_NAMED:
        lines.append(f"- and {len(news) - _MAX_NAMED} more")
    return [
        "These files changed since you last read them, perhaps by the user. The changes are intended: keep them, and"
        " view a file again before you rely on it or edit it.\n" + "\n".join(lines)
    ]


def _instructions(files: Sequence[Instructions], known: Mapping[str, str], facts: dict[str, str]) -> list[str]:
    blocks: list[str] = []
    for file in files:
        subject, digest = f"nested:{file.path}", sha256_hex(file.text.encode())[:16]
        if known.get(subject) == digest:
            continue
        facts[subject] = digest
        text = file.text.strip()
        if len(text) > _MAX_INSTRUCTION_CHARACTERS:
            text = (
                text[:_MAX_INSTRUCTION_CHARACTERS] + f"\n[cut here: {file.path} is longer; read the rest when needed]"
            )
        blocks.append(
            "You are working in a directory with its own instructions. They hold for the files below it, and win over"
            f' more general ones.\n<instructions path="{file.path}">\n{text}\n</instructions>'
        )
    return blocks


def _limits(limits: RunLimits, known: Mapping[str, str], facts: dict[str, str]) -> list[str]:
    left, rest = limits.max_steps - limits.steps, limits.max_seconds - limits.seconds
    last_steps = max(_LAST_STEPS, int(limits.max_steps * _LAST_STEP_SHARE))
    near = {
        "steps": limits.max_steps >= _MIN_STEP_LIMIT and left <= last_steps,
        "time": bool(limits.max_seconds) and limits.seconds >= _NEARLY * limits.max_seconds,
        "cost": bool(limits.max_cost) and limits.cost >= _NEARLY * limits.max_cost,
    }
    words = {
        "steps": f"{left} of {limits.max_steps} steps are left",
        "time": f"{max(0.0, rest):.0f} of {limits.max_seconds:.0f} seconds are left",
        "cost": f"{limits.cost:.2f} of {limits.max_cost:.2f} US dollars are spent",
    }
    news = [name for name in near if near[name] and known.get(f"limit:{name}") != limits.run_id]
    facts |= {f"limit:{name}": limits.run_id for name in news}
    lines = [words[name] for name in news]
    if not lines:
        return []
    return [
        f"This run ends soon: {', '.join(lines)}. Begin nothing new. Bring the work into a state that works, then say"
        " what is done and what is open."
    ]


def _todos(neglected: Sequence[Todo]) -> list[str]:
    if all(todo.status == "completed" for todo in neglected):
        return []
    lines = "\n".join(f"- [{todo.status}] {todo.text}" for todo in neglected)
    return [
        f"Your task list has open tasks, and you have not looked at it for a while:\n{lines}\nBring it up to date with"
        " `todos` if it is not, and go on."
    ]
