"""The text of a file: its encoding, its lines and their endings. Pure.

Only ``\\n`` and ``\\r\\n`` end a line. Form feeds and Unicode line separators are content, as in editors and in git.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from typing import Literal

import msgspec

from holdfast.errors import ToolError

Encoding = Literal["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be", "latin-1"]

_BOMS: dict[Encoding, bytes] = {
    "utf-8-sig": codecs.BOM_UTF8,
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
}
_LABELS: dict[Encoding, str] = {
    "utf-8": "UTF-8",
    "utf-8-sig": "UTF-8 with BOM",
    "utf-16-le": "UTF-16 (little endian)",
    "utf-16-be": "UTF-16 (big endian)",
    "latin-1": "Latin-1",
}
_TEXT_CONTROLS = frozenset(b"\t\n\v\f\r\b\x1b")
_CONTROLS = bytes(byte for byte in range(32) if byte not in _TEXT_CONTROLS)


class TextFile(msgspec.Struct, frozen=True):
    """Decoded text without its BOM, with its line endings, and the encoding it had."""

    text: str
    encoding: Encoding = "utf-8"

    @property
    def crlf(self) -> bool:
        """Whether most lines end in CRLF."""
        pairs = self.text.count("\r\n")
        return pairs > 0 and pairs * 2 >= self.text.count("\n")

    def note(self) -> str:
        """Describe the encoding and line endings; empty for UTF-8 with Unix line endings."""
        notes = []
        if self.encoding != "utf-8":
            guess = ", a guess: the bytes are not valid UTF-8" if self.encoding == "latin-1" else ""
            notes.append(f"{_LABELS[self.encoding]}{guess}")
        if self.crlf:
            notes.append("CRLF line endings")
        return "; ".join(notes)


def decode_text(data: bytes) -> TextFile | None:
    """Return the text, or None for binary content. `encode_text` restores the same bytes."""
    for encoding, bom in _BOMS.items():
        if data.startswith(bom):
            return _decode(data[len(bom) :], encoding)
    if b"\0" in data:
        return None
    return _decode(data, "utf-8") or _decode_latin(data)


def encode_text(text: str, encoding: Encoding) -> bytes:
    """Encode text. Raises `ToolError` for a character that the encoding does not have."""
    try:
        return _BOMS.get(encoding, b"") + text.encode(_codec(encoding))
    except UnicodeEncodeError as error:
        character = text[error.start]
        raise ToolError(
            f"the file is {_LABELS[encoding]}, which cannot encode {character!r} (U+{ord(character):04X}); "
            "omit the character, or convert the file first",
        ) from error


def _codec(encoding: Encoding) -> str:
    return "utf-8" if encoding == "utf-8-sig" else encoding


def _decode(body: bytes, encoding: Encoding) -> TextFile | None:
    try:
        text = body.decode(_codec(encoding))
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else TextFile(text, encoding)


def _decode_latin(data: bytes) -> TextFile | None:
    """Accept bytes of unknown encoding as text if at most one percent are control characters."""
    controls = len(data) - len(data.translate(None, _CONTROLS))
    return None if controls * 100 > len(data) else TextFile(data.decode("latin-1"), "latin-1")


class TextLine(msgspec.Struct, frozen=True):
    text: str
    end: str
    """``\\n``, ``\\r\\n``, or empty for a last line without newline."""


def split_lines(text: str) -> list[TextLine]:
    """Split text into lines; `join_lines` restores it."""
    parts = text.split("\n")
    lines = [
        TextLine(part[:-1], "\r\n") if part.endswith("\r") else TextLine(part, "\n")
        for part in parts[:-1]  # text after the last newline is a line only if it is not empty
    ]
    return [*lines, TextLine(parts[-1], "")] if parts[-1] else lines


def join_lines(lines: Iterable[TextLine]) -> str:
    return "".join(line.text + line.end for line in lines)


def usual_line_end(lines: Iterable[TextLine], *, default: str = "\n") -> str:
    """Return the most common line ending."""
    counts = {"\r\n": 0, "\n": 0}
    for line in lines:
        if line.end:
            counts[line.end] += 1
    if not any(counts.values()):
        return default
    return "\r\n" if counts["\r\n"] > counts["\n"] else "\n"
