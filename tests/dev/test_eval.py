"""`make eval`: the tasks and their checks, and a whole evaluation with a scripted model that solves some of them."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from dev.eval.__main__ import main
from dev.eval.eval_report import EvalResults, EvalTotal, TaskResult, comparison, read_results, table
from dev.eval.eval_runner import make_repository, run_check
from dev.eval.eval_task import KINDS, EvalTask, load_tasks, parse_task, write_files
from holdfast.locations import Locations
from holdfast.testing import Answer, Call, ReceivedRequest, calls, text
from tests.cli.cli_shell import CONFIG, open_provider, processes_of

TASKS = load_tasks()


def test_there_are_twenty_tasks_of_every_kind() -> None:
    assert len(TASKS) == 20
    assert set(Counter(task.kind for task in TASKS)) == set(KINDS)
    assert len({task.prompt for task in TASKS}) == 20


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_a_check_fails_before_and_succeeds_after_the_solution(task: EvalTask, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    make_repository(task, repository)
    solved, reason = run_check(task, repository, answer="I have done it.")
    assert (solved, bool(reason)) == (False, True)
    write_files(task.solution, repository, remove_empty=True)
    assert run_check(task, repository, answer=task.answer) == (True, "")


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_the_agent_cannot_see_the_check_or_the_solution(task: EvalTask, tmp_path: Path) -> None:
    make_repository(task, tmp_path / "repository")
    there = {str(path.relative_to(tmp_path / "repository")) for path in (tmp_path / "repository").rglob("*.*")}
    assert {name for name in there if not name.startswith(".git")} <= set(task.files)
    assert not task.check.strip() or task.check not in "".join(task.files.values())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("kind = 1 = 2", "task 'x': "),
        ('kind = "question"\nprompt = "p"\n=== file a\nx\n', "needs files, a check"),
        ('kind = "question"\nprompt = "p"\n=== files a\nx\n', "unknown section 'files a'"),
    ],
)
def test_a_task_that_is_none_is_refused(wrong: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_task(wrong, name="x")


def _result(name: str, *, solved: bool, steps: int = 2, cost: float = 0.5) -> TaskResult:
    return TaskResult(
        name=name,
        kind="bug fix",
        solved=solved,
        steps=steps,
        input=12_000,
        output=500,
        cost=cost,
        seconds=3.2,
        check="no",
    )


def _results(*tasks: TaskResult, model: str = "a/b") -> EvalResults:
    return EvalResults(model=model, version="1", commit="abc", tasks=tasks, total=EvalTotal.of(tasks))


def test_the_table_has_every_task_and_the_total() -> None:
    shown = table(_results(_result("one", solved=True), _result("two", solved=False)))
    assert shown.splitlines() == [
        "a/b, holdfast 1 abc",
        "TASK   KIND     SOLVED  STEPS     IN   OUT     COST  TIME",
        "one    bug fix     yes      2  12.0k   500  $0.5000   3 s",
        "two    bug fix      no      2  12.0k   500  $0.5000   3 s  no",
        "total              1/2      4  24.0k  1.0k  $1.0000   6 s",
    ]


def test_two_results_are_compared_over_the_tasks_that_both_have() -> None:
    old = _results(_result("one", solved=True), _result("two", solved=False), _result("gone", solved=True))
    new = _results(_result("one", solved=False, steps=5), _result("two", solved=True, cost=0.4), model="c/d")
    assert comparison(old, new).splitlines() == [
        "a/b, 1 abc  →  c/d, 1 abc",
        "TASK   SOLVED      STEPS  IN  OUT     COST  TIME",
        "one    BROKEN NOW     +3   =    =        =     =",
        "two    SOLVED NOW      =   =    =  -0.1000     =",
        "total  1 → 1 of 2     +3   =    =  -0.1000     =",
        "not compared, because only one of them has it: gone",
    ]


def test_results_of_another_format_are_refused() -> None:
    for data in (b"{}", b"[]", b"x", msgspec.json.encode({**msgspec.to_builtins(_results()), "format": 2})):
        with pytest.raises(ValueError, match=r"'old\.json'"):
            read_results(data, name="old.json")


SOLVED = ("fix-slug", "rename-everywhere", "question-where")
NOT_SOLVED = ("add-flag", "review-change")


def _solve(received: ReceivedRequest) -> Answer:
    """Read the files of the solution, write them, and answer; claim success without doing anything for the others."""
    messages = received.body["messages"]
    said = str(messages)
    task = next((task for task in TASKS if task.prompt[:60].replace("\\", "\\\\") in said), None)
    if task is None or task.name not in SOLVED:
        return text("Everything is done.")
    step = sum(message["role"] == "assistant" for message in messages)
    known = [name for name in task.solution if name in task.files]
    if task.solution and step == 0:
        return calls(*(Call("view", {"path": name}) for name in known))
    if task.solution and step == 1:
        return calls(*(Call("write", {"path": name, "content": body}) for name, body in task.solution.items()))
    return text(task.answer or "Fixed.")


@pytest.fixture
def config(home: Path) -> Iterator[Path]:
    """The configuration of a user whose model is the scripted solver."""
    locations = Locations.from_env(os.environ)
    locations.prepare()
    with open_provider(_solve) as (provider, _):
        locations.config_file.write_text(CONFIG.format(url=provider.url()))
        yield home


def test_an_evaluation_reports_what_was_solved_and_what_it_took(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    words = ["--model", "test/test-model", "--tasks", ",".join((*SOLVED, *NOT_SOLVED)), "--parallel", "2"]
    assert main([*words, "--output", str(first)]) == 0
    found = read_results(first.read_bytes(), name="first")
    by_name = {result.name: result for result in found.tasks}
    assert {name for name, result in by_name.items() if result.solved} == set(SOLVED)
    assert {result.state for result in found.tasks} == {"completed"}
    assert [by_name[name].steps for name in ("fix-slug", "question-where", "add-flag")] == [3, 1, 1]
    assert (by_name["fix-slug"].input, by_name["fix-slug"].output) == (300, 60)
    assert by_name["fix-slug"].cost == pytest.approx(300 * 1e-6 + 60 * 10e-6)
    assert by_name["add-flag"].check
    assert (found.total.tasks, found.total.solved, found.total.steps) == (5, 3, sum(task.steps for task in found.tasks))
    assert "total" in capsys.readouterr().out
    assert main([*words, "--output", str(second), "--compare", str(first)]) == 0
    assert "3 → 3 of 5" in capsys.readouterr().out
    assert main(["--show", str(second), "--compare", str(first)]) == 0
    assert "3 → 3 of 5" in capsys.readouterr().out
    assert not any("hfe-" in line for line in processes_of(config))


def test_mistakes_are_told_before_anything_runs(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, message in (
        ([], "no model is named"),
        (["--model", "a/b", "--tasks", "absent"], "there is no task 'absent'"),
        (["--model", "a/b", "--compare", "/absent.json"], "/absent.json"),
        (["--model", "a/b", "--output", "/absent/x.json"], "does not exist"),
    ):
        assert main(words) == 2
        assert message in capsys.readouterr().err


def test_a_model_that_cannot_be_used_is_an_error(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--model", "anthropic/none", "--tasks", "fix-slug", "--output", str(tmp_path / "x.json")]
    assert main(words) == 1
    assert "anthropic" in capsys.readouterr().out
