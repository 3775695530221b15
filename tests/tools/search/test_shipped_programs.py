"""Ripgrep, which is installed with Holdfast, can be used in commands, behind the user's own programs."""

import os
import subprocess
import sysconfig
from pathlib import Path

import pytest

from holdfast.models.model_script import ScriptedCall
from holdfast.schema.messages import ToolResult
from holdfast.tools.search.shipped_programs import link_shipped_programs, with_shipped_programs
from tests.support.app_harness import open_app_harness, saying


def run_rg(environment: dict[str, str]) -> str:
    return subprocess.run(
        ["/bin/sh", "-c", "rg --version"], env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_a_stale_link_is_replaced_and_the_program_runs(tmp_path: Path) -> None:
    directory = tmp_path / "bin"
    directory.mkdir()
    (directory / "rg").symlink_to("/gone")
    link_shipped_programs(directory)
    link_shipped_programs(directory)
    assert os.listdir(directory) == ["rg"]
    assert os.readlink(directory / "rg").startswith(sysconfig.get_path("scripts"))
    assert run_rg(with_shipped_programs({"PATH": "/nowhere"}, directory)).startswith("ripgrep")


def test_a_program_of_the_user_comes_first(tmp_path: Path) -> None:
    link_shipped_programs(tmp_path / "bin")
    own = tmp_path / "own"
    own.mkdir()
    (own / "rg").write_text("#!/bin/sh\necho mine\n")
    (own / "rg").chmod(0o755)
    assert run_rg(with_shipped_programs({"PATH": str(own)}, tmp_path / "bin")) == "mine\n"


def test_a_directory_that_cannot_be_made_costs_only_the_programs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    link_shipped_programs(tmp_path / "file" / "bin")
    assert "cannot link the shipped programs" in caplog.text


async def test_a_command_of_the_agent_finds_ripgrep_but_not_the_python_beside_it(tmp_path: Path) -> None:
    script = saying((ScriptedCall("bash", {"command": "rg --version | head -1; command -v pip || echo none"}),), "done")
    async with open_app_harness(tmp_path, script, env={"PATH": "/usr/bin:/bin"}) as harness:
        run = await harness.run("go", mode="auto")
        messages = await harness.messages(run.session_id)
        (result,) = [part for message in messages for part in message.parts if isinstance(part, ToolResult)]
        assert result.text.startswith("ripgrep ")
        assert str(Path(sysconfig.get_path("scripts"))) not in result.text
