"""HTML as it comes: a reader that takes linear time on anything, and an order that later readers can rely on.

The standard library's parser takes minutes for some pages of a few hundred kilobytes, and converters recurse once per
open tag. Here a page becomes tokens in one pass, and is written again with every tag closed, nothing that is not
shown, and no deeper than a limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape, unescape
from typing import NamedTuple

_DEEPEST = 60
_TAG = re.compile(r"</?([a-zA-Z][a-zA-Z0-9:-]{0,40})")
_REST_OF_TAG = re.compile(r"""(?:[^>"']|"[^"]{0,2000}"|'[^']{0,2000}'){0,2000}>""")
_ATTRIBUTE = re.compile(
    r"""([a-zA-Z-]{1,40})\s{0,20}=\s{0,20}(?:"([^"]{0,2000})"|'([^']{0,2000})'|([^\s"'>]{1,2000}))"""
)

_VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
)
_RAW = frozenset({"script", "style", "textarea", "title", "xmp"})
_SILENT = frozenset({"noscript", "template", "svg", "iframe", "object"})
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
"""What a start tag ends that was left open."""
_SCOPES = frozenset({"table", "ul", "ol", "dl", "select", "div", "section", "article", "blockquote"})
_KEPT_ATTRIBUTES = frozenset({"href", "src", "alt", "title", "start", "colspan"})


class HtmlToken(NamedTuple):
    """Text if it has no tag, else the start or the end of one."""

    text: str = ""
    tag: str = ""
    is_end: bool = False
    attributes: str = ""


def html_tokens(html: str) -> Iterator[HtmlToken]:
    """The tags and texts of a page in order; scripts, styles and comments are left out."""
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
    """The page again, in order."""
    writer = _Writer()
    for token in _shown(html):
        if not token.tag:
            writer.text(unescape(token.text))
        elif token.is_end:
            writer.end(token.tag)
        else:
            writer.start(token.tag, token.attributes)
    return writer.result()


def html_text(html: str) -> str:
    """Only the texts, with a line's end where a block begins or ends; lines of the source count within ``pre``."""
    out = []
    in_pre = False
    for token in _shown(html):
        if not token.tag:
            text = unescape(token.text)
            out.append(text if in_pre else " ".join(text.splitlines()))
        elif token.tag in _BLOCKS or token.tag == "br":
            out.append("\n")
        in_pre = (not token.is_end) if token.tag == "pre" else in_pre
    return "".join(out)


def _shown(html: str) -> Iterator[HtmlToken]:
    silent = 0
    for token in html_tokens(html):
        if token.tag in _SILENT:
            silent = max(0, silent + (-1 if token.is_end else 1))
        elif not silent:
            yield token


class _Writer:
    def __init__(self) -> None:
        self._out: list[str] = []
        self._open: list[str] = []

    def result(self) -> str:
        return "".join(self._out) + "".join(f"</{tag}>" for tag in reversed(self._open))

    def text(self, text: str) -> None:
        self._out.append(escape(text, quote=False))

    def start(self, tag: str, attributes: str) -> None:
        self._end_implied(tag)
        if tag not in _VOID and len(self._open) >= _DEEPEST:
            return
        kept = "".join(f' {name}="{escape(value)}"' for name, value in _attributes(attributes))
        self._out.append(f"<{tag}{kept}>")
        if tag not in _VOID:
            self._open.append(tag)

    def end(self, tag: str) -> None:
        while tag in self._open:
            last = self._open.pop()
            self._out.append(f"</{last}>")
            if last == tag:
                break

    def _end_implied(self, tag: str) -> None:
        """End what this tag ends in every browser: an open paragraph before a block, an item before the next."""
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
            yield name.lower(), unescape(double or single or bare)


def _after(html: str, what: str, start: int) -> int:
    """The place after the next of these, or the page's end."""
    found = html.find(what, start)
    return len(html) if found < 0 else found + len(what)


def _after_raw(html: str, tag: str, start: int) -> int:
    found = re.compile(f"</{tag}", re.IGNORECASE).search(html, start)
    return _after(html, ">", found.end()) if found else len(html)
