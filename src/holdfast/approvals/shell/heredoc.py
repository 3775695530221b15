"""Here-documents, checked against the text itself: where the grammar and the shell disagree, a body could be code."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tree_sitter import Node

_START: Final = re.compile(rb"(?P<quote>['\"]?)(?P<word>[A-Za-z_][A-Za-z0-9_]*)(?P=quote)|\\(?P<escaped>\w+)")
_HIDDEN: Final = re.compile(rb"(?<!\\)(?:`|\$[({\[])")


def check_heredoc(node: Node, source: bytes) -> str | None:
    """Why a here-document cannot be trusted to be where the grammar sees it; ``None`` if it can."""
    parts = {child.type: child for child in node.children}
    start, end = parts.get("heredoc_start"), parts.get("heredoc_end")
    found = _START.fullmatch(source, start.start_byte, start.end_byte) if start else None
    if start is None or end is None or found is None:
        return "a here-document is not complete or has an odd delimiter"
    line_end = source.find(b"\n", start.end_byte)
    if line_end < 0 or source.count(b"<<", source.rfind(b"\n", 0, start.start_byte) + 1, line_end) > 1:
        return "several here-documents at once are not followed"
    if source[start.end_byte : start.end_byte + 1] not in b" \t\n":
        return "a here-document has an odd delimiter"
    if re.search(rb"['\"`\\]", source[start.end_byte : line_end]):
        return "quotes after a here-document are not followed"
    if not _fills_the_line(node, start, source, line_end):
        return "a command goes on over a here-document"
    word = found["word"] or found["escaped"]
    body_end = _shell_end(source, line_end + 1, word, tabs="<<-" in parts)
    if body_end is None or body_end[1] != end.end_byte:
        return "a here-document ends elsewhere than it seems"
    literal = bool(found["quote"] or found["escaped"])
    return None if literal else _hidden(parts.get("heredoc_body"), source, line_end + 1, body_end[0])


def _fills_the_line(node: Node, start: Node, source: bytes, line_end: int) -> bool:
    """Whether what follows the delimiter is all of that line, and nothing of the next."""
    at = start.end_byte
    for child in node.children:
        if child.start_byte < at or child.type in {"heredoc_body", "heredoc_end"}:
            continue
        if source[at : child.start_byte].strip(b" \t") or child.end_byte > line_end:
            return False
        at = child.end_byte
    return not source[at:line_end].strip(b" \t")


def _shell_end(source: bytes, at: int, word: bytes, *, tabs: bool) -> tuple[int, int] | None:
    """Where the shell sees the closing line: its start and its end."""
    while at <= len(source):
        stop = source.find(b"\n", at)
        stop = len(source) if stop < 0 else stop
        line = source[at:stop]
        if (line.lstrip(b"\t") if tabs else line) == word:
            return at, stop
        if stop == len(source):
            return None
        at = stop + 1
    return None


def _hidden(body: Node | None, source: bytes, start: int, end: int) -> str | None:
    """The body is expanded: nothing in it may look like a substitution that the grammar did not see."""
    seen = [child for child in body.named_children if child.type != "heredoc_content"] if body else []
    at = start
    for child in seen:
        if _HIDDEN.search(source, at, child.start_byte):
            return "a substitution in a here-document was not read"
        at = child.end_byte
    if b"\\" in source[start:end] and seen:
        return "escapes in a here-document are not followed"
    return "a substitution in a here-document was not read" if _HIDDEN.search(source, at, end) else None
