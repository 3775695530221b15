"""Known secrets are taken out of text, whole or in pieces, and nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.config import Redactor, Secret
from holdfast.config.redaction import MARK
from holdfast.schema.base import encode

PLANTED = "sk-planted-0123456789abcdef"


def redactor(*secrets: str) -> Redactor:
    return Redactor(map(Secret, secrets))


def in_pieces(found: Redactor, pieces: list[str]) -> str:
    stream = found.stream()
    return "".join([*map(stream.feed, pieces), stream.flush()])


@pytest.mark.promise("W8")
def test_every_occurrence_is_replaced() -> None:
    text = f"{PLANTED} and {PLANTED}{PLANTED}"
    assert redactor(PLANTED).redact(text) == f"{MARK} and {MARK}{MARK}"
    assert redactor(PLANTED).redact_bytes(text.encode()) == f"{MARK} and {MARK}{MARK}".encode()


def test_text_without_a_secret_is_the_same_text() -> None:
    text = "sk-planted-0123456789abcde"
    assert redactor(PLANTED).redact(text) is text
    assert in_pieces(redactor(PLANTED), list(text)) == text
    assert in_pieces(redactor(), ["a", "b"]) == "ab"


def test_overlapping_secrets_are_removed_completely() -> None:
    found = redactor("abcdefgh12", "gh12ijklmn", "abcdefgh")
    assert found.redact("<abcdefgh12ijklmn>") == f"<{MARK}>"
    assert found.redact("<abcdefgh>") == f"<{MARK}>"


def test_a_short_secret_is_not_redacted() -> None:
    assert redactor("none", "x").redact("none of x") == "none of x"
    assert not redactor("none")


def test_a_secret_is_found_escaped_for_json_and_for_addresses() -> None:
    odd = 'p@ss"wörd\\ +/&'
    found = redactor(odd)
    assert found.redact_bytes(encode({"key": odd})) == encode({"key": MARK})
    assert found.redact("https://x.test/?k=p%40ss%22w%C3%B6rd%5C%20%2B%2F%26") == f"https://x.test/?k={MARK}"
    assert found.redact("k=p%40ss%22w%C3%B6rd%5C+%2B%2F%26") == f"k={MARK}"


def test_a_redactors_repr_shows_no_secret() -> None:
    assert PLANTED not in repr(redactor(PLANTED))
    assert PLANTED not in repr(redactor(PLANTED).stream())


@given(
    secrets=st.lists(st.text("ab", min_size=8, max_size=11), min_size=1, max_size=3),
    data=st.data(),
)
def test_redacting_pieces_equals_redacting_the_whole_text(secrets: list[str], data: st.DataObject) -> None:
    part = st.sampled_from(secrets) | st.text("abc", max_size=4)
    text = "".join(data.draw(st.lists(part, max_size=8)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    found = redactor(*secrets)
    assert in_pieces(found, pieces) == found.redact(text)
    assert not any(secret in found.redact(text) for secret in secrets)


@given(st.text(), st.text(min_size=8))
def test_redaction_accepts_any_text_and_any_secret(text: str, secret: str) -> None:
    assert secret not in redactor(secret).redact(text + secret + text).replace(MARK, "")


def test_only_a_possible_start_of_a_secret_is_held_back() -> None:
    stream = redactor(PLANTED).stream()
    assert stream.feed("hello sk") == "hello "
    assert stream.feed("y") == "sky"
    assert stream.feed(PLANTED[:-1]) == ""
    assert stream.feed("!") == f"{PLANTED[:-1]}!"


def test_memory_stays_bounded_for_a_secret_that_overlaps_itself() -> None:
    stream = redactor("a" * 8).stream()
    shown = [stream.feed("a" * 1_000) for _ in range(200)]
    assert len(stream._held) < 8
    assert "".join([*shown, stream.flush()]) == MARK
