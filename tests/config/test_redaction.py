"""Known secrets are taken out of text, whole or in pieces, and nothing else is."""

from __future__ import annotations

import base64
import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.config import Redactor, Secret
from holdfast.config.key_patterns import KEY_PATTERNS
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


def test_short_held_text_can_be_released_during_a_pause() -> None:
    stream = redactor(PLANTED).stream()
    assert stream.feed("a task") == "a ta"
    assert stream.can_release
    assert stream.release() == "sk"
    assert not stream.can_release
    assert stream.release() == ""
    assert stream.feed(" is done, as") == " is done, a"
    assert stream.release() == "s"
    assert stream.flush() == ""
    stream.feed("sk-")
    assert stream.release() == ""
    assert stream.flush() == "sk-"


def test_a_secret_that_follows_released_text_is_masked() -> None:
    stream = redactor(PLANTED).stream()
    shown = [stream.feed(PLANTED[:2]), stream.release(), stream.feed(PLANTED[2:9]), stream.release()]
    shown += [stream.feed(PLANTED[9:] + "."), stream.flush()]
    assert "".join(shown) == f"{PLANTED[:2]}{MARK}."


@given(
    st.lists(st.text("ab\n", min_size=8, max_size=12).filter(lambda text: len(text.strip()) > 7), max_size=2),
    st.lists(st.tuples(st.text("ab\n", max_size=12), st.booleans()), max_size=12),
)
def test_releases_show_no_text_twice_and_no_secret(secrets: list[str], pieces: list[tuple[str, bool]]) -> None:
    found = redactor(*secrets)
    stream = found.stream()
    shown: list[str] = []
    for piece, pause in pieces:
        shown += [stream.feed(piece), stream.release() if pause else ""]
    text, output = "".join(piece for piece, _ in pieces), "".join([*shown, stream.flush()])
    whole = found.redact(text)
    if whole == text:
        assert output == text
    else:
        assert len(output) <= len(whole) + 2 * len(pieces)
        assert output.count(MARK) == whole.count(MARK)


def test_memory_stays_bounded_for_a_secret_that_overlaps_itself() -> None:
    stream = redactor("a" * 8).stream()
    shown = [stream.feed("a" * 1_000) for _ in range(200)]
    assert len(stream._held) < 8
    assert "".join([*shown, stream.flush()]) == MARK


def pieces_of(text: str, cuts: list[int]) -> list[str]:
    edges = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[start:end] for start, end in itertools.pairwise(edges)]


SPACED = "correct horse\nbattery staple"
LONG = "".join(f"{number:05}" for number in range(1_000))
TOKEN = "ghp_" + "a1B2" * 10
PEM = "-----BEGIN RSA PRIVATE KEY-----\n" + ("MIIEow" * 10 + "\n") * 4 + "-----END RSA PRIVATE KEY-----"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJlLW9mLXRva2Vu"


def base64_of(secret: str, *, before: str = "", width: int = 0, urlsafe: bool = False) -> str:
    encode_bytes = base64.urlsafe_b64encode if urlsafe else base64.b64encode
    text = encode_bytes(f"{before}{secret}:rest".encode()).decode()
    return "\n".join(text[at : at + width] for at in range(0, len(text), width)) if width else text


@pytest.mark.promise("W8")
@pytest.mark.parametrize("before", ["", "x", "xy"])
@pytest.mark.parametrize("urlsafe", [False, True])
def test_a_secret_is_found_in_base64_at_every_alignment(before: str, urlsafe: bool) -> None:
    secret = "sk~?>planted~?>0123"
    text = base64_of(secret, before=before, urlsafe=urlsafe)
    shown = redactor(secret).redact(f"data:{text}")
    assert MARK in shown
    left = shown.removeprefix("data:").replace(MARK, "")
    assert len(left) <= len(text) - len(secret) * 4 // 3 + 2


@pytest.mark.promise("W8")
def test_a_secret_is_found_in_hexadecimal_and_in_addresses() -> None:
    secret = "pa ss/wörd:0123"
    for form in (
        secret.encode().hex(),
        secret.encode().hex().upper(),
        "pa%20ss%2fw%c3%b6rd%3a0123",
        "pa+ss%2Fw%C3%B6rd%3A0123",
        "pa ss/w\\u00f6rd:0123",
    ):
        assert redactor(secret).redact(f"<{form}>") == f"<{MARK}>", form


@pytest.mark.promise("W8")
@pytest.mark.parametrize("width", [19, 60, 64, 76])
@pytest.mark.parametrize("line_break", ["\n", "\r\n"])
def test_base64_that_is_broken_into_lines_is_masked_line_by_line(width: int, line_break: str) -> None:
    key = "sk-planted-" + "0123456789abcdef" * 6
    text = base64_of(key, before='{"keys": {"a": "', width=width).replace("\n", line_break)
    shown = redactor(key).redact(text)
    assert shown.count("\n") == text.count("\n")
    raw = base64.b64encode(f'{{"keys": {{"a": "{key}:rest'.encode()).decode()
    assert not any(raw[at : at + 8] in shown for at in range(24, len(raw) - 20))


def test_text_with_empty_lines_is_not_joined() -> None:
    encoded = PLANTED.encode().hex()
    text = f"{encoded[:20]}\n\n{encoded[20:]}"
    assert redactor(PLANTED).redact(text) == text
    assert in_pieces(redactor(PLANTED), list(text)) == text


def test_a_secret_with_several_lines_keeps_the_number_of_lines() -> None:
    assert redactor(SPACED).redact(f"a {SPACED} b") == f"a {MARK}\n{MARK} b"


@pytest.mark.promise("W8")
@given(
    parts=st.lists(
        st.sampled_from(
            [
                PLANTED,
                SPACED,
                TOKEN,
                PEM,
                PEM[:80],
                JWT,
                base64_of(PLANTED, width=11),
                base64_of(PLANTED, before="x"),
                PLANTED.encode().hex(),
                LONG,
                LONG[:2_500],
                "AKIA" + "Q1W2E3R4T5Y6U7I8",
                "aws_secret_access_key = '" + "a1/+" * 10,
                "-----BEGIN ",
            ]
        ).flatmap(lambda whole: st.just(whole) | st.integers(0, 40).map(lambda cut: whole[: len(whole) - cut]))
        | st.sampled_from([" ", "\n", "\r\n", "\n\n", "x", ".", "-", "sk-", "eyJ", "é", "="]),
        max_size=8,
    ),
    cuts=st.lists(st.integers(0, 20_000), max_size=12),
)
@example(parts=[PEM, "x", PLANTED], cuts=[1, 5, 30, 100, 281])
@example(parts=[LONG, LONG], cuts=[4_096, 4_999, 5_001])
@example(parts=["x", TOKEN], cuts=[1, 2])
@example(parts=[SPACED], cuts=list(range(28)))
@example(parts=["aws_secret_access_key = 'a1/+a1/+a1/", "aws_secret_access_key = '" + "a1/+" * 10], cuts=[57])
@example(parts=["aws_secret_access_key = '" + ("a1/+" * 10)[:39], "aws_secret_access_key = '" + "a1/+" * 10], cuts=[])
def test_any_chunking_gives_the_output_of_the_whole_text(parts: list[str], cuts: list[int]) -> None:
    text = "".join(parts)
    found = Redactor(map(Secret, (PLANTED, SPACED, LONG)), key_patterns=True)
    whole = found.redact(text)
    assert in_pieces(found, pieces_of(text, cuts)) == whole
    assert whole.count("\n") == text.count("\n")
    assert not any(secret in whole for secret in (PLANTED, SPACED, LONG))


@given(
    secrets=st.lists(st.text("ab\n", min_size=8, max_size=11), min_size=1, max_size=3),
    data=st.data(),
)
def test_any_chunking_of_secrets_with_line_breaks(secrets: list[str], data: st.DataObject) -> None:
    part = st.sampled_from(secrets) | st.text("abc\n", max_size=4)
    text = "".join(data.draw(st.lists(part, max_size=8)))
    found = redactor(*secrets)
    assert in_pieces(found, pieces_of(text, data.draw(st.lists(st.integers(0, 200), max_size=12)))) == found.redact(
        text
    )


@given(st.lists(st.integers(0, 255), min_size=8, max_size=12).map(bytes), st.data())
def test_any_chunking_of_encoded_forms(raw: bytes, data: st.DataObject) -> None:
    secret = raw.decode("latin-1")
    forms = [secret.encode().hex(), base64_of(secret), base64_of(secret, before="x"), base64_of(secret, before="xy")]
    part = st.sampled_from(forms) | st.sampled_from(["\n", "\r", "\r\n", "a", "/"])
    text = "".join(data.draw(st.lists(part, max_size=6)))
    breaks = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)), reverse=True)
    for at in breaks:
        text = f"{text[:at]}\n{text[at:]}"
    found = redactor(secret)
    assert in_pieces(found, pieces_of(text, data.draw(st.lists(st.integers(0, 200), max_size=12)))) == found.redact(
        text
    )


@pytest.mark.parametrize(
    "key",
    [
        "sk-ant-api03-" + "aB3_" * 20,
        "sk-proj-" + "Zz9" * 15,
        "ghp_" + "a1B2" * 9,
        "github_pat_" + "a1B2_" * 10,
        "glpat-" + "a1B2c3D4e5F6g7H8i9J0",
        "AKIA" + "Q1W2E3R4T5Y6U7I8",
        "AIza" + "a1B2c" * 7,
        "xoxb-123456789012-" + "a1B2c3D4",
        "npm_" + "a1B2" * 9,
        "hf_" + "aB" * 17,
        "sk_live_" + "a1B2" * 6,
        "SG." + "a" * 22 + "." + "b" * 43,
        JWT,
        PEM,
        PEM.replace("\n", "\\n"),
    ],
)
def test_well_known_keys_are_masked_on_request(key: str) -> None:
    found = Redactor(key_patterns=True)
    assert found.redact(f'token = "{key}"').replace("\n", "").replace(MARK, "") == 'token = ""'
    assert Redactor().redact(key) == key


@pytest.mark.parametrize(
    "text",
    [
        "task-force-one-and-the-rest-of-it-2024-A",
        "sk-learn-contrib-is-a-package-with-a-long-name",
        "AKIAIOSFODNN7EXAMPLE",
        "-----BEGIN RSA PRIVATE KEY----- is how a key begins.",
        "-----BEGIN CERTIFICATE-----\nMIIB",
        "eyJ is how a token begins: eyJhbGciOiJIUzI1NiJ9 alone is none",
        "the ghp_ prefix",
    ],
)
def test_ordinary_text_is_not_masked(text: str) -> None:
    assert Redactor(key_patterns=True).redact(text) == text


def test_a_named_key_is_masked_without_its_name() -> None:
    text = 'aws_secret_access_key = "' + "a1/+" * 10 + '"'
    assert Redactor(key_patterns=True).redact(text) == f'aws_secret_access_key = "{MARK}"'


def test_the_run_of_a_pattern_covers_its_key() -> None:
    for pattern in KEY_PATTERNS:
        run = pattern.run.match(pattern.prefix)
        assert run is not None
        assert run.end() == len(pattern.prefix)
