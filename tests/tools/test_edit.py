"""`edit` replaces one text, keeps everything else of the file, and refuses with a reason."""

import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from holdfast.errors import ToolError
from holdfast.tools.edit import EditTool
from holdfast.tools.text.text_file import encode_text
from tests.support.file_sessions import FileWorkspace


@pytest.fixture
def workspace(tmp_path: Path) -> FileWorkspace:
    return FileWorkspace(tmp_path)


async def test_a_text_is_replaced_and_the_result_says_where(workspace: FileWorkspace) -> None:
    workspace.put("a.py", "one\ntwo\n")
    session = workspace.session()
    await session.view("a.py")
    output = await session.call(EditTool(), path="a.py", old_text="two", new_text="2\n3")
    assert workspace.text("a.py") == "one\n2\n3\n"
    assert output.text == ("a.py: changed (+2 −1 lines); replaced at line 2\n     1\tone\n     2\t2\n     3\t3")
    assert output.display == {
        "diff": "--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,3 @@\n one\n-two\n+2\n+3\n",
        "files": [{"path": "a.py", "change": "modified", "added": 2, "removed": 1}],
    }


async def test_a_plan_shows_the_diff_and_touches_nothing(workspace: FileWorkspace) -> None:
    workspace.put("a.py", "one\n")
    session = workspace.session()
    await session.view("a.py")
    plan = await session.plan(EditTool(), path="a.py", old_text="one", new_text="1")
    created = await session.plan(EditTool(), path="new/dir/b.py", old_text="", new_text="x\n")
    assert plan.display["diff"].endswith("-one\n+1\n")
    assert plan.subject.paths == (str(workspace.directory / "a.py"),)
    assert created.display["files"][0]["change"] == "created"
    assert workspace.tree() == {"a.py": b"one\n"}
    assert not (workspace.directory / "new").exists()


async def test_an_empty_old_text_creates_the_file_and_its_directories(workspace: FileWorkspace) -> None:
    assert await workspace.session().edit("deep/er/new.py", "", "x\n") == "deep/er/new.py: created (+1 −0 lines)"
    assert workspace.text("deep/er/new.py") == "x\n"


async def test_a_file_that_exists_is_not_created_again(workspace: FileWorkspace) -> None:
    workspace.put("a", "content")
    with pytest.raises(ToolError, match="already exists"):
        await workspace.session().edit("a", "", "x")


async def test_an_empty_file_can_be_filled_once_it_was_read(workspace: FileWorkspace) -> None:
    workspace.put("a", "")
    session = workspace.session()
    with pytest.raises(ToolError, match="have not read it"):
        await session.edit("a", "", "x")
    await session.view("a")
    await session.edit("a", "", "x")
    assert workspace.text("a") == "x"


async def test_a_write_of_its_own_counts_as_read(workspace: FileWorkspace) -> None:
    session = workspace.session()
    await session.edit("a", "", "one\n")
    await session.edit("a", "one", "two")
    await session.edit("a", "two", "three")
    assert workspace.text("a") == "three\n"


async def test_text_that_differs_only_in_white_space_matches_with_a_note(workspace: FileWorkspace) -> None:
    workspace.put("a.py", "if x:\n\tif y:\n\t\tz()\n")
    session = workspace.session()
    await session.view("a.py")
    said = await session.edit("a.py", "    if y:\n        z()\n", "    if y:\n        w()\n")
    assert workspace.text("a.py") == "if x:\n\tif y:\n\t\tw()\n"
    assert "except for white space" in said


async def test_an_error_names_the_file_and_shows_the_most_similar_text_without_secrets(
    workspace: FileWorkspace,
) -> None:
    workspace.put("a.py", "key = 'hunter2'\n")
    session = workspace.session(redact=lambda text: text.replace("hunter2", "[secret]"))
    await session.view("a.py")
    with pytest.raises(ToolError) as refused:
        await session.edit("a.py", "kay = 'hunter'", "x")
    assert refused.value.message.startswith("'a.py': old_text was not found. The most similar text is at line 1")
    assert "[secret]" in refused.value.message
    assert "hunter2" not in refused.value.message + str(refused.value)


async def test_missing_and_binary_files_raise_errors(workspace: FileWorkspace) -> None:
    workspace.put("main.py", "")
    workspace.put("a.bin", b"\0\1")
    session = workspace.session()
    with pytest.raises(ToolError, match=r"does not exist; similar: 'main.py'"):
        await session.edit("mian.py", "a", "b")
    await session.context().files.record_read(
        workspace.directory / "a.bin", "b413f47d13ee2fe6c845b2ee141af81de858df4ec549a58b7970bb96645bc8d2"
    )
    with pytest.raises(ToolError, match="binary file"):
        await session.edit("a.bin", "a", "b")


async def test_symlinks_are_written_through_to_the_real_file(workspace: FileWorkspace) -> None:
    workspace.put("real/a", "one\n")
    (workspace.directory / "link").symlink_to("real/a")
    session = workspace.session()
    await session.view("link")
    plan = await session.plan(EditTool(), path="link", old_text="one", new_text="two")
    await session.edit("link", "one", "two")
    assert plan.subject.paths == (str(workspace.directory / "real/a"),)
    assert (workspace.directory / "link").is_symlink()
    assert workspace.text("real/a") == "two\n"


async def test_a_character_that_the_encoding_cannot_hold_changes_nothing(workspace: FileWorkspace) -> None:
    workspace.put("a", b"gr\xfcn\n")
    session = workspace.session()
    await session.view("a")
    with pytest.raises(ToolError, match="Latin-1, which cannot encode '€'"):
        await session.edit("a", "grün", "€")
    assert workspace.tree() == {"a": b"gr\xfcn\n"}


_LINE = st.text(alphabet="ab {}é", max_size=5)


@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(_LINE, min_size=1, max_size=5),
    end=st.sampled_from(["\n", "\r\n"]),
    last=st.booleans(),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be", "latin-1"]),
    mode=st.sampled_from([0o644, 0o755, 0o600, 0o640]),
    data=st.data(),
)
async def test_endings_bom_encoding_mode_and_last_newline_stay(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[str],
    end: str,
    last: bool,
    encoding: str,
    mode: int,
    data: st.DataObject,
) -> None:
    lines = [f"{line}é{number}" for number, line in enumerate(lines)]
    text = end.join(lines) + end * last
    chosen = data.draw(st.integers(0, len(lines) - 1))
    new = data.draw(st.lists(_LINE, min_size=1, max_size=3))
    assume(new != [lines[chosen]] and ("\n" in text or end == "\n"))  # one bare line says nothing of endings
    workspace = FileWorkspace(tmp_path_factory.mktemp("workspace"))
    path = workspace.put("a", encode_text(text, encoding))  # type: ignore[arg-type]
    path.chmod(mode)
    session = workspace.session()
    await session.view("a")
    await session.edit("a", lines[chosen], "\n".join(new))
    expected = end.join([*lines[:chosen], *new, *lines[chosen + 1 :]]) + end * last
    assert path.read_bytes() == encode_text(expected, encoding)  # type: ignore[arg-type]
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert list(workspace.tree()) == ["a"]


async def test_the_changed_lines_that_are_shown_hide_a_secret_of_several_lines(workspace: FileWorkspace) -> None:
    key = "BEGIN KEY\nabc\ndef\nEND KEY"
    workspace.put("a", f"one\ntwo\n{key}\nthree\n")
    session = workspace.session(redact=lambda text: text.replace(key, "[redacted]"))
    await session.view("a")
    text = await session.edit("a", "three", "3")
    assert text.splitlines()[1:] == ["     2\ttwo", "     3\t[redacted]", "     4\t3"]
