"""Diffs say all that changed, and stay small."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.tools.patch.hunks import apply_hunks
from holdfast.tools.patch.patch_parser import AddFile, DeleteFile, UpdateFile, parse_unified
from holdfast.tools.text.text_diff import MAX_DIFF_CHARS, binary_diff, unified_diff

_TEXTS = st.lists(st.sampled_from(["a", "b", "c", "", "  a", "-- a", "++ b"]), max_size=20).flatmap(
    lambda lines: st.sampled_from(["\n".join(lines), "".join(f"{line}\n" for line in lines)])
)


def test_a_change_is_shown_with_three_lines_around_it() -> None:
    old = "".join(f"{number}\n" for number in range(1, 21))
    diff = unified_diff("n.txt", old, old.replace("10\n", "ten\n"))
    assert diff.text == "--- a/n.txt\n+++ b/n.txt\n@@ -7,7 +7,7 @@\n 7\n 8\n 9\n-10\n+ten\n 11\n 12\n 13\n"
    assert (diff.added, diff.removed, diff.counts) == (1, 1, "+1 −1")


def test_changes_far_apart_have_hunks_of_their_own() -> None:
    old = "".join(f"{number}\n" for number in range(1, 31))
    diff = unified_diff("n", old, old.replace("3\n", "x\n", 1).replace("28\n", "y\n"))
    assert diff.text.count("@@ -") == 2


def test_a_new_file_a_deleted_one_and_no_change() -> None:
    assert unified_diff("n", None, "a\n").text == "--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+a\n"
    assert unified_diff("n", "a\n", None).text == "--- a/n\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"
    assert unified_diff("n", "a\n", "a\n").text == ""
    assert unified_diff("n", None, "").text == "--- /dev/null\n+++ b/n\n"


def test_a_missing_last_newline_is_shown() -> None:
    assert unified_diff("n", "a", "a\n").text.endswith("-a\n\\ No newline at end of file\n+a\n")


def test_a_change_of_line_endings_is_a_change() -> None:
    assert unified_diff("n", "a\r\n", "a\n").text.endswith("-a\r\n+a\n")


def test_a_huge_diff_is_cut_and_says_so() -> None:
    diff = unified_diff("n", None, "x" * 99 + "\n" + "line\n" * 50_000)
    assert len(diff.text) < MAX_DIFF_CHARS + 200
    assert "more lines of this diff are not shown" in diff.text
    assert diff.added == 50_001


def test_two_large_unlike_files_are_one_block() -> None:
    old, new = ("".join(f"{word}{number % 7}\n" for number in range(9_000)) for word in ("old", "new"))
    diff = unified_diff("n", old, new)
    assert (diff.added, diff.removed) == (9_000, 9_000)


def test_binary_content_is_described_by_size() -> None:
    assert binary_diff("logo.png", None, b"1234").text == "Binary file logo.png: absent → 4 bytes\n"


@given(_TEXTS, _TEXTS)
def test_a_diff_applied_to_the_old_text_gives_the_new_one(old: str, new: str) -> None:
    operations = parse_unified(unified_diff("n", old, new).text.split("\n"))
    if old == new:
        assert operations == ()
        return
    (update,) = operations
    assert isinstance(update, UpdateFile)
    assert apply_hunks(old, update.hunks).text == new


@given(_TEXTS)
def test_a_diff_from_or_to_nothing_is_a_whole_file(text: str) -> None:
    if text:
        assert parse_unified(unified_diff("n", None, text).text.split("\n")) == (AddFile("n", text),)
        assert parse_unified(unified_diff("n", text, None).text.split("\n")) == (DeleteFile("n"),)
