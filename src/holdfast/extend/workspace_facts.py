"""Where the agent is: platform, date, git branch and short status."""

from __future__ import annotations

import asyncio
import platform
from pathlib import Path

from holdfast.files import repository_root

MAX_STATUS_LINES = 20
_GIT_SECONDS = 2.0

# A repository's own configuration can name programs to run; none of them is wanted for a look.
_QUIET_GIT = (
    "git",
    "--no-optional-locks",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "submodule.recurse=false",
)


def platform_name() -> str:
    return f"{platform.system()} {platform.release()} ({platform.machine()})"


def git_branch(directory: Path) -> str | None:
    """Read from ``.git/HEAD``, so that nothing of the directory is run."""
    git = repository_root(directory) / ".git"
    try:
        if git.is_file():  # a work tree: the file names the real folder
            git = (git.parent / git.read_text().removeprefix("gitdir:").strip()).resolve()
        head = (git / "HEAD").read_text().strip()
    except (OSError, UnicodeDecodeError):
        return None
    return head.removeprefix("ref: refs/heads/") if head.startswith("ref:") else f"detached at {head[:12]}"


async def git_status(directory: Path) -> str | None:
    """Short status, bounded in lines and time; only for a trusted directory, since clean filters may run."""
    try:
        process = await asyncio.create_subprocess_exec(
            *_QUIET_GIT,
            "status",
            "--short",
            "--ignore-submodules",
            cwd=directory,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return None
    try:
        async with asyncio.timeout(_GIT_SECONDS):
            output, _ = await process.communicate()
    except TimeoutError:
        return None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        return None
    lines = output.decode("utf-8", "replace").splitlines()
    more = len(lines) - MAX_STATUS_LINES
    return "\n".join(lines[:MAX_STATUS_LINES] + ([f"… and {more} more"] if more > 0 else []))
