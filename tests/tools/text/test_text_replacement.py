"""Replacing text: exact, else whole lines but for white space, else a refusal that shows the nearest place."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from holdfast.errors import ToolError
from holdfast.tools.text.text_file import join_lines, split_lines
from holdfast.tools.text.text_folding import FoldedText, fold_text
from holdfast.tools.text.text_replacement import ReplacedText, replace_text
from holdfast.tools.text.variant_merge import merge_variants

_WORDS = st.text(alphabet="ab \t{}é\x0c\u2028", max_size=6)
_ENDS = st.sampled_from(["\n", "\r\n"])


@st.composite
def _texts(draw: st.DrawFn) -> str:
    """Lines of few letters, so that things repeat; endings of both kinds; with or without a last newline."""
    parts = draw(st.lists(st.tuples(_WORDS, _ENDS), max_size=8))
    return "".join(word + end for word, end in parts) + draw(_WORDS)


def _unix(text: str) -> str:
    return text.replace("\r\n", "\n")


def test_the_one_place_is_replaced() -> None:
    edited = replace_text("one\ntwo\nthree\n", old="two", new="2")
    assert (edited.text, edited.at, edited.note) == ("one\n2\nthree\n", (2,), "")


def test_a_text_that_occurs_twice_raises_an_error_with_line_numbers() -> None:
    with pytest.raises(ToolError, match=r"occurs 2 times \(lines 1, 3\).*replace_all") as refused:
        replace_text("x = 1\ny\nx = 1\n", old="x = 1", new="x = 2")
    assert refused.value.error_code == "ambiguous"


def test_overlapping_places_are_ambiguous_too() -> None:
    with pytest.raises(ToolError, match="2 times"):
        replace_text("aaa", old="aa", new="b")


def test_replace_all_goes_from_left_to_right_without_overlap() -> None:
    assert replace_text("aaaaa", old="aa", new="b", replace_all=True).text == "bba"


@pytest.mark.parametrize(
    ("old", "new", "why"), [("", "x", "empty"), ("same", "same", "are equal"), ("a\r\n", "a\n", "are equal")]
)
def test_edits_without_effect_raise_errors(old: str, new: str, why: str) -> None:
    with pytest.raises(ToolError, match=why):
        replace_text("same\na\n", old=old, new=new)


def test_a_crlf_file_is_edited_with_the_text_that_a_model_sees() -> None:
    assert replace_text("a\r\nb\r\nc\r\n", old="a\nb\n", new="a\nx\ny\n").text == "a\r\nx\r\ny\r\nc\r\n"


def test_lines_added_inside_one_line_get_the_endings_of_the_file() -> None:
    assert replace_text("a\r\nb\r\n", old="b", new="b\nc").text == "a\r\nb\r\nc\r\n"


def test_unchanged_lines_keep_their_endings_in_a_mixed_region() -> None:
    assert replace_text("a\r\nb\nc\r\nd\n", old="a\nb\nc\nd\n", new="a\nB\nc\nd\n").text == "a\r\nB\nc\r\nd\n"


def test_no_newline_is_added_at_the_end() -> None:
    assert replace_text("a\nb", old="b", new="c").text == "a\nc"


def test_whole_lines_are_found_with_another_indent_and_re_indented() -> None:
    text = "class A:\n    def f(self):\n        return 1\n\n    def g(self):\n        return 2\n"
    edited = replace_text(
        text, old="def f(self):\n    return 1\n", new="def f(self, x):\n    if x:\n        return x\n    return 1\n"
    )
    assert edited.text == (
        "class A:\n    def f(self, x):\n        if x:\n            return x\n        return 1\n\n"
        "    def g(self):\n        return 2\n"
    )
    assert "lines 2–3 match except for white space" in edited.note


def test_spaces_for_tabs_are_put_back_as_tabs() -> None:
    text = "func f() {\n\tif x {\n\t\treturn\n\t}\n}\n"
    edited = replace_text(
        text,
        old="    if x {\n        return\n    }\n",
        new="    if x {\n        if y {\n            return\n        }\n    }\n",
    )
    assert edited.text == "func f() {\n\tif x {\n\t\tif y {\n\t\t\treturn\n\t\t}\n\t}\n}\n"


def test_two_spaces_for_four_are_scaled() -> None:
    text = "    if x:\n        a()\n"
    edited = replace_text(text, old="  if x:\n    a()\n", new="  if x:\n    if y:\n      a()\n")
    assert edited.text == "    if x:\n        if y:\n            a()\n"


def test_a_line_that_goes_further_left_follows() -> None:
    text = "class A:\n        def f(self):\n            pass\n"
    edited = replace_text(text, old="    def f(self):\n        pass\n", new="    def f(self):\n        pass\nX = 1\n")
    assert edited.text == "class A:\n        def f(self):\n            pass\n    X = 1\n"


def test_trailing_white_space_of_lines_that_stay_is_kept() -> None:
    assert replace_text("a  \nb\t\nc\n", old="a\nb\nc", new="a\nb\nd").text == "a  \nb\t\nd\n"


def test_a_newline_that_the_file_does_not_have_at_its_end_is_not_made() -> None:
    assert replace_text("a\nb", old="b\n", new="c\nd\n").text == "a\nc\nd"


def test_an_indent_that_differs_inconsistently_is_another_structure() -> None:
    with pytest.raises(ToolError, match="not found"):
        replace_text("if x:\n    a()\n    b()\n", old="if x:\n  a()\nb()\n", new="pass\n")


def test_inner_white_space_counts() -> None:
    with pytest.raises(ToolError, match=r"(?s)most similar text is at line 2.*only in white space"):
        replace_text("x\ns = 'a  b'\n", old="s = 'a b'", new="s = ''")


def test_an_error_shows_the_most_similar_text_and_the_differences() -> None:
    text = "import os\n\n\ndef area(w, h):\n    total = w * h\n    return total\n"
    with pytest.raises(ToolError) as refused:
        replace_text(text, old="def area(w, h):\n    total = w + h\n    return total\n", new="")
    assert refused.value.message == (
        "old_text was not found. The most similar text is at lines 4 to 6 (-: the given text, +: the file):\n"
        "  4: def area(w, h):\n"
        "-     total = w + h\n"
        "+ 5:     total = w * h\n"
        "  6:     return total"
    )


def test_a_line_like_it_is_found_when_no_line_is_the_same() -> None:
    with pytest.raises(ToolError, match=r"most similar text is at line 3 .*\n- retrun value\n\+ 3: return value"):
        replace_text("a\nb\nreturn value\n", old="retrun value", new="x")


@pytest.mark.parametrize(
    ("text", "old", "said"),
    [
        ("", "a", "The file is empty"),
        ("completely different\n", "zzzz qqqq", "Nothing in the file is similar"),
    ],
)
def test_an_error_says_what_to_do(text: str, old: str, said: str) -> None:
    with pytest.raises(ToolError, match=said):
        replace_text(text, old=old, new="x")


def test_the_error_for_a_huge_text_is_limited() -> None:
    text = "".join(f"line {number} {'x' * 300}\n" for number in range(5_000))
    old = "".join(f"line {number} {'x' * 299}y\n" for number in range(200)) + "line 7 " + "x" * 300
    with pytest.raises(ToolError) as refused:
        replace_text(text, old=old, new="")
    assert len(refused.value.message) < 20_000


def test_too_many_matches_raise_an_error() -> None:
    with pytest.raises(ToolError, match="use bash"):
        replace_text("a" * 200_000, old="a", new="b", replace_all=True)


@given(_texts(), st.data())
def test_nothing_outside_the_matched_region_changes(text: str, data: st.DataObject) -> None:
    lines = _unix(text)
    assume(lines)
    start = data.draw(st.integers(0, len(lines) - 1))
    stop = data.draw(st.integers(start + 1, len(lines)))
    old, new = lines[start:stop], data.draw(st.text(alphabet="abc\n ", max_size=8))
    assume(old != new)
    edited = _edited(text, old, new, may_refuse=("ambiguous",))
    if edited is None:
        return
    assert _unix(edited.text) == lines[:start] + new + lines[stop:]
    before, after = _original(text, start), len(text) - _original(text, stop)
    assert edited.text[:before] == text[:before]
    assert edited.text[len(edited.text) - after :] == text[len(text) - after :]


def _edited(text: str, old: str, new: str, *, may_refuse: tuple[str, ...]) -> ReplacedText | None:
    """None for a refusal of a kind that the test expects."""
    try:
        return replace_text(text, old=old, new=new)
    except ToolError as error:
        if error.error_code in may_refuse:
            return None
        raise


def _original(text: str, position: int) -> int:
    """Where a position of the Unix text lies in the original: counted naively, letter by letter."""
    at = 0
    for _ in range(position):
        at += 2 if text[at : at + 2] == "\r\n" else 1
    return at


@given(_texts(), st.data())
def test_line_endings_and_the_last_newline_stay(text: str, data: st.DataObject) -> None:
    lines = split_lines(text)
    assume(lines)
    chosen = data.draw(st.integers(0, len(lines) - 1))
    assume(lines[chosen].text.strip())
    new = data.draw(st.text(alphabet="xyz", min_size=1, max_size=4))
    edited = _edited(text, lines[chosen].text, new, may_refuse=("ambiguous",))
    if edited is not None:
        assert [line.end for line in split_lines(edited.text)] == [line.end for line in lines]


@given(_texts(), st.data())
def test_whole_lines_found_but_for_white_space_change_nothing_else(text: str, data: st.DataObject) -> None:
    lines = split_lines(text)
    assume(lines)
    start = data.draw(st.integers(0, len(lines) - 1))
    stop = data.draw(st.integers(start + 1, len(lines)))
    assume(any(line.text.strip() for line in lines[start:stop]))
    shift = data.draw(st.sampled_from(["", "  ", "\t"]))
    old = "".join(f"{shift}{line.text.strip()}\n" for line in lines[start:stop])
    new = data.draw(st.lists(st.sampled_from(["q", "  r", ""]), max_size=3))
    given_new = "".join(f"{shift}{line}\n" for line in new)
    assume(old != given_new)
    edited = _edited(text, old, given_new, may_refuse=("ambiguous", "no_match"))
    if edited is None or not edited.note:
        return
    found = edited.at[0] - 1
    kept_after = lines[found + stop - start :]
    changed = split_lines(edited.text)
    assert changed[:found] == lines[:found]
    assert changed[len(changed) - len(kept_after) :] == kept_after
    assert text.endswith("\n") == edited.text.endswith("\n") or not new or not new[-1]


@given(_texts())
def test_lines_joined_again_are_the_text(text: str) -> None:
    assert join_lines(split_lines(text)) == text


@pytest.mark.parametrize(
    ("text", "old", "new", "result"),
    [
        ("say(“hi”)\n", 'say("hi")', 'say("hi there")', "say(“hi there”)\n"),
        ("it’s – fine…\n", "it's - fine...", "it's - good...", "it’s – good…\n"),
        ("a\u00a0b\n", "a b", "a c", "a\u00a0c\n"),
        ("cafe\u0301 x\n", "café x", "café y", "cafe\u0301 y\n"),
        ("café x\n", "cafe\u0301 x", "cafe\u0301 y", "café y\n"),
        ("x\u200by z\n", "xy z", "xy q", "x\u200by q\n"),
        ("“a”\r\n“b”\r\n", '"a"\n"b"\n', '"a"\n"c"\n', "“a”\r\n“c”\r\n"),
        ("if x:\n    say(“hi”)\n", 'if x:\n  say("hi")\n', 'if x:\n  say("ho")\n', 'if x:\n    say("ho")\n'),
    ],
)
def test_typographic_variants_match_and_what_stays_keeps_its_characters(
    text: str, old: str, new: str, result: str
) -> None:
    edited = replace_text(text, old=old, new=new)
    assert edited.text == result
    assert "variants" in edited.note


def test_an_exact_match_wins_over_a_variant() -> None:
    assert replace_text('“a” "a"\n', old='"a"', new="b").text == "“a” b\n"


def test_two_variants_are_ambiguous() -> None:
    with pytest.raises(ToolError, match="occurs 2 times"):
        replace_text("“a”\n„a“\n", old='"a"', new="b")


def test_half_of_a_character_is_not_a_match() -> None:
    with pytest.raises(ToolError, match="not found"):
        replace_text("wait…\n", old="wait.", new="x")


@pytest.mark.parametrize(
    ("text", "old", "new", "result", "note"),
    [
        ("def f():\n  x\n", "     1\tdef f():\n     2\t  x", "     1\tx = 1\n     2\ty", "x = 1\ny\n", "numbers"),
        ("a\nb\nc\n", "2: b\n3: c", "b\nd", "a\nb\nd\n", "line numbers"),
        ("a\nb\n", "1→a\n2→b\n", "1→x\n2→b\n", "x\nb\n", "line numbers"),
        ('say("a")\nx\n', 'say(\\"a\\")\\nx', 'say(\\"b\\")\\ny', 'say("b")\ny\n', "escaped once too often"),
        ('say("a")\n', 'say(\\"a\\")', 'say(\\"a\\n\\")', 'say("a\\n")\n', "escaped once too often"),
        ("if (a < b && c)\n", "if (a &lt; b &amp;&amp; c)", "if (a &gt; b)", "if (a > b)\n", "HTML entities"),
    ],
)  # fmt: skip
def test_other_readings_of_the_given_texts_are_tried(text: str, old: str, new: str, result: str, note: str) -> None:
    edited = replace_text(text, old=old, new=new)
    assert edited.text == result
    assert note in edited.note


@pytest.mark.parametrize("text", ["1: a\n2: b\n", 'say(\\"a\\")\n', "&lt;\n"])
def test_a_text_that_matches_as_given_is_read_as_given(text: str) -> None:
    edited = replace_text(text, old=text, new="x\n")
    assert (edited.text, edited.note) == ("x\n", "")


_TYPOGRAPHY = st.text(alphabet="ab '\"-“”’–\u00a0…é\u0301e\u200b\n", max_size=12)


@given(_TYPOGRAPHY)
def test_positions_of_a_folded_text_lead_back_to_the_same_characters(text: str) -> None:
    folded = FoldedText(text)
    assert folded.text == fold_text(text)
    for position in range(len(folded.text) + 1):
        start, stop = folded.to_original(position), folded.to_original(position, is_end=True)
        assert (start is None) == (stop is None)
        if start is not None and stop is not None:
            assert 0 <= stop <= start <= len(text)
            assert folded.to_folded(start) == folded.to_folded(stop) == position
    assert merge_variants(text, old=text, new=text) == text


@given(_TYPOGRAPHY, _TYPOGRAPHY)
def test_a_plain_text_finds_its_typographic_original_and_keeps_it(text: str, added: str) -> None:
    assume(text.strip() and fold_text(text).strip())
    assert merge_variants(text, old=fold_text(text), new=fold_text(text)).strip("\u200b") == text.strip("\u200b")
