"""The real program on a pseudo-terminal: it survives kills of both sides and leaves the terminal as it was."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from tests.cli.cli_shell import CliShell, open_shell
from tests.tui.terminal_process import TerminalProcess

ESCAPE, ENTER, TAB, CTRL_B, CTRL_C, CTRL_Q, CTRL_Z = "\x1b", "\r", "\t", "\x02", "\x03", "\x11", "\x1a"

FAILS = (
    "-c",
    """
from holdfast.tui.chat_screen import ChatScreen
def fail(self): raise ValueError('made to fail by a test')
ChatScreen.action_details = fail
from holdfast.cli import main
raise SystemExit(main())
""",
)
"""The program, with a fault behind Ctrl-B."""


@pytest.fixture(scope="module")
def shell() -> Iterator[CliShell]:
    with open_shell() as found:
        yield found


@contextmanager
def terminal(
    shell: CliShell,
    *arguments: str,
    program: tuple[str, ...] = ("-m", "holdfast"),
    size: tuple[int, int] = (100, 30),
) -> Iterator[TerminalProcess]:
    """The program on a terminal, connected to its server."""
    found = TerminalProcess(*arguments, env=shell.env, cwd=shell.work, program=program, size=size)
    try:
        found.until("test-model")
        yield found
    except AssertionError:
        print((shell.locations.logs_dir / "tui.log").read_text()[-5000:])
        raise
    finally:
        found.close()


def view_of(ui: TerminalProcess) -> list[str]:
    """The transcript: the lines above the rule. Times may differ by then."""
    lines = ui.text.splitlines()
    rule = next(number for number, line in enumerate(lines) if line.startswith("────"))
    return [line for line in lines[:rule] if line]


def test_a_session_with_an_approval_a_steer_a_queue_a_cancel_and_a_resize(shell: CliShell) -> None:
    with terminal(shell) as ui:
        ui.send("make a file: !bash touch made" + ENTER)
        ui.until("Run this command?")
        ui.until(lambda: b"after a pause" in ui.received)
        ui.until(lambda: "say why" in ui.text and "after a pause" not in ui.text)
        assert not (shell.work / "made").exists()
        ui.send("y")
        ui.until("done:")
        assert (shell.work / "made").exists()

        ui.send("wait: !gate one" + ENTER)
        ui.until("before the gate")
        ui.until("enter queue")
        ui.send("afterwards: !say this was queued" + ENTER)
        ui.until("next     1  afterwards")
        ui.send("also: !say this was steered" + TAB)
        ui.until("steers")
        shell.open("one")
        ui.until("after the gate")
        ui.until("▌ also: !say this was steered")
        ui.until("▌ afterwards: !say this was queued")
        ui.until(lambda: "next     1" not in ui.text and "enter queue" not in ui.text)

        ui.send("never ends: !hang partial text" + ENTER)
        ui.until(lambda: "\n partial text" in ui.text)
        ui.until("esc cancel")
        ui.send(ESCAPE)
        ui.until("cancelled by you")
        assert "partial text" in ui.text

        for columns, rows in ((40, 12), (140, 40), (60, 20)):
            ui.resize(columns, rows)
            ui.until(lambda: "partial text" in ui.text and ui.text.splitlines()[-1].startswith(" ask"))
        ui.send("after the resize: !say still here" + ENTER)
        ui.until("\n still here")
        ui.send(CTRL_Q)
        assert ui.ended() == 0
        assert "come back with: holdfast --session ses_" in ui.text
        assert ui.left_behind == []


def test_a_killed_interface_comes_back_to_the_same_view(shell: CliShell) -> None:
    with terminal(shell) as first:
        first.send("first: !say an answer that stays" + ENTER)
        first.until("\n an answer that stays")
        first.send("second: !gate two" + ENTER)
        first.until("before the gate")
        first.until("enter queue")
        first.send("third: !say the last answer" + ENTER)
        first.until("next     1  third")
        first.send("half a thought")
        first.until("half a thought")
        drafts = shell.locations.state_dir / "tui"
        first.until(lambda: any(file.read_text() == "half a thought" for file in drafts.glob("*.draft")))
        seen = view_of(first)
        first.kill()
    with terminal(shell, "--continue") as second:
        second.until("before the gate")
        second.until("next     1  third")
        second.until("half a thought")
        assert view_of(second) == seen
        shell.open("two")
        second.until("after the gate")
        second.until("\n the last answer")
        second.send(CTRL_Q)
        assert second.ended() == 0


def test_a_prompt_on_the_command_line_is_sent_at_once_and_continues_the_last_session(shell: CliShell) -> None:
    sessions = []
    for words in (("!say hello",), ("--continue", "!say it again")):
        with terminal(shell, *words) as ui:
            ui.until("▌ " + words[-1])
            ui.until("\n " + words[-1].removeprefix("!say "))
            ui.send(CTRL_Q)
            assert ui.ended() == 0
            sessions.append(ui.received.decode("utf-8", "replace").partition("--session ses_")[2].split()[0])
    assert sessions[0] == sessions[1]


def test_a_killed_server_is_told_and_the_interface_goes_on_by_itself(shell: CliShell) -> None:
    with terminal(shell) as ui:
        ui.send("first: !hang words before the crash" + ENTER)
        ui.until("\n words before the crash")
        ui.until("enter queue")
        ui.send("second: !say words after the crash" + ENTER)
        ui.until("next     1  second")
        ui.send("a draft")
        before = shell.server_pid()
        os.kill(before, signal.SIGKILL)
        ui.until("server has restarted")
        ui.until("interrupted: the server crashed")
        ui.until("\n words after the crash")
        assert "words before the crash" in ui.text
        assert "› a draft" in ui.text
        assert shell.server_pid() != before
        ui.send(CTRL_Q)
        assert ui.ended() == 0
        assert ui.left_behind == []


@pytest.mark.parametrize(
    ("keys", "number", "program", "status"),
    [
        pytest.param(CTRL_Q, None, ("-m", "holdfast"), 0, id="ctrl+q"),
        pytest.param("/quit" + ENTER, None, ("-m", "holdfast"), 0, id="quit"),
        pytest.param(CTRL_C + CTRL_C, None, ("-m", "holdfast"), 0, id="ctrl+c twice"),
        pytest.param("", signal.SIGTERM, ("-m", "holdfast"), 0, id="SIGTERM"),
        pytest.param("", signal.SIGHUP, ("-m", "holdfast"), 0, id="SIGHUP"),
        pytest.param("", signal.SIGINT, ("-m", "holdfast"), 0, id="SIGINT"),
        pytest.param(CTRL_B, None, FAILS, 1, id="exception"),
    ],
)
def test_the_terminal_is_restored_after(
    shell: CliShell, keys: str, number: signal.Signals | None, program: tuple[str, ...], status: int
) -> None:
    with terminal(shell, program=program) as ui:
        if keys:
            ui.send(keys)
        else:
            assert number is not None
            ui.process.send_signal(number)
        assert ui.ended() == status
        assert ui.left_behind == []
        if program is FAILS:
            assert "the terminal UI failed (ValueError: made to fail by a test)" in ui.text.replace("\n", "")
            assert "Traceback" not in ui.text
            assert "made to fail by a test" in (shell.locations.logs_dir / "tui.log").read_text()


def test_a_suspended_interface_restores_the_terminal_and_comes_back(shell: CliShell) -> None:
    with terminal(shell) as ui:
        ui.send("a draft")
        ui.until("› a draft")
        ui.send(CTRL_Z)
        ui.until_stopped()
        assert ui.left_behind == []
        ui.screen.reset()  # as other programs would leave it
        ui.process.send_signal(signal.SIGCONT)
        ui.until("› a draft")
        assert {1049 << 5, 1000 << 5, 2004 << 5} <= ui.screen.mode
        ui.send(" and more")
        ui.until("› a draft and more")
        ui.send(CTRL_C + CTRL_Q)
        assert ui.ended() == 0
        assert ui.left_behind == []


def test_an_interface_that_was_stopped_from_outside_goes_on(shell: CliShell) -> None:
    with terminal(shell) as ui:
        for count in range(1, 4):
            ui.process.send_signal(signal.SIGSTOP)
            ui.until_stopped()
            ui.screen.reset()
            before = len(ui.received)
            ui.process.send_signal(signal.SIGCONT)
            ui.until(lambda: b"\x1b[?1049h" in ui.received[before:])  # noqa: B023 - used within the round
            ui.until("test-model")
            ui.send("\x1b[D\x1b[C" * 20 + "word.")  # many keys that are several bytes each
            ui.until("› " + "word." * count)
        ui.send(CTRL_C + CTRL_Q)
        assert ui.ended() == 0
        assert ui.left_behind == []


def test_an_interface_whose_window_is_closed_ends(shell: CliShell) -> None:
    with terminal(shell) as ui:
        ui.hang_up()
        ui.process.wait(50)


def test_control_characters_in_output_and_file_names_are_shown_and_never_sent(shell: CliShell) -> None:
    (shell.work / "evil\x1b]0;TITLE\x07\x1b[2J.txt").write_text("x")
    (shell.work / "hostile.txt").write_bytes(
        "\x1b]0;TITLE\x07\x1b[2J\x1b[?1049l\x1b[31mred\x1b[0m\x9b5n\x1bcreset\x00\x08\x0e\t tab\n"
        "שלום \u202edetresrever\u202c 漢字漢字 e\u0301 the-last-line 👩‍👩‍👧‍👦\n".encode()
    )
    with terminal(shell) as ui:
        ui.send("!cat hostile.txt; ls" + ENTER)
        ui.until("the-last-line")
        ui.until("evil")
        ui.send("see @hostile")
        ui.until("@hostile.txt")  # completed; a name with control characters is not offered
        ui.send(ESCAPE + CTRL_C)
        ui.until(lambda: "see @" not in ui.text)
        ui.send("now @evil")
        ui.until("› now @evil")
        ui.send(CTRL_C)
        ui.until(lambda: "@evil" not in ui.text)
        for sequence in (b"\x1b]0;TITLE", b"\x1b[2J", b"\x1bc", b"\xc2\x9b", b"\x9b5n", "\u202e".encode(), b"\x0e"):
            assert sequence not in ui.received, sequence
        assert "red" in ui.text
        ui.send(CTRL_Q)
        assert ui.ended() == 0
        assert ui.left_behind == []


def test_a_huge_paste_and_a_storm_of_resizes_are_survived(shell: CliShell) -> None:
    with terminal(shell) as ui:
        ui.paste("a line of the paste\n" * 20_000)
        ui.until("pasted-1.txt, 20001 lines")
        ui.send("one more: !say it was read" + ENTER)
        ui.until("\n it was read")
        for step in range(60):
            ui.resize(20 + step * 7 % 140, 5 + step * 3 % 40)
        ui.resize(100, 30)
        ui.until(lambda: "it was read" in ui.text and ui.text.splitlines()[-1].startswith(" ask"))
        ui.send("still typing")
        ui.until("› still typing")
        ui.send(CTRL_C + CTRL_Q)
        assert ui.ended() == 0
        assert ui.left_behind == []


def test_an_interface_whose_window_is_closed_ends_also_if_it_is_told_to_go_on(shell: CliShell) -> None:
    """A terminal that goes away sends SIGHUP and SIGCONT. The second one must not bring the closing interface back."""
    for pause in (0.0, 0.05, 0.1, 0.2, 0.3):
        with terminal(shell) as ui:
            ui.process.send_signal(signal.SIGHUP)
            ui.hang_up()
            for _ in range(10):
                if ui.process.poll() is None:
                    ui.process.send_signal(signal.SIGCONT)
                with suppress(subprocess.TimeoutExpired):
                    ui.process.wait(pause)
            ui.process.wait(50)
