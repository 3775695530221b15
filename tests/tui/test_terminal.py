"""The real program on a pseudo-terminal: it survives kills of both sides and leaves the terminal as it was."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.client import open_sync_client
from tests.tui.terminal_process import TerminalProcess


@pytest.fixture
def env(home: Path) -> Iterator[dict[str, str]]:
    found = {**os.environ, "HOLDFAST_MODEL": "offline/demo"}
    yield found
    subprocess.run([sys.executable, "-m", "holdfast", "stop"], env=found, check=False, capture_output=True)


def _server_pid(env: dict[str, str]) -> int:
    with open_sync_client(env, name="test", start=False) as client:
        return client.server().pid


def test_a_session_survives_kills_of_the_interface_and_of_the_server(env: dict[str, str], tmp_path: Path) -> None:
    first = TerminalProcess(env=env, cwd=tmp_path)
    try:
        first.until("what should be done?")
        first.until("offline/demo")
        first.send("say hello\r")
        first.until("This is the offline demo")
        first.resize(60, 20)
        first.process.send_signal(signal.SIGWINCH)
        first.until(lambda: "This is the offline demo" in first.text and "›" in first.text)
        first.send("half a thought")
        first.until("half a thought")
        drafts = Path(env["HOLDFAST_HOME"]) / "state" / "tui"
        first.until(lambda: any("half a thought" in file.read_text() for file in drafts.glob("*.draft")))
        first.kill()
    finally:
        first.close()
    second = TerminalProcess("--continue", env=env, cwd=tmp_path)
    try:
        second.until("This is the offline demo")
        second.until("half a thought")
        os.kill(_server_pid(env), signal.SIGKILL)
        second.until(lambda: "restarted" in second.text)
        second.send("\r")
        second.until(lambda: second.text.count("half a thought") >= 2)
        second.send("\x11")  # ctrl+q
        assert second.ended() == 0
        assert "come back with: holdfast --session ses_" in second.received.decode("utf-8", "replace")
        assert second.is_restored
    finally:
        second.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_terminal_is_restored_after_a_signal(env: dict[str, str], tmp_path: Path, number: signal.Signals) -> None:
    terminal = TerminalProcess(env=env, cwd=tmp_path)
    try:
        terminal.until("what should be done?")
        terminal.until("offline/demo")
        terminal.process.send_signal(number)
        terminal.ended()
        assert terminal.is_restored
    finally:
        terminal.close()


def test_a_prompt_on_the_command_line_is_sent_at_once_and_continues_the_last_session(
    env: dict[str, str], tmp_path: Path
) -> None:
    sessions = []
    for words in (("say hello",), ("--continue", "say it again")):
        terminal = TerminalProcess(*words, env=env, cwd=tmp_path)
        try:
            terminal.until(words[-1])
            terminal.until("This is the offline demo")
            terminal.send("\x11")  # ctrl+q
            assert terminal.ended() == 0
            sessions.append(terminal.received.decode("utf-8", "replace").partition("--session ses_")[2].split()[0])
        finally:
            terminal.close()
    assert sessions[0] == sessions[1]
