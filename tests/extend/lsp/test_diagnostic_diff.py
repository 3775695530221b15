"""A problem that only moved is not new, and new problems are told first."""

from holdfast.extend.lsp.diagnostic_diff import (
    MAX_NEW,
    MAX_OLD,
    FileProblem,
    ProblemChanges,
    compare_problems,
    describe_changes,
    read_problems,
)
from holdfast.extend.lsp.protocol_types import Diagnostic, Position, TextRange
from holdfast.extend.lsp.text_positions import PositionedText


def _problem(line: int, message: str = "m", severity: int = 1) -> FileProblem:
    return FileProblem(severity, "a.py", line, 1, message)


def test_a_problem_that_moved_with_its_line_is_the_same() -> None:
    before, after = [_problem(2)], [_problem(3)]
    changes = compare_problems(before, after, old_text="a\nbad\n", new_text="new\na\nbad\n")
    assert changes == ProblemChanges((), (_problem(3),), ())


def test_a_second_problem_with_the_same_message_is_new_where_the_edit_was() -> None:
    before, after = [_problem(2)], [_problem(1), _problem(3)]
    changes = compare_problems(before, after, old_text="a\nbad\n", new_text="bad too\na\nbad\n")
    assert changes == ProblemChanges((_problem(1),), (_problem(3),), ())


def test_a_problem_on_a_changed_line_is_the_same_if_its_message_is() -> None:
    changes = compare_problems([_problem(1)], [_problem(1)], old_text="bad = 1\n", new_text="bad = 2\n")
    assert changes == ProblemChanges((), (_problem(1),), ())


def test_a_fixed_problem_is_gone() -> None:
    changes = compare_problems([_problem(1), _problem(2)], [_problem(1)], old_text="x\ny\n", new_text="x\nz\n")
    assert changes == ProblemChanges((), (_problem(1),), (_problem(2),))


def test_new_problems_come_first_and_errors_before_warnings() -> None:
    changes = ProblemChanges((_problem(9, "w", 2), _problem(8, "e")), (_problem(1, "old"),), (_problem(2, "gone"),))
    assert describe_changes([changes], ["ruff", "ty"]).splitlines() == [
        "[ruff and ty: this edit caused 2 new problems:]",
        "a.py:8:1: error: e",
        "a.py:9:1: warning: w",
        "[ruff and ty: this edit removed 1 problem]",
        "[ruff and ty: 1 problem that was there before:]",
        "a.py:1:1: error: old",
    ]


def test_a_flood_of_problems_is_cut_with_a_count() -> None:
    changes = ProblemChanges(tuple(map(_problem, range(500))), tuple(map(_problem, range(1_500))), ())
    lines = describe_changes([changes], ["ruff"]).splitlines()
    assert len(lines) == MAX_NEW + MAX_OLD + 4
    assert lines[MAX_NEW + 1] == "[… and 480 more]"
    assert lines[-1] == "[… and 1,495 more]"


def test_nothing_is_said_if_there_is_nothing_to_say() -> None:
    assert describe_changes([ProblemChanges((), (), ())], ["ruff"]) == ""


def test_hints_are_left_out_and_columns_count_characters() -> None:
    def diagnostic(severity: int | None) -> Diagnostic:
        return Diagnostic(TextRange(Position(0, 3), Position(0, 4)), "two\n lines", severity, code=5, source="Tool")

    text = PositionedText("😀 x")
    found = read_problems([diagnostic(None), diagnostic(1), diagnostic(4)], path="a.py", text=text, server="s")
    assert [str(problem) for problem in found] == ["a.py:1:3: error: two lines [tool 5]"]
