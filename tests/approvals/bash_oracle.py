"""Ask bash which commands a line runs, without running any program.

The search path is empty, so bash calls its hook for unknown commands for each program. The hook logs the words.
"""

import os
import subprocess
import tempfile
from pathlib import Path

from holdfast.approvals.shell.shell_commands import ParsedLine
from holdfast.approvals.shell.shell_words import Arg

_HOOK = """() { printf '%s\\0' "$#" "${@//$'\\n'/$'\\1'}" >&9; }"""
"""Logs a new line as \\1: bash writes line by line, and several commands may write at the same time."""
_MOST_CPU_SECONDS = 1
"""Of each process: a loop may have no end, because every command succeeds."""


class Ran:
    """The commands that bash tried to run, and the files that it created."""

    def __init__(self, commands: list[list[str]], files: set[str]) -> None:
        self.commands = commands
        self.files = files


def run_in_bash(line: str) -> Ran:
    """Run a line in bash; return when everything that it started has ended."""
    reading, writing = os.pipe()
    with tempfile.TemporaryDirectory(prefix="hf-") as directory, open(reading, "rb") as log:
        shell = subprocess.Popen(
            [
                "/bin/bash",
                "--norc",
                "-c",
                f'ulimit -t {_MOST_CPU_SECONDS}; exec 9>&"$1"; eval "exec $1>&-"; shift; eval "$1"',
                "sh",
                str(writing),
                line,
            ],
            cwd=directory,
            env={"PATH": "/nowhere", "HOME": "/nowhere", "BASH_FUNC_command_not_found_handle%%": _HOOK},
            pass_fds=(writing,),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(writing)
        logged = log.read()
        shell.wait()
        return Ran(_commands(logged), {path.name for path in Path(directory).iterdir()})


def _commands(log: bytes) -> list[list[str]]:
    words = log.decode(errors="replace").replace("\1", "\n").split("\0")[:-1]
    commands = []
    position = 0
    while position < len(words):
        count = int(words[position])
        command = words[position + 1 : position + 1 + count]
        if len(command) == count:  # else it was cut off at the end of its time
            commands.append(command)
        position += 1 + count
    return commands


def missed(line: ParsedLine, ran: Ran) -> list[object]:
    """The commands and files that bash used and the parser did not find."""
    commands = [argv for argv in ran.commands if not any(_is(command.argv, argv) for command in line.commands)]
    targets = {redirect.target.text for redirect in line.redirects if redirect.target.literal}
    any_target = any(not redirect.target.literal for redirect in line.redirects)
    return [*commands, *(set() if any_target else ran.files - targets)]


def _is(args: tuple[Arg, ...], words: list[str]) -> bool:
    """After a pipe, `time` is a program for bash; the parser treats it as a wrapper everywhere."""
    return _could_be(args, words) or (words[0] == "time" and _could_be(args, words[1:]))


def _could_be(args: tuple[Arg, ...], words: list[str]) -> bool:
    reachable = {0}
    for arg in args:
        if arg.literal:
            reachable = {at + 1 for at in reachable if at < len(words) and words[at] == arg.text}
        elif arg.kind == "stream":
            reachable = {at + 1 for at in reachable if at < len(words)}
        else:
            reachable = set(range(min(reachable), len(words) + 1)) if reachable else set()
    return len(words) in reachable
