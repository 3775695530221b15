"""Runs the real client of Crush, contained: its own directories, no network, a terminal in tmux."""

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

from tests.crush.exchange import wait_for


def crush_environment(directory: Path) -> dict[str, str]:
    """The environment of the client. Everything that it writes is below the directory."""
    places = {
        name: str(directory / name.lower())
        for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "HOME")
    }
    for place in places.values():
        Path(place).mkdir(exist_ok=True)
    return {
        "PATH": os.environ["PATH"],
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        **places,
        "CRUSH_CLIENT_SERVER": "1",
        "CRUSH_DISABLE_PROVIDER_AUTO_UPDATE": "1",
        "CRUSH_DISABLE_METRICS": "1",
        "DO_NOT_TRACK": "1",
        "HTTPS_PROXY": "http://127.0.0.1:9",
    }


class CrushProgram:
    def __init__(self, program: str, directory: Path, *, address: str, work: Path) -> None:
        self._command = [program, "--host", address]
        self._env = crush_environment(directory)
        self._work = work
        self._tmux = ["tmux", "-S", str(directory / "tmux.sock")]

    async def start_run(self, *arguments: str, stdin: bytes | None = None) -> asyncio.subprocess.Process:
        """Start `crush run`."""
        given = asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            self._command[0], "run", *self._command[1:], *arguments, stdin=given, stdout=pipe, stderr=pipe,
            cwd=self._work, env=self._env,
        )  # fmt: skip
        if stdin is not None:
            assert process.stdin is not None
            process.stdin.write(stdin)
            process.stdin.close()
        return process

    async def run(self, *arguments: str, stdin: bytes | None = None) -> tuple[int, str, str]:
        """The status and the output of `crush run`."""
        process = await self.start_run(*arguments, stdin=stdin)
        assert process.stdout is not None
        assert process.stderr is not None
        out, err = await asyncio.gather(process.stdout.read(), process.stderr.read())
        return await process.wait(), out.decode().strip(), err.decode()

    def open_interface(self) -> None:
        self._run_tmux(
            "new-session", "-d", "-x", "120", "-y", "40", "-s", "crush", "-c", str(self._work), *self._command
        )

    def type(self, *keys: str) -> None:
        self._run_tmux("send-keys", "-t", "crush", *keys)

    def screen(self) -> str:
        return self._run_tmux("capture-pane", "-p", "-t", "crush")

    async def until_shown(self, text: str) -> None:
        await wait_for(lambda: text in self.screen())

    def close_interface(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], env=self._env, capture_output=True, check=False)

    def is_open(self) -> bool:
        found = subprocess.run(
            [*self._tmux, "has-session", "-t", "crush"], env=self._env, capture_output=True, check=False
        )
        return found.returncode == 0

    def _run_tmux(self, *arguments: str) -> str:
        found = subprocess.run([*self._tmux, *arguments], env=self._env, capture_output=True, text=True, check=True)
        return found.stdout


def has_tmux() -> bool:
    return shutil.which("tmux") is not None
