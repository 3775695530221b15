"""Commands that only read run in plan mode and without a person, and start no program of an untrusted repository."""

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import pytest

from holdfast.models.model_script import ScriptedCall
from holdfast.schema.messages import ToolResult
from tests.support.app_harness import AppHarness, open_app_harness, saying

READS = ("git status --short", "git log --oneline", "git diff HEAD", "ls -1 && cat a.txt | head -1")
CHANGES = ("git add a.txt", "touch made", "git -c core.pager=./evil log", "echo x > made", "./evil")


PROGRAM_SETTINGS = ("core.fsmonitor", "core.pager", "diff.external", "core.sshCommand", "gpg.program", "core.editor")


def make_repository(directory: Path, *, hostile: bool) -> None:
    """A repository with a hook. The settings of a hostile one start a program with every command of git."""
    evil = directory / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {directory}/started\n")
    evil.chmod(0o755)
    (directory / "a.txt").write_text("one\n")

    def git(*arguments: str) -> None:
        subprocess.run(["git", "-C", str(directory), *arguments], check=True, capture_output=True)

    git("init", "-q")
    git("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-q", "--allow-empty", "-m", "first")
    (directory / ".git" / "hooks").mkdir(exist_ok=True)
    (directory / ".git" / "hooks" / "post-index-change").symlink_to(evil)
    for key in PROGRAM_SETTINGS if hostile else ():
        git("config", key, str(evil))


async def results(harness: AppHarness, *, hostile: bool, **fields: Any) -> dict[str, ToolResult]:
    """Run all commands in one step. Returns their results."""
    await asyncio.to_thread(make_repository, harness.directory, hostile=hostile)
    run = await harness.run("go", **fields)
    messages = await harness.messages(run.session_id)
    told = [part for message in messages for part in message.parts if isinstance(part, ToolResult)]
    return dict(zip((*READS, *CHANGES), told, strict=True))


CALLS = tuple(ScriptedCall("bash", {"command": command}) for command in (*READS, *CHANGES))


@pytest.mark.parametrize("fields", [{"mode": "plan"}, {"mode": "ask", "interactive": False}], ids=["plan", "headless"])
async def test_reading_commands_run_in_an_untrusted_repository_and_others_do_not(
    tmp_path: Path, fields: dict[str, Any]
) -> None:
    async with open_app_harness(tmp_path, saying(CALLS, "done")) as harness:
        told = await results(harness, hostile=False, **fields)
        assert {command: told[command].status for command in READS} == dict.fromkeys(READS, "ok")
        assert {command: told[command].status for command in CHANGES} == dict.fromkeys(CHANGES, "denied")
        assert "?? a.txt" in told["git status --short"].text
        assert "first" in told["git log --oneline"].text
        assert {path.name for path in harness.directory.iterdir()} == {".git", "a.txt", "evil"}


@pytest.mark.parametrize("mode", ["plan", "ask"])
async def test_a_repository_that_names_programs_starts_none(tmp_path: Path, mode: str) -> None:
    async with open_app_harness(tmp_path, saying(CALLS, "done")) as harness:
        told = await results(harness, hostile=True, mode=mode, interactive=False)
        assert told["ls -1 && cat a.txt | head -1"].status == "ok"
        assert {result.status for command, result in told.items() if command.startswith("git")} == {"denied"}
        assert "its repository has the setting" in told["git status --short"].text
        assert {path.name for path in harness.directory.iterdir()} == {".git", "a.txt", "evil"}
