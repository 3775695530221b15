"""What goes to stdout and stderr, escaped control characters, and streams that are closed or full."""

import io
import subprocess
import sys

import pytest

from holdfast.cli.screen import Screen, one_line, plain
from tests.cli.cli_shell import CliShell


def test_messages_in_a_pipe_are_separated_by_an_empty_line() -> None:
    out, err = io.StringIO(), io.StringIO()
    screen = Screen(out=out, err=err)
    screen.block()
    screen.text("one")
    screen.note("a tool ran")
    screen.block()
    screen.text("two\n")
    screen.block()
    screen.text("three")
    screen.finish()
    assert out.getvalue() == "one\n\ntwo\n\nthree\n"
    assert err.getvalue() == "a tool ran\n"


def test_a_note_starts_on_its_own_line_if_both_streams_are_one() -> None:
    out = io.StringIO()
    screen = Screen(out=out, err=out)
    screen.text("one")
    screen.note("a tool ran")
    screen.block()
    screen.text("two")
    screen.finish()
    assert out.getvalue() == "one\na tool ran\n\ntwo\n"


def test_quiet_suppresses_notes_but_not_warnings() -> None:
    err = io.StringIO()
    screen = Screen(quiet=True, out=io.StringIO(), err=err)
    screen.note("not this")
    screen.warn("but this")
    assert err.getvalue() == "but this\n"


def test_control_characters_are_escaped() -> None:
    assert plain("a\x1b[2Jb\tc\r\nd\x9b") == "a\\x1b[2Jb\tc\nd\\x9b"
    assert one_line("two\nlines\x07") == "two lines\\x07"
    assert one_line("long " * 50, most=10) == "long long…"


def test_text_direction_characters_are_escaped() -> None:
    assert plain("a\u202eb\u2066c\u2069") == "a\\u202eb\\u2066c\\u2069"
    assert one_line("\u202arm\u202c") == "\\u202arm\\u202c"


def test_end_text_ends_the_last_line() -> None:
    out = io.StringIO()
    screen = Screen(out=out, err=io.StringIO())
    screen.text("one")
    screen.block()
    screen.end_text()
    assert out.getvalue() == "one\n"
    screen.text("two")
    assert out.getvalue() == "one\n\ntwo"


def _bash(sh: CliShell, words: str, *, before: str = "") -> subprocess.CompletedProcess[str]:
    program = f'{before} "{sys.executable}" -m holdfast {words}'
    done = subprocess.run(
        ["bash", "-c", program],
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=sh.env,
        cwd=sh.work,
    )
    assert "Traceback" not in done.stderr
    assert "unexpected" not in done.stderr
    assert "Exception ignored" not in done.stderr
    return done


@pytest.mark.parametrize("words", ["run '!say fine'", "run --help", "--help", "--version", "sessions list"])
def test_a_full_stdout_prints_one_error_line_and_exits_with_1(sh: CliShell, words: str) -> None:
    done = _bash(sh, f"{words} >/dev/full")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "holdfast: cannot write to stdout: No space left on device"


@pytest.mark.parametrize("words", ["run '!say fine'", "--help", "nonsense"])
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-", "2>/dev/full"])
def test_a_closed_stream_is_not_an_error(sh: CliShell, words: str, closed: str) -> None:
    done = _bash(sh, f"{words} {closed}")
    assert done.returncode == (2 if words == "nonsense" else 0)
    if closed in ("<&-", "2>&-") and words.startswith("run '"):
        assert done.stdout == "fine\n"
