"""The changes of a repository as a diff: of the work tree, a commit or a branch. Git runs no other program for it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from holdfast.errors import BadRequest
from holdfast.files import find_program
from holdfast.schema.base import Value
from holdfast.tools.process.git_environment import neutral_git_environment
from holdfast.tools.process.subprocess_end import kill_and_reap

_MAX_DIFF_BYTES = 512 * 1024
_MAX_UNTRACKED = 200
_GIT_SECONDS = 30.0
_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
_DIFF = ("diff", "--no-color", "--no-ext-diff", "--no-textconv", "--find-renames")
_DEFAULT_BRANCHES = ("origin/HEAD", "main", "master", "origin/main", "origin/master")


class GitDiff(Value, frozen=True):
    title: str
    """What was compared."""
    text: str


async def work_tree_diff(directory: Path) -> GitDiff:
    """Return the changes that are not committed. Only for a trusted directory: git may run clean filters."""
    await _require_repository(directory)
    head = await _commit(directory, "HEAD")
    text = await _text(directory, *_DIFF, head or _EMPTY_TREE, "--")
    listed = await _text(directory, "ls-files", "--others", "--exclude-standard")
    if names := listed.splitlines():
        more = [f"… and {len(names) - _MAX_UNTRACKED} more"] * (len(names) > _MAX_UNTRACKED)
        text += "\n".join(["\nNew files that are not tracked; view them:", *names[:_MAX_UNTRACKED], *more]) + "\n"
    return GitDiff("the uncommitted changes of the work tree", text)


async def commit_diff(directory: Path, revision: str) -> GitDiff:
    """Return a commit with its message."""
    await _require_repository(directory)
    commit = await _known_commit(directory, revision)
    text = await _text(directory, "show", *_DIFF[1:], "--format=medium", "--no-show-signature", commit, "--")
    return GitDiff(f"the commit {revision} ({commit[:12]})", text)


async def branch_diff(directory: Path, base: str | None) -> GitDiff:
    """Return what the current branch adds to ``base``, or to the default branch."""
    await _require_repository(directory)
    if base is None:
        for base in _DEFAULT_BRANCHES:
            if await _commit(directory, base):
                break
        else:
            raise BadRequest("there is no default branch (main or master); name the branch to compare with")
    start = await _known_commit(directory, base)
    await _known_commit(directory, "HEAD")
    log = await _text(directory, "log", "--no-color", "--no-show-signature", "--format=%h %s", f"{start}..HEAD", "--")
    text = await _text(directory, *_DIFF, f"{start}...HEAD", "--")
    return GitDiff(f"the commits of this branch since {base}", f"{log}\n{text}" if log or text else "")


async def _require_repository(directory: Path) -> None:
    code, _ = await _git(directory, "rev-parse", "--git-dir")
    if code != 0:
        raise BadRequest(f"{str(directory)!r} is not in a git repository")


async def _known_commit(directory: Path, revision: str) -> str:
    found = await _commit(directory, revision)
    if found is None:
        raise BadRequest(f"git knows no commit {revision!r}; name a commit, a branch or a tag")
    return found


async def _commit(directory: Path, revision: str) -> str | None:
    """Return the hash of a commit. A name that looks like an option is no name of a commit."""
    code, output = await _git(
        directory, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"
    )
    return output.decode("ascii", "replace").strip() if code == 0 else None


async def _text(directory: Path, *arguments: str) -> str:
    code, output = await _git(directory, *arguments)
    if code not in (0, None):
        raise BadRequest(f"git {arguments[0]} failed with status {code}; run it in the directory to see why")
    text = output[:_MAX_DIFF_BYTES].decode("utf-8", "replace").replace("\0", "�")
    return (
        text if len(output) <= _MAX_DIFF_BYTES else f"{text}\n[cut here: the diff is longer; read the rest with git]\n"
    )


async def _git(directory: Path, *arguments: str) -> tuple[int | None, bytes]:
    """Run git and return its status and output. The status is None if the output was too long and git was stopped."""
    git = await asyncio.to_thread(find_program, "git", os.environ.get("PATH", os.defpath), outside=directory)
    if git is None:
        raise BadRequest("git is not installed; install it")
    try:
        process = await asyncio.create_subprocess_exec(
            git,
            *arguments,
            cwd=directory,
            env=neutral_git_environment(os.environ),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise BadRequest(f"git cannot be started: {error.strerror}; install it") from None
    assert process.stdout is not None
    chunks = bytearray()
    try:
        async with asyncio.timeout(_GIT_SECONDS):
            while len(chunks) <= _MAX_DIFF_BYTES and (chunk := await process.stdout.read(1 << 16)):
                chunks += chunk
            if len(chunks) > _MAX_DIFF_BYTES:
                return None, bytes(chunks)
            return await process.wait(), bytes(chunks)
    except TimeoutError:
        raise BadRequest(f"git {arguments[0]} took longer than {_GIT_SECONDS:.0f} s") from None
    finally:
        if process.returncode is None:
            await kill_and_reap(process)
