"""The output of a command: emitted live, stored in a file as plain text, and shortened for the model.

Memory is limited: only the head and the tail are held, the file has a maximum size, and live text stops at a limit with
a notice. Secrets are removed before output is stored or shown, also if a secret arrives in several pieces or with
colours inside. What is shown live keeps its colours; what the model gets is plain text (`terminal_text`).
"""

from __future__ import annotations

import asyncio
import codecs
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import BinaryIO

from holdfast.config import StreamRedactor
from holdfast.tools.files.file_access import MAX_FILE_BYTES
from holdfast.tools.process.command_process import CommandLauncher, CommandSpec, KillResult, RunningCommand
from holdfast.tools.text.terminal_text import TerminalText

ANSWER_LIMIT = 30_000
"""Characters of output that the model gets."""
LIVE_LIMIT = 400_000
"""Characters that are emitted live."""
FILE_LIMIT = 100 << 20
"""Maximum size of the file in bytes."""

_DRAIN_SECONDS = 0.3
_READ_BYTES = 1 << 16
_COUNT_BYTES = 1 << 20


class OutputCapture:
    """The output of one command. The file is created when the output exceeds `ANSWER_LIMIT`, or on request."""

    def __init__(self, path: Path, *, redact_stream: Callable[[], StreamRedactor], emit: Callable[[str], None]) -> None:
        self.path = path
        self.size = 0
        """Bytes of the plain, redacted output so far, as UTF-8."""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._terminal_text = TerminalText()
        self._redactor = redact_stream()
        self._live_redactor = redact_stream()
        self._emit = emit
        self._live = 0
        self._head = ""
        self._tail = ""
        self._characters = 0
        self._lines = 0
        self._file: int | None = None
        self._stored = 0
        self._problem = ""
        self._ended = False
        self._writing = asyncio.Lock()  # output that arrives while the file is created must be in it too

    async def feed(self, data: bytes, *, final: bool = False) -> None:
        async with self._writing:
            printed = self._decoder.decode(data, final=final)
            text = self._redactor.feed(self._terminal_text.feed(printed, final=final))
            if final:
                text += self._redactor.flush()
            if text:
                await self._keep(text)
            if self._live < LIVE_LIMIT:
                self._show(self._live_redactor.feed(printed) + (self._live_redactor.flush() if final else ""))
            if final:
                self._ended = True
                await self._close()

    async def keep_in_file(self) -> None:
        """Store all output in the file from now on, including earlier output."""
        async with self._writing:
            if self._file is None and not self._stored:
                await self._store(b"", head=self._head)
            if self._ended:
                await self._close()

    @property
    def stored_path(self) -> str:
        """Path of the file; empty if there is none."""
        return str(self.path) if self._stored else ""

    def answer(self) -> str:
        """Return the whole output if it is short, else its head and tail and a line about the missing part.

        Redact it: the open line of a progress bar is not redacted yet.
        """
        if self._characters <= ANSWER_LIMIT:
            return self._head + self._terminal_text.open_line
        head, tail = _cut_head(self._head), _cut_tail(self._tail)
        first, last = head.count("\n") + 1, self._lines - tail.count("\n")
        missing = self._characters - len(head) - len(tail)
        note = _describe_omitted(first, last, size=f"{missing:,} characters", file=self._describe_file(first))
        return f"{head}{_line_end(head)}{note}\n{tail}{self._terminal_text.open_line}"

    async def since(self, start: int) -> tuple[str, int]:
        """Return the output after a byte position, shortened like an answer, and the new position. Needs the file.

        Redact it, as an answer.
        """
        size, stored = self.size, self._stored
        text = await asyncio.to_thread(_read_cut, self.path, start, stored) if start < stored else ""
        if stored < size and start < size:
            text += f"\n[… {self._describe_file(1)}; the output ends with: …]\n{self._tail}"
        return text + self._terminal_text.open_line, size

    async def _close(self) -> None:
        if self._file is not None:
            await asyncio.to_thread(os.close, self._file)
            self._file = None

    def _describe_file(self, first: int) -> str:
        """Say where the output is. ``first`` is the line at which to read on."""
        if self._problem:
            return f"the output could not be stored in {self.path}: {self._problem}"
        if self._stored < self.size:
            return f"only the first {FILE_LIMIT >> 20} MiB are in {self.path}"
        return _describe_whole(self.path, self._stored, first)

    def _show(self, text: str) -> None:
        if not text:
            return
        allowed = LIVE_LIMIT - self._live
        self._live += len(text)
        self._emit(
            text
            if len(text) <= allowed
            else text[:allowed] + "\n[… too much output to show live; the command is still running …]\n"
        )

    async def _keep(self, text: str) -> None:
        encoded = text.encode("utf-8", "replace")
        if self._file is not None:
            await self._store(encoded)
        elif self._characters + len(text) > ANSWER_LIMIT and not self._stored:
            await self._store(encoded, head=self._head)
        self._head += text[: max(0, ANSWER_LIMIT - len(self._head))]
        self._tail = (self._tail + text[-ANSWER_LIMIT // 2 :])[-ANSWER_LIMIT // 2 :]
        self._characters += len(text)
        self._lines += text.count("\n")
        self.size += len(encoded)

    async def _store(self, data: bytes, *, head: str = "") -> None:
        """Append to the file up to its maximum size. A full disk ends the file but not the command."""
        if self._problem:
            return
        data = head.encode("utf-8", "replace") + data
        try:
            if self._file is None:
                self._file = await asyncio.to_thread(_open, self.path)
            data = data[: max(0, FILE_LIMIT - self._stored)]
            if data:
                await asyncio.to_thread(_write, self._file, data)
                self._stored += len(data)
        except OSError as error:
            self._problem = error.strerror or str(error)


class CapturedCommand:
    """A running command whose output is captured. It has ended when its tree has ended and its output is read."""

    def __init__(
        self,
        running: RunningCommand,
        capture: OutputCapture,
        *,
        before_end: Callable[[], Awaitable[str]] | None = None,
    ) -> None:
        self.capture = capture
        self._before_end = before_end
        self.running = running
        self.timed_out = False
        self.ended = asyncio.create_task(self._follow(), name="output")
        """Done when the command has ended. Do not cancel it."""
        self._timer: asyncio.Task[None] | None = None

    @classmethod
    async def start(
        cls,
        launcher: CommandLauncher,
        command: CommandSpec,
        capture: OutputCapture,
        *,
        before_end: Callable[[], Awaitable[str]] | None = None,
    ) -> CapturedCommand:
        """Start a command. When its tree has ended, `before_end` is called; its text is added to the output."""
        return cls(await launcher.start(command), capture, before_end=before_end)

    async def wait_ended(self) -> None:
        """Wait until the command has ended. A cancelled caller stops nothing."""
        await asyncio.shield(self.ended)

    async def kill(self) -> KillResult:
        """Kill the command and wait until it has ended."""
        await self.running.kill()
        await self.wait_ended()
        return self.running.kill_result

    def kill_after(self, seconds: float) -> None:
        """Kill the command after this time, also if it is a background job by then."""
        self._timer = asyncio.create_task(self._expire(seconds), name="timeout")

    async def _expire(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self.timed_out = True
        await self.running.kill()

    async def _follow(self) -> None:
        reading = asyncio.create_task(self._read(), name="read")
        await self.running.wait_tree_ended()
        seen = -1
        for _ in range(3):  # a process outside the tree may hold the pipe open; stop when it is silent
            if reading.done() or seen == self.capture.size:
                break
            seen = self.capture.size
            await asyncio.wait((reading,), timeout=_DRAIN_SECONDS)
        self.running.stop_reading()
        if not reading.done():
            reading.cancel()
            await asyncio.wait((reading,))
        notice = await self._before_end() if self._before_end else ""
        await self.capture.feed(notice.encode(), final=True)
        if self._timer and not self.timed_out:
            self._timer.cancel()

    async def _read(self) -> None:
        while data := await self.running.output.read(_READ_BYTES):
            await self.capture.feed(data)


def _cut_head(text: str) -> str:
    """Return the first half of an answer, up to the end of a line if one is near."""
    head = text[: ANSWER_LIMIT // 2]
    return head[: head.rfind("\n", len(head) * 9 // 10) + 1] or head


def _cut_tail(text: str) -> str:
    """Return the last half of an answer, from the start of a line if one is near."""
    tail = text[-ANSWER_LIMIT // 2 :]
    start = tail.find("\n", 0, len(tail) // 10)
    return tail[start + 1 :]


def _line_end(text: str) -> str:
    return "" if text.endswith("\n") else "\n"


def _describe_omitted(first: int, last: int, *, size: str, file: str) -> str:
    where = f"lines {first:,} to {last:,} omitted ({size})" if last > first else f"{size} omitted"
    return f"[… {where}; {file} …]"


def _describe_whole(path: Path, size: int, first: int) -> str:
    """Say where the whole output is and how to read on from a line."""
    how = f"view it with offset {first}" if size <= MAX_FILE_BYTES else "search it with grep, or read parts with bash"
    return f"the whole output is in {path}; {how}"


def _open(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _read_cut(path: Path, start: int, stop: int) -> str:
    half = ANSWER_LIMIT * 2
    with open(path, "rb") as file:
        file.seek(start)
        if stop - start <= 2 * half:
            text = file.read(stop - start).decode("utf-8", "ignore")
            if len(text) <= ANSWER_LIMIT:
                return text
            head, tail = _cut_head(text), _cut_tail(text)
        else:
            head = _cut_head(file.read(half).decode("utf-8", "ignore"))
            file.seek(stop - half)
            tail = _cut_tail(file.read(half).decode("utf-8", "ignore"))
        first = _count_lines(file, 0, start) + head.count("\n") + 1
        last = _count_lines(file, 0, stop) - tail.count("\n")
    missing = stop - start - len(head.encode()) - len(tail.encode())
    note = _describe_omitted(first, last, size=f"{missing:,} bytes", file=_describe_whole(path, stop, first))
    return f"{head}{_line_end(head)}{note}\n{tail}"


def _count_lines(file: BinaryIO, start: int, stop: int) -> int:
    """Count the line ends in a part of a file."""
    file.seek(start)
    lines = 0
    while start < stop and (data := file.read(min(_COUNT_BYTES, stop - start))):
        lines += data.count(b"\n")
        start += len(data)
    return lines
