"""Web pages as text: decoding, HTML to Markdown, HTML to plain text. Blocking: call it in a thread.

The standard library's HTML parser takes minutes for some pages of a few hundred kilobytes, and converters recurse for
each open tag. So a page is first split into tokens in linear time and written again with all tags closed, without
invisible content, and with limited depth.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

PageFormat = Literal["markdown", "text", "html"]

MAX_HTML_CHARS = 1 << 20
"""Characters of a page to convert."""

_CHARSETS = re.compile(
    r"(utf-?(8|16|32)([-_]?[lb]e)?|us-ascii|ascii|latin-?\d|iso-?8859-?\d+|iso-2022-\w+|windows-\d+|cp-?\d+|koi8-\w"
    r"|gb\w*|big5\w*|euc-?\w+|shift[-_]?jis\w*|sjis|mac[-_]?\w+|tis-620|johab|hz)",
    re.IGNORECASE,
)
_HEADER_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_META_CHARSET = re.compile(rb"<meta[^>]{0,300}?charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_XML_CHARSET = re.compile(rb"^\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]+)", re.IGNORECASE)
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def _unescape(text: str) -> str:
    from html import unescape  # not above, as in `_escape`: its table of names takes much memory

    return unescape(text)


def _escape(text: str, *, quote: bool = True) -> str:
    from html import escape

    return escape(text, quote=quote)


def decode_page(body: bytes, content_type: str, *, cut: bool = False) -> str:
    """Decode a body by its byte order mark, its header or its declaration; if these are wrong, by trial."""
    named = _named_charsets(body, content_type)
    # Many servers declare Latin-1 for UTF-8 pages; Latin-1 text is rarely valid UTF-8.
    for name in ("utf-8", *named) if named[:1] == ["windows-1252"] else (*named, "utf-8"):
        try:
            return codecs.getincrementaldecoder(name)("strict").decode(body, final=not cut)
        except UnicodeError:
            continue
    return body.decode(named[0] if named else "windows-1252", "replace")


def _named_charsets(body: bytes, content_type: str) -> list[str]:
    for mark, name in _BYTE_ORDER_MARKS:
        if body.startswith(mark):
            return [name]
    start = body[:2_048]
    declared = [found[1] for found in [_HEADER_CHARSET.search(content_type)] if found]
    declared += [
        found[1].decode("ascii") for found in (_XML_CHARSET.search(start), _META_CHARSET.search(start)) if found
    ]
    return [
        name
        for name in map(_codec_name, declared)
        if name and (b"\0" in start or not name.startswith(("utf-16", "utf-32")))
    ]


def _codec_name(name: str) -> str | None:
    """Return Python's name of a known charset. Other codecs of Python are not text encodings, or are slow."""
    if not _CHARSETS.fullmatch(name):
        return None
    try:
        found = codecs.lookup(name).name
    except LookupError:
        return None
    return "windows-1252" if found in ("iso8859-1", "ascii") else found


def html_to_text(html: str) -> str:
    """Return the text of a page, one line per block."""
    lines = (" ".join(line.split()) for line in html_text(html[:MAX_HTML_CHARS]).split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def html_to_markdown(html: str) -> str:
    """Return a page as Markdown, without invisible content."""
    from markdownify import MarkdownConverter

    converter = MarkdownConverter(heading_style="ATX", bullets="-", keep_inline_images_in=["td", "th"])
    text: str = converter.convert(tidy_html(html[:MAX_HTML_CHARS]))
    lines = (line.rstrip() for line in text.split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


_MAX_DEPTH = 60
_MAX_TABLES = 3
"""Tables inside each other. The time of the conversion grows with the product of their sizes."""
_TABLE_TAGS = frozenset({"table", "thead", "tbody", "tfoot", "tr", "td", "th", "caption", "col", "colgroup"})
_TAG = re.compile(r"</?([a-zA-Z][a-zA-Z0-9:-]{0,40})")
_REST_OF_TAG = re.compile(r"""(?:[^>"']|"[^"]{0,2000}"|'[^']{0,2000}'){0,2000}>""")
_ATTRIBUTE = re.compile(
    r"""([a-zA-Z-]{1,40})\s{0,20}=\s{0,20}(?:"([^"]{0,2000})"|'([^']{0,2000})'|([^\s"'>]{1,2000}))"""
)

_VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
)
_RAW = frozenset({"script", "style", "textarea", "title", "xmp"})
_INVISIBLE = frozenset({"noscript", "template", "svg", "iframe", "object"})
_BLOCKS = frozenset(
    {
        *("address", "article", "aside", "blockquote", "body", "dd", "div", "dl", "dt", "fieldset", "figcaption"),
        *("figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "nav", "ol"),
        *("p", "pre", "section", "table", "tbody", "thead", "tr", "ul"),
    }
)
_CLOSES = {
    "li": frozenset({"li"}),
    "dt": frozenset({"dt", "dd"}),
    "dd": frozenset({"dt", "dd"}),
    "td": frozenset({"td", "th"}),
    "th": frozenset({"td", "th"}),
    "tr": frozenset({"tr"}),
    "tbody": frozenset({"thead", "tbody"}),
    "option": frozenset({"option"}),
}
"""Open tags that a start tag closes."""
_SCOPES = frozenset({"table", "ul", "ol", "dl", "select", "div", "section", "article", "blockquote"})
_KEPT_ATTRIBUTES = frozenset({"href", "src", "alt", "title", "start", "colspan"})


class HtmlToken(NamedTuple):
    """A text if `tag` is empty, else a start tag or an end tag."""

    text: str = ""
    tag: str = ""
    is_end: bool = False
    attributes: str = ""


def html_tokens(html: str) -> Iterator[HtmlToken]:
    """Yield tags and texts in order, without scripts, styles and comments."""
    at = 0
    while (start := html.find("<", at)) >= 0:
        if start > at:
            yield HtmlToken(html[at:start])
        if html.startswith(("<!", "<?"), start):
            close = "-->" if html.startswith("<!--", start) else ">"
            at = _after(html, close, start + 2)
        elif not (found := _TAG.match(html, start)):
            yield HtmlToken("<")
            at = start + 1
        else:
            rest = _REST_OF_TAG.match(html, found.end())
            end = rest.end() if rest else _after(html, ">", found.end())
            tag, is_end = found[1].lower(), html[start + 1] == "/"
            if tag in _RAW and not is_end:
                at = _after_raw(html, tag, end)
            else:
                yield HtmlToken(tag=tag, is_end=is_end, attributes=html[found.end() : end - 1])
                at = end
    if at < len(html):
        yield HtmlToken(html[at:])


def tidy_html(html: str) -> str:
    """Return the page with all tags closed."""
    writer = _Writer()
    for token in _visible_tokens(html):
        if not token.tag:
            writer.text(_unescape(token.text))
        elif token.is_end:
            writer.end(token.tag)
        else:
            writer.start(token.tag, token.attributes)
    return writer.result()


def html_text(html: str) -> str:
    """Return the texts, with a newline at the start and end of each block. Newlines of the source count in ``pre``."""
    out = []
    in_pre = False
    for token in _visible_tokens(html):
        if not token.tag:
            text = _unescape(token.text)
            out.append(text if in_pre else " ".join(text.splitlines()))
        elif token.tag in _BLOCKS or token.tag == "br":
            out.append("\n")
        in_pre = (not token.is_end) if token.tag == "pre" else in_pre
    return "".join(out)


def _visible_tokens(html: str) -> Iterator[HtmlToken]:
    hidden = 0
    for token in html_tokens(html):
        if token.tag in _INVISIBLE:
            hidden = max(0, hidden + (-1 if token.is_end else 1))
        elif not hidden:
            yield token


class _Writer:
    def __init__(self) -> None:
        self._out: list[str] = []
        self._open: list[str] = []
        self._dropped_tables = 0
        """Open tables that are not written, because they are nested too deeply."""

    def result(self) -> str:
        return "".join(self._out) + "".join(f"</{tag}>" for tag in reversed(self._open))

    def text(self, text: str) -> None:
        self._out.append(_escape(text, quote=False))

    def start(self, tag: str, attributes: str) -> None:
        self._end_implied(tag)
        if tag not in _VOID and len(self._open) >= _MAX_DEPTH:
            return
        if tag in _TABLE_TAGS and self._open.count("table") >= _MAX_TABLES and (tag == "table" or self._dropped_tables):
            self._dropped_tables += tag == "table"
            return
        kept = "".join(f' {name}="{_escape(value)}"' for name, value in _attributes(attributes))
        self._out.append(f"<{tag}{kept}>")
        if tag not in _VOID:
            self._open.append(tag)

    def end(self, tag: str) -> None:
        if tag in _TABLE_TAGS and self._dropped_tables:
            self._dropped_tables -= tag == "table"
            return
        while tag in self._open:
            last = self._open.pop()
            self._out.append(f"</{last}>")
            if last == tag:
                break

    def _end_implied(self, tag: str) -> None:
        """Close the tags that browsers close here: a paragraph before a block, an item before the next item."""
        if tag in _BLOCKS and "p" in self._open:
            self.end("p")
        closes = _CLOSES.get(tag, frozenset())
        for open_tag in reversed(self._open):
            if open_tag in closes:
                self.end(open_tag)
                return
            if open_tag in _SCOPES:
                return


def _attributes(text: str) -> Iterator[tuple[str, str]]:
    for name, double, single, bare in _ATTRIBUTE.findall(text):
        if name.lower() in _KEPT_ATTRIBUTES:
            yield name.lower(), _unescape(double or single or bare)


def _after(html: str, text: str, start: int) -> int:
    """Return the position after the next occurrence, or the end of the page."""
    found = html.find(text, start)
    return len(html) if found < 0 else found + len(text)


def _after_raw(html: str, tag: str, start: int) -> int:
    found = re.compile(f"</{tag}", re.IGNORECASE).search(html, start)
    return _after(html, ">", found.end()) if found else len(html)
