"""Captured output is exact, limited in size, and free of secrets however it is split into chunks."""

import asyncio
import itertools
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.tools.process import output_capture as module
from holdfast.tools.process.output_capture import ANSWER_LIMIT, OutputCapture, OutputRedactor

SECRET = "tok-abcdefgh12345678"


def redact(text: str) -> str:
    return text.replace(SECRET, "[redacted]")


def pieces_of(text: str, cuts: list[int]) -> list[str]:
    edges = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[start:end] for start, end in itertools.pairwise(edges)]


@given(
    st.lists(st.sampled_from([SECRET, SECRET[:7], " ", "\n", "x", "tok-", "é"]), max_size=12).map("".join),
    st.lists(st.integers(min_value=0), max_size=6),
)
def test_redacting_pieces_equals_redacting_the_whole(text: str, cuts: list[int]) -> None:
    redactor = OutputRedactor(redact)
    shown = [redactor.push(piece) for piece in pieces_of(text, cuts)]
    assert "".join(shown) + redactor.push("", final=True) == redact(text)


@settings(max_examples=30)
@given(st.integers(min_value=3_000, max_value=9_000), st.integers(min_value=50, max_value=5_000))
def test_a_secret_inside_a_very_long_word_is_redacted(before: int, size: int) -> None:
    text = "x" * before + SECRET + "y" * 9_000
    redactor = OutputRedactor(redact)
    shown = [redactor.push(text[at : at + size]) for at in range(0, len(text), size)]
    assert "".join(shown) + redactor.push("", final=True) == redact(text)


async def test_output_that_arrives_while_the_file_is_created_is_in_the_file(tmp_path: Path) -> None:
    captured = OutputCapture(tmp_path / "out.txt", redact=str, emit=lambda _: None)
    await asyncio.gather(captured.keep_in_file(), captured.feed(b"first\n"))
    await captured.feed(b"second\n", final=True)
    assert captured.path.read_text() == "first\nsecond\n"


def test_a_complete_word_is_shown_at_once() -> None:
    assert OutputRedactor(redact).push("ready on port 80\n") == "ready on port 80\n"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.lists(st.text(max_size=20_000), max_size=6), st.lists(st.integers(min_value=0), max_size=8))
async def test_live_text_and_file_equal_the_output(tmp_path: Path, texts: list[str], cuts: list[int]) -> None:
    data = "".join(texts).encode("utf-8", "replace")
    live: list[str] = []
    captured = OutputCapture(tmp_path / "out.txt", redact=str, emit=live.append)
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
        captured = OutputCapture(tmp_path / f"{extra}.txt", redact=str, emit=str)
        text = "x" * (ANSWER_LIMIT + extra)
        await captured.feed(text.encode(), final=True)
        assert (captured.answer() == text) == (extra == 0)
        assert captured.path.exists() == (extra == 1)


async def test_the_file_stops_at_its_limit_and_the_answer_has_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FILE_LIMIT", 1 << 20)
    captured = OutputCapture(tmp_path / "out.txt", redact=str, emit=str)
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
    captured = OutputCapture(tmp_path / "file" / "out.txt", redact=str, emit=str)
    await captured.feed(b"line\n" * 20_000)
    await captured.feed(b"the end\n", final=True)
    assert "could not be stored in" in captured.answer()
    assert captured.answer().endswith("the end\n")


async def test_only_the_owner_can_read_the_file(tmp_path: Path) -> None:
    captured = OutputCapture(tmp_path / "new" / "out.txt", redact=str, emit=str)
    await captured.feed(b"x" * 40_000, final=True)
    assert captured.path.stat().st_mode & 0o777 == 0o600
    assert captured.path.parent.stat().st_mode & 0o777 == 0o700
