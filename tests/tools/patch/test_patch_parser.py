"""Patches are read in two forms, and what is not understood is named."""

import subprocess
from pathlib import Path

import pytest

from holdfast.errors import ToolError
from holdfast.tools.patch.patch_parser import AddFile, DeleteFile, Hunk, HunkLine, UpdateFile, parse_patch

_ENVELOPE = """\
Some words before it.
*** Begin Patch
*** Add File: new/notes.txt
+first

+third
*** Delete File: old.txt

*** Update File: src/app.py
*** Move to: src/main.py
@@ class App:
@@     def run(self):
 context

-gone
+come
@@
+at the end
*** End of File
*** End Patch
Some words after it.
"""


def _line(text: str) -> HunkLine:
    return HunkLine(text[0], text[1:])  # type: ignore[arg-type]


def test_the_envelope_has_sections_for_files() -> None:
    assert parse_patch(_ENVELOPE) == (
        AddFile("new/notes.txt", "first\n\nthird\n"),
        DeleteFile("old.txt"),
        UpdateFile(
            "src/app.py",
            (
                Hunk(
                    (_line(" context"), _line(" "), _line("-gone"), _line("+come")),
                    ("class App:", "def run(self):"),
                ),
                Hunk((_line("+at the end"),), at_end=True),
            ),
            "src/main.py",
        ),
    )


def test_empty_lines_between_sections_are_ignored() -> None:
    patch = "*** Begin Patch\n*** Add File: a\n+x\n\n\n*** Update File: b\n-y\n+z\n\n*** End Patch"
    assert parse_patch(patch) == (
        AddFile("a", "x\n"),
        UpdateFile("b", (Hunk((_line("-y"), _line("+z"))),)),
    )


def test_an_empty_file_can_be_added() -> None:
    assert parse_patch("*** Begin Patch\n*** Add File: a\n*** End Patch") == (AddFile("a", ""),)


def test_line_numbers_in_an_envelope_are_hints() -> None:
    (update,) = parse_patch("*** Begin Patch\n*** Update File: b\n@@ -12,1 +12,1 @@\n-y\n+z\n*** End Patch")
    assert update == UpdateFile("b", (Hunk((_line("-y"), _line("+z")), near=12),))


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        ("", "names no file"),
        ("hello", "names no file"),
        ("*** Begin Patch\n*** End Patch", "names no file"),
        ("*** Begin Patch\n*** Add File: a\n+x", r"does not end with '\*\*\* End Patch'"),
        ("*** Begin Patch\n*** Add File: a\nx\n*** End Patch", "line 3 of the patch, 'x': each line of an added file"),
        ("*** Begin Patch\nwhat\n*** End Patch", "line 2 of the patch, 'what': expected"),
        ("*** Begin Patch\n*** Update File: a\nwhat\n*** End Patch", "start with ' ', '-' or '\\+'"),
        ("*** Begin Patch\n*** Update File: a\n*** End Patch", "has no hunk for 'a'"),
        ("*** Begin Patch\n*** Update File: a\n@@ def f():\n*** End Patch", "hunk below '@@ def f\\(\\):' is empty"),
        ("@@ -1 +1 @@\n-a\n+b", "no file is named"),
        ("diff --git a/x b/x\nGIT binary patch\nliteral 0", "binary content"),
        ("diff --git a/x b/y\ncopy from x\ncopy to y", "cannot copy"),
    ],
)
def test_invalid_patches_raise_errors(patch: str, why: str) -> None:
    with pytest.raises(ToolError, match=why):
        parse_patch(patch)


def test_a_plain_unified_diff_names_files_without_prefixes() -> None:
    patch = "--- b/x.py\t2026-01-01 00:00:00\n+++ b/x.py\t2026-01-02 00:00:00\n@@ -1,2 +1,2 @@ def f\n a\n-b\n+c\n"
    (update,) = parse_patch(patch)
    assert update == UpdateFile("b/x.py", (Hunk((_line(" a"), _line("-b"), _line("+c")), near=1),))


def test_a_removed_line_that_looks_like_a_header_is_a_removed_line() -> None:
    patch = "--- a/q.sql\n+++ b/q.sql\n@@ -1,3 +1,2 @@\n a\n--- drop\n+++ add\n b\n"
    (update,) = parse_patch(patch)
    assert isinstance(update, UpdateFile)
    assert [line.mark + line.text for line in update.hunks[0].lines] == [" a", "--- drop", "+++ add", " b"]


def test_the_signature_of_a_mailed_patch_is_not_content() -> None:
    patch = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n-- \n2.39.5\n"
    (update,) = parse_patch(patch)
    assert isinstance(update, UpdateFile)
    assert update.hunks[0].lines == (_line("-a"), _line("+b"))


def test_wrong_counts_do_not_matter() -> None:
    patch = "--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n-a\n+b\n--- a/y\n+++ b/y\n@@ -1,1 +1,1 @@\n-c\n+d\n"
    assert [operation.path for operation in parse_patch(patch)] == ["x", "y"]


def test_diffs_of_git_are_parsed(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", str(tmp_path), *arguments], check=True, capture_output=True, text=True
        ).stdout

    git("init", "-q")
    for name, text in {"kept": "a\nb\nc\n", "gone": "x\n", "moved": "1\n2\n3\n4\n5\n", "bare": "one\ntwo"}.items():
        (tmp_path / name).write_text(text)
    git("add", ".")
    git("commit", "-qm", "first")
    (tmp_path / "kept").write_text("a\nB\nc\n")
    (tmp_path / "bare").write_text("one\n2")
    (tmp_path / "gone").unlink()
    (tmp_path / "moved").rename(tmp_path / "m\u00f6ved")
    (tmp_path / "new").write_text("n\n")
    (tmp_path / "empty").touch()
    (tmp_path / "tool").write_text("#!\n")
    (tmp_path / "tool").chmod(0o755)
    git("add", "-A")
    found = parse_patch(git("diff", "--cached", "-M"))
    assert sorted(found, key=lambda operation: operation.path) == [
        UpdateFile("bare", (Hunk((_line(" one"), _line("-two"), _line("+2")), near=1, final_newline=False),)),
        AddFile("empty", ""),
        DeleteFile("gone"),
        UpdateFile("kept", (Hunk((_line(" a"), _line("-b"), _line("+B"), _line(" c")), near=1),)),
        UpdateFile("moved", (), "m\u00f6ved"),
        AddFile("new", "n\n"),
        AddFile("tool", "#!\n", executable=True),
    ]
