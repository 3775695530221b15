"""A search program for machines without ripgrep, with Python's regular expressions.

It is a separate program (``python -m holdfast.tools.search.python_search``), because a regular expression can run
forever, and only a process can then be stopped. Its arguments are the query as JSON, the root, and the start below it.
It prints ``path NUL line-number separator text``, like ripgrep with ``--null``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from holdfast.errors import ToolError
from holdfast.tools.files.file_access import read_file
from holdfast.tools.search.glob_pattern import compile_glob
from holdfast.tools.search.ignore_rules import IgnoreRules, walk_tree
from holdfast.tools.text.text_file import decode_text, split_lines


class GrepQuery(msgspec.Struct, frozen=True):
    pattern: str
    ignore_case: bool = False
    literal: bool = False
    include: str | None = None
    context: int = 0
    width: int = 1_000


def compile_pattern(query: GrepQuery) -> re.Pattern[str]:
    pattern = re.escape(query.pattern) if query.literal else query.pattern
    return re.compile(pattern, re.IGNORECASE if query.ignore_case else 0)


def search_command(query: GrepQuery, *, root: Path, start: str) -> list[str]:
    """Return the command line. ``-P`` prevents imports from the current directory."""
    options = msgspec.json.encode(query).decode()
    return [sys.executable, "-P", "-m", "holdfast.tools.search.python_search", options, str(root), start]


def search_lines(query: GrepQuery, *, root: Path, start: str) -> Iterator[bytes]:
    """Yield an output line for each matching line and its context."""
    wanted = compile_pattern(query)
    for relative in _files(root, start, include=query.include):
        try:
            data = read_file(root / relative)
        except ToolError:
            continue
        found = decode_text(data) if data else None
        if found is not None:
            texts = [line.text for line in split_lines(found.text)]
            yield from (_line(relative, *shown, width=query.width) for shown in _matches(texts, wanted, query))
        elif data and relative == start and wanted.search(data.decode("latin-1")):  # as ripgrep says it
            yield f"{relative}: binary file matches (found a byte of no text)\n".encode("utf-8", "surrogateescape")


def _files(root: Path, start: str, *, include: str | None) -> Iterator[str]:
    if (root / start).is_file():
        yield start
        return
    wanted = compile_glob(include) if include else None
    prefix = f"{start}/" if start else ""
    for entry in walk_tree(root, start, IgnoreRules(root, open_path=start)):
        if entry.is_dir or entry.is_link:
            continue
        if wanted is None or wanted.fullmatch(entry.relative.removeprefix(prefix)):
            yield entry.relative


def _matches(texts: list[str], wanted: re.Pattern[str], query: GrepQuery) -> Iterator[tuple[int, str, str]]:
    hits = [number for number, text in enumerate(texts) if wanted.search(text)]
    marked = set(hits)
    around = sorted(
        {near for hit in hits for near in range(hit - query.context, hit + query.context + 1) if 0 <= near < len(texts)}
    )
    for number in around:
        yield number + 1, ":" if number in marked else "-", texts[number]


def _line(relative: str, number: int, mark: str, text: str, *, width: int) -> bytes:
    return f"{relative}\0{number}{mark}{text[:width]}\n".encode("utf-8", "surrogateescape")


def main(arguments: list[str]) -> int:
    options, root, start = arguments
    query = msgspec.json.decode(options, type=GrepQuery)
    try:
        compile_pattern(query)
    except re.error as error:
        sys.stderr.write(f"the regular expression is invalid: {error}\n")
        return 2
    found = False
    for answer in search_lines(query, root=Path(root), start=start):
        found = True
        sys.stdout.buffer.write(answer)
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
