"""Web pages as text: bytes to characters by what the page says of itself, HTML to Markdown or plain text.

Pages come as people write them: tags left open, nested a thousand deep, with names of charsets that do not exist.
They are put in order (`markup`) before they are converted. Blocks: run it in a thread.
"""

from __future__ import annotations

import codecs
import re
from typing import Literal

from holdfast.tools.web.html_tokens import html_text, tidy_html

PageFormat = Literal["markdown", "text", "html"]

LARGEST_HTML = 1 << 20
"""Characters of a page that are converted."""

_CHARSETS = re.compile(
    r"(utf-?(8|16|32)([-_]?[lb]e)?|us-ascii|ascii|latin-?\d|iso-?8859-?\d+|iso-2022-\w+|windows-\d+|cp-?\d+|koi8-\w"
    r"|gb\w*|big5\w*|euc-?\w+|shift[-_]?jis\w*|sjis|mac[-_]?\w+|tis-620|johab|hz)",
    re.IGNORECASE,
)
_HEADER_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_META_CHARSET = re.compile(rb"<meta[^>]{0,300}?charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_XML_CHARSET = re.compile(rb"^\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]+)", re.IGNORECASE)
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def decode_page(body: bytes, content_type: str, *, cut: bool = False) -> str:
    """The characters of a body: by its mark, its header, or its own words; where these are wrong, by what fits."""
    named = _named_charsets(body, content_type)
    # Servers say Latin-1 of everything; text in it is hardly ever valid UTF-8.
    for name in ("utf-8", *named) if named[:1] == ["windows-1252"] else (*named, "utf-8"):
        try:
            return codecs.getincrementaldecoder(name)("strict").decode(body, final=not cut)
        except UnicodeError:
            continue
    return body.decode(named[0] if named else "windows-1252", "replace")


def _named_charsets(body: bytes, content_type: str) -> list[str]:
    for mark, name in _MARKS:
        if body.startswith(mark):
            return [name]
    start = body[:2_048]
    said = [found[1] for found in [_HEADER_CHARSET.search(content_type)] if found]
    said += [found[1].decode("ascii") for found in (_XML_CHARSET.search(start), _META_CHARSET.search(start)) if found]
    return [
        name for name in map(_usable, said) if name and (b"\0" in start or not name.startswith(("utf-16", "utf-32")))
    ]


def _usable(name: str) -> str | None:
    """Python's name of a charset that pages use; some codecs of Python are none, or take for ever."""
    if not _CHARSETS.fullmatch(name):
        return None
    try:
        found = codecs.lookup(name).name
    except LookupError:
        return None
    return "windows-1252" if found in ("iso8859-1", "ascii") else found


def html_to_text(html: str) -> str:
    """The words of a page, a line per block."""
    lines = (" ".join(line.split()) for line in html_text(html[:LARGEST_HTML]).split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def html_to_markdown(html: str) -> str:
    """A page as Markdown, without what is not shown."""
    from markdownify import MarkdownConverter

    converter = MarkdownConverter(heading_style="ATX", bullets="-", keep_inline_images_in=["td", "th"])
    text: str = converter.convert(tidy_html(html[:LARGEST_HTML]))
    lines = (line.rstrip() for line in text.split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
