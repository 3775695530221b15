"""Formatters run after edits, change only what they may, and the model is told."""

import os
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.config.settings import FormatterSettings, ServerSettings, Settings, ToolSettings
from holdfast.tools.after_edit.edit_steps import EditSteps
from holdfast.tools.after_edit.formatter_choice import CATALOGUE, choose_formatter
from holdfast.tools.after_edit.formatter_step import FormatterStep
from holdfast.tools.edit import EditTool
from holdfast.tools.process.command_process import CommandLauncher
from holdfast.tools.protocol import Tool
from holdfast.tools.write import WriteTool
from tests.support.file_sessions import FileSession, FileWorkspace

UPPER = "#!/bin/sh\ntr a-z A-Z\n"


class FormattedWorkspace(FileWorkspace):
    """A workspace with `prettier`, which is a script."""

    def __init__(self, directory: Path, launcher: CommandLauncher) -> None:
        super().__init__(directory)
        self.launcher = launcher
        self.settings = Settings()
        self.seconds = 30.0
        self.put(".prettierrc", "{}")

    def program(self, script: str, name: str = "node_modules/.bin/prettier") -> None:
        self.put(name, script).chmod(0o755)

    async def call(self, tool: Tool[Any], session: FileSession, **arguments: Any) -> str:
        """Make a call as a turn does, with the steps after it."""
        context = msgspec.structs.replace(session.context(), settings=self.settings)
        given = msgspec.convert(arguments, tool.arguments)
        output = await tool.run(given, context, await tool.plan(given, context))
        assert output.status == "ok"
        return await EditSteps([FormatterStep(self.launcher, seconds=self.seconds)]).run(context)

    async def write(self, path: str, content: str) -> str:
        return await self.call(WriteTool(), self.session(), path=path, content=content)


@pytest.fixture
async def workspace(tmp_path: Path) -> AsyncIterator[FormattedWorkspace]:
    launcher = CommandLauncher()
    if await launcher.sandbox.backend("auto") is None:
        pytest.skip("formatters that a project uses run only in a sandbox, and none works here")
    yield FormattedWorkspace(tmp_path, launcher)
    await launcher.close()


async def test_the_model_is_told_what_a_formatter_changed_and_undo_reverts_both(workspace: FormattedWorkspace) -> None:
    workspace.program(UPPER)
    told = await workspace.write("a.js", "one\ntwo\n")
    assert told.splitlines()[0] == "[prettier formatted a.js:]"
    assert told.splitlines()[-4:] == ["-one", "-two", "+ONE", "+TWO"]
    assert workspace.text("a.js") == "ONE\nTWO\n"
    session = workspace.session()
    assert await workspace.call(EditTool(), session, path="a.js", old_text="ONE", new_text="ONCE") == ""
    assert workspace.text("a.js") == "ONCE\nTWO\n", "the agent need not view it again"
    await session.undo()
    assert not (workspace.directory / "a.js").exists()
    await session.redo()
    assert workspace.text("a.js") == "ONCE\nTWO\n"


async def test_a_file_that_was_not_formatted_before_is_left_as_it_is(workspace: FormattedWorkspace) -> None:
    workspace.program(UPPER)
    workspace.put("a.js", "old\n" * 50)
    await workspace.session().view("a.js")
    told = await workspace.write("a.js", "new\n" + "old\n" * 50)
    assert told == "[a.js was not formatted with prettier before, so it was left as it is]"
    assert workspace.text("a.js").startswith("new\nold\n")


async def test_a_configured_formatter_always_formats(workspace: FormattedWorkspace) -> None:
    configured = FormatterSettings(command=("sh", "-c", "tr a-z A-Z; : {file}"), files=("src/**/*.txt",))
    workspace.settings = Settings(formatters={"mine": configured})
    workspace.put("src/deep/a.txt", "old\n")
    await workspace.session().view("src/deep/a.txt")
    assert "[mine formatted src/deep/a.txt:]" in await workspace.write("src/deep/a.txt", "new\n")
    assert workspace.text("src/deep/a.txt") == "NEW\n"
    assert await workspace.write("other.txt", "new\n") == ""


async def test_a_formatter_that_fails_is_told_with_its_error_and_the_edit_stays(workspace: FormattedWorkspace) -> None:
    workspace.program("#!/bin/sh\necho half; echo 'a.js: unexpected token' >&2; exit 2\n")
    told = await workspace.write("a.js", "one\n")
    assert told == "[prettier could not format a.js: exit code 2. a.js: unexpected token]"
    assert workspace.text("a.js") == "one\n"


async def test_a_formatter_that_writes_nothing_changes_nothing(workspace: FormattedWorkspace) -> None:
    workspace.program("#!/bin/sh\nexit 0\n")
    assert await workspace.write("a.js", "one\n") == ""
    assert workspace.text("a.js") == "one\n"


async def test_a_formatter_that_hangs_is_killed(workspace: FormattedWorkspace) -> None:
    workspace.program("#!/bin/sh\nsleep 1000 & sleep 1000\n")
    workspace.seconds = 0.5
    assert await workspace.write("a.js", "one\n") == "[format: stopped after 0.5 s]"
    assert workspace.text("a.js") == "one\n"
    assert list((workspace.directory.parent / "tmp").iterdir()) == []


async def test_a_save_by_the_person_while_it_runs_is_kept(workspace: FormattedWorkspace) -> None:
    path = workspace.directory / "a.js"
    workspace.settings = Settings(server=ServerSettings(sandbox="off"), formatters={"prettier": FormatterSettings()})
    workspace.program(f"#!/bin/sh\ntr a-z A-Z; echo mine >{path}\n")
    told = await workspace.write("a.js", "one\n")
    assert told.startswith("[format: ")
    assert "changed by another program" in told
    assert workspace.text("a.js") == "mine\n"


async def test_without_a_sandbox_only_a_configured_formatter_runs(workspace: FormattedWorkspace) -> None:
    """A formatter runs code of the project, such as plugins, which the agent may have written without approval."""
    ran = workspace.directory / "ran"
    workspace.settings = Settings(server=ServerSettings(sandbox="off"))
    workspace.program(f"#!/bin/sh\ntouch {ran}; tr a-z A-Z\n")
    assert await workspace.write("a.js", "one\n") == ""
    assert not ran.exists()


async def test_after_a_long_diff_the_file_must_be_viewed_again(workspace: FormattedWorkspace) -> None:
    workspace.program(UPPER)
    told = await workspace.write("a.js", "one\n" * 100)
    assert told == "[prettier formatted a.js (+100 \u2212100 lines); view it before you edit it again]"
    with pytest.raises(Exception, match="changed since you last read it"):
        await workspace.session().edit("a.js", "ONE", "TWO")


async def test_a_confined_formatter_cannot_write_the_workspace(workspace: FormattedWorkspace) -> None:
    workspace.program(f"#!/bin/sh\necho x 2>/dev/null >{workspace.directory}/stray; tr a-z A-Z\n")
    assert "formatted" in await workspace.write("a.js", "one\n")
    assert not (workspace.directory / "stray").exists()


def test_the_nearest_marker_and_the_first_entry_decide(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    bin_directory = root / ".venv/bin"
    bin_directory.mkdir(parents=True)
    for name in ("ruff", "black"):
        (bin_directory / name).write_text("")
        (bin_directory / name).chmod(0o755)

    def choice(path: str, settings: Settings | None = None) -> str | None:
        found = choose_formatter(root / path, root, settings or Settings(), {"PATH": ""})
        return None if found is None else found.name

    assert choice("a.py") is None
    (root / "pyproject.toml").write_text("[tool.ruff]\nline-length = 100\n")
    assert choice("a.py") == "ruff"
    (root / "pyproject.toml").write_text("[tool.ruff]\nline-length = 100\n[tool.black]\n")
    assert (choice("a.py"), choice("deep/down/a.pyi"), choice("a.txt")) == ("black", "black", None)
    (root / "pyproject.toml").write_text("[tool.ruff.format]\n[tool.black]\n")
    assert choice("a.py") == "ruff"
    off = Settings(formatters={"ruff": FormatterSettings(enabled=False)})
    assert choice("a.py", off) == "black"
    assert choice("a.py", Settings(tools=ToolSettings(format="configured"))) is None
    known = Settings(tools=ToolSettings(format="configured"), formatters={"ruff": FormatterSettings()})
    assert choice("a.py", known) == "ruff"
    assert choice("a.py", Settings(tools=ToolSettings(format="off"), formatters={"ruff": FormatterSettings()})) is None
    assert choose_formatter(tmp_path.parent / "outside.py", root, Settings(), {"PATH": ""}) is None


async def test_a_configured_formatter_that_is_not_installed_is_told(workspace: FormattedWorkspace) -> None:
    missing = FormatterSettings(command=("no-such-formatter",), files=("*.js",))
    workspace.settings = Settings(formatters={"mine": missing})
    told = await workspace.write("a.js", "one\n")
    assert told == "[format: the formatter 'mine' is configured, but 'no-such-formatter' is not installed]"


def test_every_entry_of_the_catalogue_can_be_used() -> None:
    assert len({known.name for known in CATALOGUE}) >= 15
    for known in CATALOGUE:
        assert known.command
        assert known.markers
        assert all(pattern.startswith("*.") for pattern in known.files)


@pytest.mark.parametrize(
    ("program", "marker", "name", "unformatted", "formatted"),
    [
        ("ruff", ("pyproject.toml", "[tool.ruff]\n"), "a.py", "x  =  1\n", "x = 1\n"),
        ("gofmt", ("go.mod", "module x\n"), "a.go", "package   x\n", "package x\n"),
    ],
)
async def test_real_formatters(
    workspace: FormattedWorkspace, program: str, marker: tuple[str, str], name: str, unformatted: str, formatted: str
) -> None:
    found = shutil.which(program, path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if found is None:
        pytest.skip(f"{program} is not installed")
    (workspace.directory / ".venv/bin").mkdir(parents=True)
    (workspace.directory / ".venv/bin" / program).symlink_to(found)
    workspace.put(*marker)
    assert f"[{program} formatted {name}:]" in await workspace.write(name, unformatted)
    assert workspace.text(name) == formatted
