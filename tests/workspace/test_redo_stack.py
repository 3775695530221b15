"""Which undo a redo takes back."""

from __future__ import annotations

import pytest

from holdfast.workspace.undo.undo_plan import Took, redo_stack


@pytest.mark.parametrize(
    ("past", "expected"),
    [
        ("", []),
        ("W", []),
        ("WU", [("1",)]),
        ("WWU", [("2",)]),
        ("WWUU", [("2",), ("1",)]),
        ("WWUUR", [("2",)]),
        ("WUW", []),
        ("WUWU", [("3",)]),
        ("WUWUR", []),
        ("WUR", []),
        ("UR", []),
        ("WURU", [("1",)]),
    ],
)
def test_the_last_undo_comes_back_first(past: str, expected: list[tuple[str, ...]]) -> None:
    kinds = {"W": "wrote", "U": "undo", "R": "redo"}
    history = [Took(seq, str(seq), kinds[kind]) for seq, kind in enumerate(past, start=1)]  # type: ignore[arg-type]
    assert redo_stack(reversed(history)) == expected


def test_an_undo_of_several_runs_comes_back_as_one() -> None:
    history = [Took(1, "1", "wrote"), Took(2, "2", "wrote"), Took(3, "3", "wrote"), Took(4, "4", "undo", since=2)]
    assert redo_stack(history) == [("2", "3")]
