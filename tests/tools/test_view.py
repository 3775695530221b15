"""`view` shows text with line numbers, and images to models that can see."""

import base64
from pathlib import Path

import pytest

from holdfast.errors import ToolError
from holdfast.tools.files.file_access import content_hash
from holdfast.tools.view import MAX_CHARS, MAX_LINE_CHARS, ViewTool
from tests.support.file_sessions import FileWorkspace

_PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


@pytest.fixture
def workspace(tmp_path: Path) -> FileWorkspace:
    return FileWorkspace(tmp_path)


async def test_lines_are_numbered(workspace: FileWorkspace) -> None:
    workspace.put("a.py", "one\ntwo\n")
    assert await workspace.session().view("a.py") == "     1\tone\n     2\ttwo"


async def test_a_read_is_recorded_with_the_hash_of_the_whole_content(workspace: FileWorkspace) -> None:
    path = workspace.put("a.py", "one\ntwo\n")
    session = workspace.session()
    await session.view("a.py", limit=1)
    assert await session.context().files.last_read(path) == content_hash(b"one\ntwo\n")
    assert await workspace.session("ses_2").context().files.last_read(path) is None


async def test_a_long_file_comes_in_parts(workspace: FileWorkspace) -> None:
    workspace.put("a", "".join(f"{number}\n" for number in range(1, 2_502)))
    session = workspace.session()
    text = await session.view("a")
    assert text.endswith("  2000\t2000\n(lines 1 to 2000 of 2,501; continue with offset 2001)")
    assert (await session.view("a", offset=2_001)).startswith("  2001\t2001\n")
    assert await session.view("a", offset=2_501, limit=5) == "  2501\t2501"
    with pytest.raises(ToolError, match="past the end; the file has 2,501 lines"):
        await session.view("a", offset=2_502)


async def test_long_lines_are_cut_and_say_so(workspace: FileWorkspace) -> None:
    workspace.put("a", "x" * (MAX_LINE_CHARS + 1_234) + "\n")
    assert (await workspace.session().view("a")).endswith("x… [+1,234 characters]")


async def test_the_whole_answer_is_bounded_and_goes_on_where_it_stopped(workspace: FileWorkspace) -> None:
    workspace.put("a", ("y" * 1_900 + "\n") * 300)
    session = workspace.session()
    text = await session.view("a")
    assert len(text) < MAX_CHARS + 200
    shown = text.count("\n")
    assert text.endswith(f"(lines 1 to {shown} of 300; continue with offset {shown + 1})")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "(the file is empty)"),
        (b"a", "     1\ta\n(no newline at the end of the file)"),
        (b"a\r\nb\r\n", "     1\ta\n     2\tb\n(CRLF line endings)"),
        (b"\xef\xbb\xbfa\n", "     1\ta\n(UTF-8 with BOM)"),
        ("\ufeffgrün\n".encode("utf-16-le"), "     1\tgrün\n(UTF-16 (little endian))"),
        (b"gr\xfcn\n", "     1\tgrün\n(Latin-1, a guess: the bytes are not valid UTF-8)"),
        (b"a\x0cb\xe2\x80\xa8c\n", "     1\ta\x0cb\u2028c"),
    ],
)
async def test_unusual_encoding_and_line_endings_are_noted(workspace: FileWorkspace, content: bytes, said: str) -> None:
    workspace.put("a", content)
    assert await workspace.session().view("a") == said


async def test_a_binary_file_raises_an_error(workspace: FileWorkspace) -> None:
    workspace.put("a.bin", b"\0\1\2")
    with pytest.raises(ToolError, match="binary file"):
        await workspace.session().view("a.bin")


async def test_an_image_is_a_file_part_for_models_that_can_see(workspace: FileWorkspace) -> None:
    workspace.put("logo", _PNG)
    output = await workspace.session(can_see_images=True).call(ViewTool(), path="logo")
    (image,) = output.files
    assert (image.name, image.media_type, base64.b64decode(image.data or "")) == ("logo", "image/png", _PNG)


async def test_an_image_raises_an_error_if_too_large_or_not_accepted_by_the_model(workspace: FileWorkspace) -> None:
    workspace.put("a.png", _PNG)
    workspace.put("b.png", _PNG + b"\0" * 5 * 1024 * 1024)
    with pytest.raises(ToolError, match="does not accept images"):
        await workspace.session().view("a.png")
    with pytest.raises(ToolError, match="make it smaller"):
        await workspace.session(can_see_images=True).view("b.png")


async def test_a_missing_file_has_suggestions_and_a_directory_a_hint(workspace: FileWorkspace) -> None:
    workspace.put("src/main.py", "")
    with pytest.raises(ToolError, match=r"'src/mian.py' does not exist; similar: 'src/main.py'"):
        await workspace.session().view("src/mian.py")
    with pytest.raises(ToolError, match="is a directory; use ls"):
        await workspace.session().view("src")


async def test_the_plan_has_the_real_path(workspace: FileWorkspace, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("secret")
    (workspace.directory / "inside").symlink_to(tmp_path / "outside")
    plan = await workspace.session().plan(ViewTool(), path="inside")
    assert plan.subject.paths == (str((tmp_path / "outside").resolve()),)
    assert (plan.subject.tool, plan.subject.effect) == ("view", "reads")


async def test_a_link_that_is_turned_after_the_approval_is_not_followed(
    workspace: FileWorkspace, tmp_path: Path
) -> None:
    workspace.put("harmless", "x")
    (tmp_path / "outside").write_text("secret")
    link = workspace.directory / "link"
    link.symlink_to("harmless")

    def turn() -> None:
        link.unlink()
        link.symlink_to(tmp_path / "outside")

    with pytest.raises(ToolError, match="now leads to another"):
        await workspace.session().call(ViewTool(), path="link", between=turn)


async def test_secrets_are_removed_from_the_output(workspace: FileWorkspace) -> None:
    workspace.put("env", "KEY=hunter2\n")
    session = workspace.session(redact=lambda text: text.replace("hunter2", "[secret]"))
    assert await session.view("env") == "     1\tKEY=[secret]"
