"""Which reminders are due."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.agent.reminders import ChangedFile, Observations, Reminder, RunLimits, due_reminder
from holdfast.agent.system_prompt import Instructions
from holdfast.schema.sessions import Job, Todo

NOTHING = Observations()
LIMITS = RunLimits(run_id="run_1", steps=5, max_steps=200)
JOB = Job(id="job_1", workspace_id="w", session_id="s", run_id="r", command="make watch", state="exited", exit_code=2)


def due(
    observed: Observations = NOTHING, *, limits: RunLimits = LIMITS, known: dict[str, str] | None = None
) -> Reminder:
    reminder = due_reminder(observed, limits=limits, known=known or {})
    assert reminder is not None
    assert due_reminder(observed, limits=limits, known=(known or {}) | reminder.facts) is None, "told twice"
    return reminder


def test_nothing_is_due_if_nothing_happened() -> None:
    assert due_reminder(NOTHING, limits=LIMITS, known={}) is None


def test_the_end_of_a_job_is_told_once() -> None:
    assert due(Observations(ended_jobs=(JOB, replace(JOB, id="job_2", state="killed")))).text == (
        "<reminder>\n"
        "Background jobs have ended. Read the rest of their output with `job_output`.\n"
        "- job_1 exited with code 2: make watch\n"
        "- job_2 was killed: make watch\n"
        "</reminder>"
    )


def test_files_that_changed_are_told_once_for_each_change() -> None:
    first = due(Observations(changed_files=(ChangedFile("a.py", "h1"), ChangedFile("b.py", "absent"))))
    assert "- a.py\n- b.py (deleted)\n" in first.text
    again = due(Observations(changed_files=(ChangedFile("a.py", "h2"),)), known=first.facts)
    assert "- a.py\n" in again.text


def test_a_long_list_of_changed_files_is_cut() -> None:
    many = tuple(ChangedFile(f"{number}.py", "h") for number in range(50))
    reminder = due(Observations(changed_files=many))
    assert "- 19.py\n- and 30 more\n" in reminder.text
    assert len(reminder.facts) == 50


def test_instructions_of_a_directory_are_told_once_and_again_if_they_change() -> None:
    first = due(Observations(entered_instructions=(Instructions("/w/api/AGENTS.md", "use tabs"),)))
    assert '<instructions path="/w/api/AGENTS.md">\nuse tabs\n</instructions>' in first.text
    changed = due(
        Observations(entered_instructions=(Instructions("/w/api/AGENTS.md", "use spaces"),)), known=first.facts
    )
    assert "use spaces" in changed.text
    long = due(Observations(entered_instructions=(Instructions("/w/api/AGENTS.md", "x" * 100_000),)))
    assert len(long.text) < 17_000
    assert "[cut here: /w/api/AGENTS.md" in long.text


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        (RunLimits(run_id="r", steps=179, max_steps=200), None),
        (RunLimits(run_id="r", steps=180, max_steps=200), "20 of 200 steps are left"),
        (RunLimits(run_id="r", steps=7, max_steps=10), "3 of 10 steps are left"),
        (RunLimits(run_id="r", steps=1, max_steps=2), None),
        (RunLimits(run_id="r", steps=10, seconds=79, max_seconds=100), None),
        (RunLimits(run_id="r", steps=10, seconds=85, max_seconds=100), "15 of 100 seconds are left"),
        (RunLimits(run_id="r", steps=10, cost=0.39, max_cost=0.5), None),
        (RunLimits(run_id="r", steps=10, cost=0.41, max_cost=0.5), "0.41 of 0.50 US dollars are spent"),
        (RunLimits(run_id="r", steps=10), None),
    ],
)
def test_a_limit_that_is_nearly_reached_is_told(limits: RunLimits, told: str | None) -> None:
    if told is None:
        assert due_reminder(NOTHING, limits=limits, known={}) is None
    else:
        assert told in due(limits=limits).text


def test_another_run_is_told_of_its_own_limits() -> None:
    limits = RunLimits(run_id="run_1", steps=8, max_steps=10)
    first = due(limits=limits)
    assert "2 of 10 steps" in due(limits=replace(limits, run_id="run_2"), known=first.facts).text


def test_open_tasks_are_told_and_completed_lists_are_not() -> None:
    todos = (Todo("read it", "completed"), Todo("mend it", "in_progress"))
    reminder = due_reminder(NOTHING, limits=LIMITS, known={}, neglected=todos)
    assert reminder is not None
    assert "- [completed] read it\n- [in_progress] mend it\n" in reminder.text
    assert due_reminder(NOTHING, limits=LIMITS, known={}, neglected=todos[:1]) is None


def test_several_reminders_are_one_text() -> None:
    reminder = due(
        Observations(ended_jobs=(JOB,), changed_files=(ChangedFile("a.py", "h"),)),
        limits=RunLimits(run_id="r", steps=9, max_steps=10),
    )
    assert reminder.text.count("<reminder>") == 1
    assert set(reminder.facts) == {"job:job_1", "changed:a.py", "limit:steps"}
