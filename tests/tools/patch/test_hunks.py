"""Hunks find their place, change only that, and are refused when it is not clear."""

import pytest

from holdfast.errors import ToolError
from holdfast.tools.patch.hunks import apply_hunks
from holdfast.tools.patch.patch_parser import Hunk, HunkLine


def _hunk(*lines: str, **more: object) -> Hunk:
    return Hunk(tuple(HunkLine(line[0], line[1:]) for line in lines), **more)  # type: ignore[arg-type]


def test_hunks_are_applied_in_order() -> None:
    text = "a\nb\nc\nd\ne\n"
    assert apply_hunks(text, [_hunk(" a", "-b", "+B"), _hunk("-d", " e", "+f")]).text == "a\nB\nc\ne\nf\n"


def test_a_hunk_that_matches_twice_raises_an_error() -> None:
    with pytest.raises(ToolError, match=r"hunk 1 of 1: the lines occur 2 times \(at lines 1, 3\)"):
        apply_hunks("x\na\nx\n", [_hunk("-x", "+y")])


def test_an_anchor_says_which_one_is_meant() -> None:
    text = "def f():\n    pass\n\ndef g():\n    pass\n"
    assert apply_hunks(text, [_hunk("-    pass", "+    return 1", anchors=("def g():",))]).text == (
        "def f():\n    pass\n\ndef g():\n    return 1\n"
    )
    with pytest.raises(ToolError, match="the line '@@ def h' was not found"):
        apply_hunks(text, [_hunk("-    pass", "+    x", anchors=("def h",))])


def test_a_line_number_says_which_one_is_meant_also_after_earlier_hunks_moved_it() -> None:
    text = "x\nx\nx\nx\nx\n"
    hunks = [_hunk("-x", "+1", "+1", "+1", near=1), _hunk("-x", "+4", near=4)]
    assert apply_hunks(text, hunks).text == "1\n1\n1\nx\nx\n4\nx\n"


def test_the_end_of_the_file_can_be_meant() -> None:
    assert apply_hunks("x\ny\nx\n", [_hunk("-x", "+z", at_end=True)]).text == "x\ny\nz\n"


@pytest.mark.parametrize(
    ("text", "hunk", "result"),
    [
        ("a\nb\n", _hunk("+c"), "a\nb\nc\n"),
        ("a\nb", _hunk("+c"), "a\nb\nc"),
        ("", _hunk("+c"), "c\n"),
        ("a\nb\n", _hunk("+c", near=1), "a\nc\nb\n"),
        ("a\nb\n", _hunk("+c", near=0), "c\na\nb\n"),
        ("a\nb\n", _hunk("+c", anchors=("a",)), "a\nc\nb\n"),
        ("a\r\nb\r\n", _hunk("+c"), "a\r\nb\r\nc\r\n"),
    ],
)
def test_a_hunk_that_only_adds_goes_where_it_says_or_to_the_end(text: str, hunk: Hunk, result: str) -> None:
    assert apply_hunks(text, [hunk]).text == result


def test_lines_that_stay_keep_their_bytes() -> None:
    text = "a  \r\nb\nc\t\r\nd\n"
    assert apply_hunks(text, [_hunk(" a", "-b", "+B", " c")]).text == "a  \r\nB\nc\t\r\nd\n"


def test_a_hunk_with_another_indent_is_re_indented_with_a_note() -> None:
    patched = apply_hunks("if x:\n\ty()\n\tz()\n", [_hunk(" if x:", "-    y()", "+    w()")])
    assert patched.text == "if x:\n\tw()\n\tz()\n"
    assert patched.notes == ("hunk 1 matched lines 1–2 except for white space, re-indented",)


@pytest.mark.parametrize(
    ("text", "final", "result"),
    [("a\nb", True, "a\nc\n"), ("a\nb\n", False, "a\nc"), ("a\nb", None, "a\nc"), ("a\nb\n", None, "a\nc\n")],
)
def test_the_last_newline_stays_unless_the_patch_says_otherwise(text: str, final: bool | None, result: str) -> None:
    assert apply_hunks(text, [_hunk(" a", "-b", "+c", final_newline=final)]).text == result


def test_an_error_names_the_hunk_and_shows_the_most_similar_text() -> None:
    with pytest.raises(
        ToolError, match=r"(?s)hunk 2 of 2: the lines were not found.*most similar text is at line 3.*return 2"
    ):
        apply_hunks("a\nb\nreturn 2\n", [_hunk("-a", "+A"), _hunk("-return 1", "+return 3")])


def test_a_hunk_above_the_one_before_it_is_applied_with_a_note() -> None:
    patched = apply_hunks("a\nb\nc\nd\n", [_hunk("-c", "+C", "+C"), _hunk("-a", "+A", "+A"), _hunk("-d", "+D")])
    assert patched.text == "A\nA\nb\nC\nC\nD\n"
    assert patched.notes == ("hunk 2 is above the hunk before it; give hunks in the order of the file",)


def test_typographic_variants_match_in_hunks_too() -> None:
    patched = apply_hunks("x\nit’s\ny\n", [_hunk(" it's", "-y", "+z")])
    assert patched.text == "x\nit’s\nz\n"
