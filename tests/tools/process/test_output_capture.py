"""Captured output is exact, limited in size, and free of secrets however it is split into chunks."""

import asyncio
import itertools
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.config import Redactor, Secret
from holdfast.tools.process import output_capture as module
from holdfast.tools.process.output_capture import ANSWER_LIMIT, OutputCapture

SECRET = "tok-abcdefgh12345678"
_PLAIN = st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("\n\t")


@pytest.mark.promise("W8")
@pytest.mark.parametrize("secret", [SECRET, "two words and\nthree more", "x1y2" * 2_000])
@pytest.mark.parametrize("size", [1, 7, 4_096])
async def test_a_secret_in_any_chunks_is_redacted(tmp_path: Path, secret: str, size: int) -> None:
    data = f"before {secret} {secret[:9]} after\n".encode()
    live: list[str] = []
    captured = OutputCapture(tmp_path / "out.txt", redact_stream=Redactor([Secret(secret)]).stream, emit=live.append)
    await captured.keep_in_file()
    for at in range(0, len(data), size):
        await captured.feed(data[at : at + size])
    await captured.feed(b"", final=True)
    expected = Redactor([Secret(secret)]).redact(data.decode())
    assert secret not in expected
    assert "".join(live) == captured.answer() == captured.path.read_text() == expected


async def test_output_that_arrives_while_the_file_is_created_is_in_the_file(tmp_path: Path) -> None:
    captured = OutputCapture(tmp_path / "out.txt", redact_stream=Redactor().stream, emit=lambda _: None)
    await asyncio.gather(captured.keep_in_file(), captured.feed(b"first\n"))
    await captured.feed(b"second\n", final=True)
    assert captured.path.read_text() == "first\nsecond\n"


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.lists(st.text(_PLAIN, max_size=20_000), max_size=6), st.lists(st.integers(min_value=0), max_size=8))
async def test_live_text_and_file_equal_the_output(tmp_path: Path, texts: list[str], cuts: list[int]) -> None:
    data = "".join(texts).encode("utf-8", "replace")
    live: list[str] = []
    captured = OutputCapture(tmp_path / "out.txt", redact_stream=Redactor().stream, emit=live.append)
    await captured.keep_in_file()
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for start, end in itertools.pairwise(edges):
        await captured.feed(data[start:end])
    await captured.feed(b"", final=True)
    assert "".join(live).encode() == data == captured.path.read_bytes()
    assert captured.size == len(data)
    text = data.decode()
    assert captured.answer() == text if len(text) <= ANSWER_LIMIT else captured.answer().startswith(text[:10_000])


async def test_output_is_shortened_only_above_the_limit(tmp_path: Path) -> None:
    for extra in (0, 1):
        captured = OutputCapture(tmp_path / f"{extra}.txt", redact_stream=Redactor().stream, emit=str)
        text = "x" * (ANSWER_LIMIT + extra)
        await captured.feed(text.encode(), final=True)
        assert (captured.answer() == text) == (extra == 0)
        assert captured.path.exists() == (extra == 1)


async def test_the_file_stops_at_its_limit_and_the_answer_has_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FILE_LIMIT", 1 << 20)
    captured = OutputCapture(tmp_path / "out.txt", redact_stream=Redactor().stream, emit=str)
    for _ in range(3):
        await captured.feed(b"line\n" * 100_000)
    await captured.feed(b"the end\n", final=True)
    assert captured.path.stat().st_size == 1 << 20
    assert "only the first 1 MiB are in" in captured.answer()
    assert captured.answer().endswith("the end\n")
    text, position = await captured.since(0)
    assert text.endswith("the end\n")
    assert position == captured.size
    assert (await captured.since(position))[0] == ""


async def test_a_write_error_ends_the_file_but_not_the_output(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    captured = OutputCapture(tmp_path / "file" / "out.txt", redact_stream=Redactor().stream, emit=str)
    await captured.feed(b"line\n" * 20_000)
    await captured.feed(b"the end\n", final=True)
    assert "could not be stored in" in captured.answer()
    assert captured.answer().endswith("the end\n")


async def test_only_the_owner_can_read_the_file(tmp_path: Path) -> None:
    captured = OutputCapture(tmp_path / "new" / "out.txt", redact_stream=Redactor().stream, emit=str)
    await captured.feed(b"x" * 40_000, final=True)
    assert captured.path.stat().st_mode & 0o777 == 0o600
    assert captured.path.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.promise("W8")
async def test_a_secret_with_colours_inside_is_redacted_in_plain_text(tmp_path: Path) -> None:
    captured = OutputCapture(tmp_path / "out.txt", redact_stream=Redactor([Secret(SECRET)]).stream, emit=str)
    await captured.keep_in_file()
    await captured.feed(
        f"{SECRET[:8]}\x1b[31m{SECRET[8:]}\x1b[0m \x00{SECRET[:3]}\x00{SECRET[3:]}\n".encode(), final=True
    )
    assert SECRET not in captured.answer()
    assert captured.path.read_text() == captured.answer() == "[redacted] [redacted]\n"


async def test_live_output_keeps_its_colours_and_the_model_gets_plain_text(tmp_path: Path) -> None:
    live: list[str] = []
    captured = OutputCapture(tmp_path / "out.txt", redact_stream=Redactor().stream, emit=live.append)
    await captured.feed(b"\x1b[32mok\x1b[0m\n 1%\r 2%\r100%\n", final=True)
    assert captured.answer() == "ok\n100%\n"
    assert "".join(live) == "\x1b[32mok\x1b[0m\n 1%\r 2%\r100%\n"


async def test_the_omitted_lines_are_named_and_can_be_read_where_the_answer_says(tmp_path: Path) -> None:
    captured = OutputCapture(tmp_path / "out.txt", redact_stream=Redactor().stream, emit=str)
    for number in range(1, 10_001):
        await captured.feed(f"line {number}\n".encode())
    await captured.feed(b"", final=True)
    lines = captured.answer().splitlines()
    (at,) = [index for index, line in enumerate(lines) if line.startswith("[…")]
    found = re.fullmatch(
        r"\[… lines ([\d,]+) to ([\d,]+) omitted \([\d,]+ characters\); the whole output is in (.+); "
        r"view it with offset (\d+) …\]",
        lines[at],
    )
    assert found
    first, last = (int(found[group].replace(",", "")) for group in (1, 2))
    assert (lines[at - 1], lines[at + 1]) == (f"line {first - 1}", f"line {last + 1}")
    assert int(found[4]) == first
    assert Path(found[3]).read_text().splitlines()[first - 1] == f"line {first}"
    assert (await captured.since(0))[0].splitlines()[at].replace("bytes", "characters") == lines[at]


async def test_one_long_line_is_cut_in_the_middle(tmp_path: Path) -> None:
    captured = OutputCapture(tmp_path / "out.txt", redact_stream=Redactor().stream, emit=str)
    await captured.feed(b"x" * 100_000, final=True)
    assert "\n[… 70,000 characters omitted; the whole output is in " in captured.answer()
