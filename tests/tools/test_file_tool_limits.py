"""File tools have the limits of commands: which write needs approval, for each tool, mode, sandbox and kind of path."""

import asyncio
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from holdfast.approvals.decision import Allow, Approver, Ask, Deny, Verdict
from holdfast.approvals.rules import parse_rules
from holdfast.approvals.workspace_paths import WorkspacePaths
from holdfast.config.settings import Sandbox
from holdfast.schema.approvals import Subject
from holdfast.schema.runs import Mode
from holdfast.tools.apply_patch import ApplyPatchTool
from holdfast.tools.download import DownloadTool
from holdfast.tools.edit import EditTool
from holdfast.tools.multiedit import MultiEditTool
from holdfast.tools.process.sandbox_limits import extra_directories, sandbox_limits
from holdfast.tools.write import WriteTool
from tests.support.tool_contexts import ToolWorkspace

_CALLS: dict[str, Callable[[str], tuple[Any, dict[str, object]]]] = {
    "write": lambda path: (WriteTool(), {"path": path, "content": "x"}),
    "edit": lambda path: (EditTool(), {"path": path, "old_text": "", "new_text": "x"}),
    "multiedit": lambda path: (MultiEditTool(), {"path": path, "edits": [{"old_text": "", "new_text": "x"}]}),
    "apply_patch": lambda path: (
        ApplyPatchTool(),
        {"patch": f"*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch"},
    ),
    "download": lambda path: (DownloadTool(), {"path": path, "url": "https://example.org/x"}),
}
_PATHS = {
    "in the workspace": "new",
    "in a directory of it": "src/new",
    "through a link that stays inside": "inner/new",
    "in a writable directory": "{extra}/new",
    "through a link into a writable directory": "to_extra/new",
    "outside": "{outside}/new",
    "outside by parents": "../outside/new",
    "outside by parents of a directory": "src/../../outside/new",
    "through a link to a directory outside": "out/new",
    "through a link and parents": "inner/../../../outside/new",
    "through a link to a file outside": "file_link",
    "through two links": "second/new",
    "from a writable directory to the outside": "{extra}/out/new",
    "beside a writable directory": "{extra}-beside/new",
    "git's own file": ".git/hooks/post-commit",
    "git's own file in a writable directory": "{extra}/.git/config",
    "a start-up file": ".envrc",
    "Holdfast's configuration": ".holdfast/config.toml",
}
_INSIDE = frozenset(list(_PATHS)[:5])
_PROTECTED = 4
_MODES: tuple[Mode, ...] = get_args(Mode)
_SANDBOXES: tuple[Sandbox, ...] = get_args(Sandbox)


class Limited:
    """A workspace with links that leave it, a directory that the settings make writable, and an approver."""

    def __init__(self, directory: Path) -> None:
        directory = directory.resolve()
        self.tools = ToolWorkspace(directory)
        self.extra, self.outside = directory / "extra", directory / "outside"
        work = self.tools.directory
        for path in (
            self.extra,
            self.outside,
            work / "src" / "deep",
            work / ".git" / "hooks",
            directory / "extra-beside",
        ):
            path.mkdir(parents=True)
        (self.outside / "file").write_text("precious")
        (work / "out").symlink_to(self.outside)
        (work / "second").symlink_to("out")
        (work / "inner").symlink_to("src/deep")
        (work / "to_extra").symlink_to(self.extra)
        (work / "file_link").symlink_to(self.outside / "file")
        (self.extra / "out").symlink_to(self.outside)
        self.approver = Approver(WorkspacePaths(root=str(work), home=str(directory / "home")))

    async def plan(self, tool: str, path: str) -> Subject:
        found, arguments = _CALLS[tool](path.format(extra=self.extra, outside=self.outside))
        plan = await found.plan(msgspec.convert(arguments, found.arguments), self.tools.context(files=_NothingRead()))
        subject: Subject = plan.subject
        return subject

    def decide(self, subject: Subject, *, mode: Mode, sandbox: Sandbox = "auto", rule: str = "view") -> Verdict:
        return self.approver.decide(
            subject,
            mode=mode,
            rules=parse_rules(allow=(rule, "download: https://example.org/*")),
            trusted=True,
            interactive=True,
            writable=(str(self.extra),),
            read_only=sandbox == "read-only",
        )

    def matrix(self, subject: Subject) -> dict[tuple[Mode, Sandbox], str]:
        return {
            (mode, sandbox): type(self.decide(subject, mode=mode, sandbox=sandbox)).__name__
            for mode in _MODES
            for sandbox in _SANDBOXES
        }


class _NothingRead:
    async def last_read(self, path: Path) -> str | None:
        return None


@pytest.fixture
def limited(tmp_path: Path) -> Limited:
    return Limited(tmp_path)


@pytest.mark.parametrize("tool", _CALLS)
async def test_which_writes_need_approval(limited: Limited, tool: str) -> None:
    """Only what lands in the workspace or a writable directory is ever given by a mode."""
    for kind, path in _PATHS.items():
        found = await asyncio.to_thread(limited.matrix, await limited.plan(tool, path))
        for (mode, sandbox), verdict in found.items():
            given = kind in _INSIDE and sandbox != "read-only" and mode in ("accept_edits", "auto")
            assert verdict == ("Deny" if mode == "plan" else "Allow" if given else "Ask"), (kind, mode, sandbox)


@pytest.mark.parametrize("tool", _CALLS)
async def test_a_rule_must_name_the_place_outside(limited: Limited, tool: str) -> None:
    for path in ("{outside}/new", "out/new", "{extra}/out/new"):
        subject = await limited.plan(tool, path)
        decide = partial(asyncio.to_thread, limited.decide, subject)
        assert isinstance(await decide(mode="ask", rule=f"write: {limited.outside}/*"), Allow), path
        assert isinstance(await decide(mode="plan", rule=f"write: {limited.outside}/*"), Deny), path
        for rule in ("write", "write: ./*", "write: *", f"write: {limited.extra}/*"):
            assert isinstance(await decide(mode="auto", rule=rule), Ask), (path, rule)


def test_the_same_places_are_writable_for_commands(limited: Limited) -> None:
    extra = extra_directories((str(limited.extra), "relative"))
    work, temporary = limited.tools.directory, limited.extra.parent / "tmp"
    limits = sandbox_limits(work, writes_workspace=True, temporary=temporary, extra=extra)
    for kind, path in list(_PATHS.items())[:-_PROTECTED]:
        landing = os.path.realpath(work / path.format(extra=limited.extra, outside=limited.outside))
        assert limits.may_write(landing) == (kind in _INSIDE), kind
