"""What a model reads after an edit that is refused, and after one that is forgiven, as reviewed snapshots."""

from pathlib import Path

import msgspec
import pytest

from holdfast.errors import HoldfastError
from holdfast.tools.apply_patch import ApplyPatchTool
from holdfast.tools.edit import EditTool
from holdfast.tools.multiedit import MultiEditTool
from holdfast.tools.protocol import Tool
from holdfast.tools.write import WriteTool
from tests.support.file_sessions import FileWorkspace
from tests.support.snapshots import check_snapshot
from tests.tools.edits.edit_cases import FORGIVEN, REFUSED, EditCase

TOOLS: dict[str, Tool[msgspec.Struct]] = {
    "edit": EditTool(),
    "multiedit": MultiEditTool(),
    "write": WriteTool(),
    "apply_patch": ApplyPatchTool(),
}  # type: ignore[dict-item]


@pytest.mark.parametrize(("name", "cases"), [("refused_edits", REFUSED), ("forgiven_edits", FORGIVEN)])
async def test_what_the_model_reads(tmp_path: Path, name: str, cases: tuple[EditCase, ...]) -> None:
    sections = []
    for number, case in enumerate(cases):
        was_changed, text = await attempt(case, tmp_path / str(number))
        assert was_changed == (cases is FORGIVEN), case.title
        if cases is REFUSED:
            assert text.endswith("\nNothing was changed."), case.title
        sections.append("\n".join([f"## {case.tool}: {case.title}", *(f"  | {line}" for line in text.splitlines())]))
    check_snapshot(Path(__file__).with_name(f"{name}.txt"), "\n\n".join(sections) + "\n")


def test_the_corpus_is_large_enough() -> None:
    assert len(REFUSED) >= 60
    assert len(FORGIVEN) >= 20
    assert len({(case.tool, case.title) for case in (*REFUSED, *FORGIVEN)}) == len(REFUSED) + len(FORGIVEN)


async def attempt(case: EditCase, directory: Path) -> tuple[bool, str]:
    """Return whether the agent changed anything, and what it reads."""
    workspace = FileWorkspace(directory)
    session = workspace.session()
    for path, content in case.files.items():
        workspace.put(path, content)
        if path not in case.unread and b"\0" not in (content if isinstance(content, bytes) else b""):
            await session.view(path)
    for path, content in case.changed.items():
        workspace.put(path, content)
    before = workspace.tree()

    def between() -> None:
        for path, content in case.then.items():
            before[path] = workspace.put(path, content).read_bytes()

    try:
        text = (await session.call(TOOLS[case.tool], between=between, **case.arguments)).text
    except HoldfastError as error:
        text = error.message
    return workspace.tree() != before, text.replace(str(workspace.directory), "/workspace")
