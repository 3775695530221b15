"""Encodings are recognised, told and kept."""

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import ToolError
from holdfast.tools.text.text_file import TextFile, decode_text, encode_text


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (b"", "utf-8"),
        ("grün\n".encode(), "utf-8"),
        (codecs.BOM_UTF8 + "grün\n".encode(), "utf-8-sig"),
        (codecs.BOM_UTF16_LE + "grün\n".encode("utf-16-le"), "utf-16-le"),
        (codecs.BOM_UTF16_BE + "grün\n".encode("utf-16-be"), "utf-16-be"),
        ("grün\n".encode("latin-1"), "latin-1"),
    ],
)
def test_the_encoding_is_recognised(data: bytes, encoding: str) -> None:
    found = decode_text(data)
    assert found is not None
    assert (found.encoding, found.text) == (encoding, "grün\n" if data else "")


@pytest.mark.parametrize(
    "data",
    [
        b"\x7fELF\x02\x01\x01\0\0\0",
        b"text\0text",
        bytes(range(1, 256)),
        codecs.BOM_UTF16_LE + b"\x00\xd8\x00",  # half a pair, and half a unit
        codecs.BOM_UTF32_LE + "text".encode("utf-32-le"),
    ],
)
def test_binary_content_is_no_text(data: bytes) -> None:
    assert decode_text(data) is None


@pytest.mark.parametrize(
    ("file", "note"),
    [
        (TextFile("a\nb\n"), ""),
        (TextFile("a\r\nb\r\n"), "CRLF line endings"),
        (TextFile("a\r\nb\nc\n"), ""),
        (TextFile("é", "latin-1"), "Latin-1, a guess: the bytes are not valid UTF-8"),
        (TextFile("a\r\n", "utf-8-sig"), "UTF-8 with BOM; CRLF line endings"),
    ],
)
def test_unusual_encoding_and_line_endings_are_noted(file: TextFile, note: str) -> None:
    assert file.note() == note


def test_a_character_that_the_encoding_lacks_raises_an_error() -> None:
    with pytest.raises(ToolError, match=r"Latin-1, which cannot encode '€' \(U\+20AC\)"):
        encode_text("5 €", "latin-1")


@given(st.binary(max_size=64) | st.text(max_size=32).map(str.encode))
def test_decoded_text_encodes_to_the_same_bytes(data: bytes) -> None:
    found = decode_text(data)
    if found is not None:
        assert encode_text(found.text, found.encoding) == data


@given(st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_all_text_in_unicode_is_text(text: str) -> None:
    for bom, codec in [(b"", "utf-8"), (codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_BE, "utf-16-be")]:
        found = decode_text(bom + text.encode(codec))
        assert found is not None
        assert found.text in (text, text.removeprefix("\ufeff"))
