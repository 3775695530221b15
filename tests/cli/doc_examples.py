"""The calls of `holdfast` in the help texts, in README.md and in docs/. Pure, apart from reading the files."""

import re
from collections.abc import Iterator
from pathlib import Path

from holdfast.cli.argument_parser import parser_of
from holdfast.cli.command_table import all_commands, overview

_ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"(?<!`)`([^`]*?\bholdfast\b[^`]*?)`(?!`)")
_CALL = re.compile(r"(?!from |import )(?:^|.*(?:[|;(]\s*|\s|=\S*\s))holdfast(?:\s|$)")


def documented_calls() -> dict[str, str]:
    """Every shell line that calls `holdfast`, and the first place that has it."""
    found: dict[str, str] = {}
    for place, line in _all_lines():
        found.setdefault(line, place)
    return found


def _all_lines() -> Iterator[tuple[str, str]]:
    yield from (("holdfast --help", line) for line in _help_lines(overview()))
    for name, command in all_commands().items():
        yield from ((f"holdfast {name} --help", line) for line in _help_lines(parser_of(command).epilog or ""))
    for path in (_ROOT / "README.md", *sorted((_ROOT / "docs").glob("*.md"))):
        yield from ((path.name, line) for line in _document_lines(path.read_text("utf-8")))


def _help_lines(text: str) -> Iterator[str]:
    """The examples of a help text, without their meanings."""
    for line in text.partition("examples:\n")[2].split("\n\n")[0].splitlines():
        yield re.split(r" {2,}", line.strip())[0]


def _document_lines(text: str) -> Iterator[str]:
    for language, body in _BLOCK.findall(text):
        for line in body.splitlines():
            call = re.sub(r"\s+#.*$", "", line).strip()
            if language in ("", "sh") and _CALL.match(call):
                yield call
    for inline in _INLINE.findall(_BLOCK.sub("", text)):
        call = " ".join(inline.split())
        if _CALL.match(call):
            yield call


def documented_file(section: str) -> str:
    """The example of a Markdown file in a section of docs/extensions.md."""
    text = (Path(__file__).parents[2] / "docs/extensions.md").read_text("utf-8")
    return text.partition(f"\n## {section}\n")[2].partition("```markdown\n")[2].partition("```\n")[0]
