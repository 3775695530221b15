"""Text files as bytes: which encoding they have, and that they keep it. Pure."""

from __future__ import annotations

import codecs
from typing import Literal

import msgspec

from holdfast.errors import ToolError

Encoding = Literal["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be", "latin-1"]

_BOMS: dict[Encoding, bytes] = {
    "utf-8-sig": codecs.BOM_UTF8,
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
}
_SHOWN: dict[Encoding, str] = {
    "utf-8": "UTF-8",
    "utf-8-sig": "UTF-8 with BOM",
    "utf-16-le": "UTF-16 (little endian)",
    "utf-16-be": "UTF-16 (big endian)",
    "latin-1": "Latin-1",
}
_TEXT_CONTROLS = frozenset(b"\t\n\v\f\r\b\x1b")
_CONTROLS = bytes(byte for byte in range(32) if byte not in _TEXT_CONTROLS)


class TextFile(msgspec.Struct, frozen=True):
    """A file's text, without its BOM but with its line endings, and how it was written."""

    text: str
    encoding: Encoding = "utf-8"

    @property
    def crlf(self) -> bool:
        """Whether most lines end in CRLF."""
        pairs = self.text.count("\r\n")
        return pairs > 0 and pairs * 2 >= self.text.count("\n")

    def note(self) -> str:
        """What a reader should know of the bytes; empty for plain UTF-8 with Unix line endings."""
        notes = []
        if self.encoding != "utf-8":
            guess = ", a guess: it is no valid UTF-8" if self.encoding == "latin-1" else ""
            notes.append(f"{_SHOWN[self.encoding]}{guess}")
        if self.crlf:
            notes.append("CRLF line endings")
        return "; ".join(notes)


def decode_text(data: bytes) -> TextFile | None:
    """The text, or None for binary content. `encode` gives the same bytes back."""
    for encoding, bom in _BOMS.items():
        if data.startswith(bom):
            return _try(data[len(bom) :], encoding)
    if b"\0" in data:
        return None
    return _try(data, "utf-8") or _latin(data)


def encode_text(text: str, encoding: Encoding) -> bytes:
    """The bytes of a text; `ToolError` where the encoding has no place for a character."""
    try:
        return _BOMS.get(encoding, b"") + text.encode(_codec(encoding))
    except UnicodeEncodeError as error:
        character = text[error.start]
        raise ToolError(
            f"the file is {_SHOWN[encoding]}, which cannot hold {character!r} (U+{ord(character):04X}); "
            "leave it out, or convert the file first",
        ) from error


def _codec(encoding: Encoding) -> str:
    return "utf-8" if encoding == "utf-8-sig" else encoding


def _try(body: bytes, encoding: Encoding) -> TextFile | None:
    try:
        text = body.decode(_codec(encoding))
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else TextFile(text, encoding)


def _latin(data: bytes) -> TextFile | None:
    """Bytes without a known encoding are text if control characters are rare."""
    controls = len(data) - len(data.translate(None, _CONTROLS))
    return None if controls * 100 > len(data) else TextFile(data.decode("latin-1"), "latin-1")
