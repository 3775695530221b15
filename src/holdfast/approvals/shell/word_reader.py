"""Read the words, redirections and here-documents of a syntax tree, and find the commands inside them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from holdfast.approvals.shell.shell_commands import Command, Redirect
from holdfast.approvals.shell.shell_words import (
    ANY_GLOB,
    Arg,
    find_look_alike,
    join_parts,
    parse_ansi_quoted,
    parse_double_quoted,
    parse_unquoted,
)

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_GAP: Final = re.compile(rb"(?:[ \t\n]|\\\n)*")
_REDIRECTS: Final = frozenset({"file_redirect", "herestring_redirect", "heredoc_redirect"})
_EXPANSION_OPERATORS: Final = frozenset({":-", "-", ":+", "+", "%", "%%", "#", "##", "/", "//"})
SEPARATORS: Final = frozenset({";", "&", "&&", "||", "|", "|&", "\n", "(", ")", "{", "}", "!"})
_HIDDEN: Final = re.compile(r"(?<!\\)(?:`|\$[({\[])")
_PROCESS: Final = re.compile(r"[<>]\(")
"""In a pattern, which the parser takes for plain text, bash starts the commands inside."""
_HIDDEN_OR_QUOTE: Final = re.compile(r"(?<!\\)(?:[`\"]|\$[({\[])")
_SHAPES: Final = {
    "raw_string": re.compile(r"'[^']*'"),
    "ansi_c_string": re.compile(r"\$'(?:[^'\\]|\\.)*'", re.DOTALL),
    "string": re.compile(r"\".*\"", re.DOTALL),
    "simple_expansion": re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!_-])"),
    "expansion": re.compile(r"\$\{.*\}", re.DOTALL),
    "command_substitution": re.compile(r"\$\(.*\)|`.*`", re.DOTALL),
    "process_substitution": re.compile(r"[<>]\(.*\)", re.DOTALL),
}
_PLAIN_EXPANSION: Final = re.compile(r"\$\{#?([A-Za-z_][A-Za-z0-9_]*)(?:[#%]{1,2}[^$`{}\[]*)?\}")
_HEREDOC_START: Final = re.compile(rb"(?P<quote>['\"]?)(?P<word>[A-Za-z_][A-Za-z0-9_]*)(?P=quote)|\\(?P<escaped>\w+)")
_HIDDEN_BYTES: Final = re.compile(rb"(?<!\\)(?:`|\$[({\[])")
_BLANK_OR_OPERATOR: Final = re.compile(r"(?<!\\)(?:\\\\)*[ \t\n;&|<>()]|\n")


class WordReader:
    """Collects what one line does. Every syntax node that it does not expect makes the line unclear."""

    def __init__(self, parser: Parser) -> None:
        self._parser = parser
        self._source = b""
        self._commands: list[Command] = []
        self._redirects: list[Redirect] = []
        self._wrappers: dict[str, None] = {}
        self._globs: list[Arg] = []
        self._uncertain: dict[str, None] = {}
        self._unclear: dict[str, None] = {}
        self._cautions: dict[str, None] = {}
        self._depth = 0
        self._loops = 0
        self._posix = False

    def _statement(self, node: Node) -> None:
        raise NotImplementedError

    def _parts(self, node: Node) -> Iterator[Node]:
        """The children without comments. Text between them other than blanks makes the line unclear."""
        at, ended = node.start_byte, False
        for child in node.children:
            if ended and at == child.start_byte and child.is_named and child.type not in _REDIRECTS:
                self._mark_unclear("a redirection or an assignment could not be parsed")
            ended = child.type in _REDIRECTS or child.type == "variable_assignment"
            if not _GAP.fullmatch(self._source, at, child.start_byte):
                self._mark_unclear("part of the line could not be parsed")
            at = child.end_byte
            if child.is_error or child.is_missing:
                self._mark_unclear("the line is incomplete or not valid shell syntax")
            if not child.is_named and self._text(child.start_byte, child.end_byte).strip() != child.type.strip():
                self._mark_unclear(f"{child.type!r} within a word cannot be analysed")
            if child.type != "comment":
                yield child
            elif child.start_byte and self._source[child.start_byte - 1 : child.start_byte] not in b" \t\n;|&()":
                self._mark_unclear("a comment starts within a word")

    def _redirect(self, node: Node) -> list[Arg]:
        """Record the file. Returns words that belong to the command although the grammar puts them here."""
        operator = ""
        found: list[tuple[int, int, Arg]] = []
        for child in self._parts(node):
            if child.type == "file_descriptor":
                continue
            if child.is_named:
                found.append((child.start_byte, child.end_byte, self._word(child)))
            else:
                operator = child.type
        targets = self._join_adjacent(found)
        if operator in {">&-", "<&-"}:
            return targets
        if not targets or operator not in {"<", ">", ">>", ">|", "&>", "&>>", ">&", "<&"}:
            self._mark_unclear("a redirection cannot be analysed")
            return targets
        copies = operator in {">&", "<&"} and re.fullmatch(r"\d+-?|-", targets[0].text)
        if not copies:
            self._redirects.append(Redirect(targets[0], writes=operator not in {"<", "<&"}))
        return targets[1:]

    def _join_adjacent(self, words: list[tuple[int, int, Arg]]) -> list[Arg]:
        """Join words with nothing between them: the shell sees one word."""
        args: list[Arg] = []
        for at, (start, end, arg) in enumerate(words):
            if at and words[at - 1][1] == start:
                args[-1] = Arg(args[-1].text + self._text(start, end), "dynamic", globbed=(ANY_GLOB,))
            else:
                args.append(arg)
        return args

    def _word(self, node: Node) -> Arg:
        """Read a word, and record the commands inside it."""
        source = self._text(node.start_byte, node.end_byte)
        shape = _SHAPES.get(node.type)
        if shape and not shape.fullmatch(source):
            self._mark_unclear("a word could not be parsed")
            for child in node.named_children:
                self._find_commands(child)
            return Arg(source, "dynamic")
        match node.type:
            case "word" | "number":
                return self._unquoted(node, source)
            case "raw_string":
                return Arg(source[1:-1])
            case "ansi_c_string":
                return parse_ansi_quoted(source[2:-1])
            case "string":
                return self._string(node, source)
            case "concatenation":
                parts = [self._word(child) for child in node.children]
                if any(a.end_byte != b.start_byte for a, b in zip(node.children, node.children[1:], strict=False)):
                    self._mark_unclear("a word could not be parsed")
                return join_parts([_without_tilde(part) if at else part for at, part in enumerate(parts)], source)
            case "simple_expansion":
                return Arg(source, "dynamic", globbed=(source[1:],))
            case "expansion":
                self._expansion(node)
                plain = _PLAIN_EXPANSION.fullmatch(source)
                return Arg(source, "dynamic", globbed=(plain[1],) if plain else (ANY_GLOB,))
            case "command_substitution":
                self._substitution(node, source)
            case "process_substitution":
                self._statements_in(node, {"<(", ">(", ")"})
                return Arg(source, "stream")
            case "brace_expression":
                return Arg(source, "dynamic")
            case "arithmetic_expansion":
                self._mark_unclear("arithmetic can run commands")
                self._find_commands(node)
            case "$" if not node.is_named:
                pass
            case _:
                self._mark_unclear(f"{node.type.replace('_', ' ')} cannot be analysed")
                self._find_commands(node)
        return Arg(source, "dynamic", globbed=(ANY_GLOB,))

    def _unquoted(self, node: Node, source: str) -> Arg:
        if node.children:
            self._mark_unclear("a word could not be parsed")
            self._find_commands(node)
        if char := find_look_alike(source):
            self._mark_unclear(f"the line contains a character that looks like an ASCII one ({char})")
        if _HIDDEN.search(source) or _BLANK_OR_OPERATOR.search(source):
            self._mark_unclear("a word could not be parsed")
        return parse_unquoted(source, first=True)

    def _string(self, node: Node, source: str) -> Arg:
        """Read a double-quoted word: literal text between expansions."""
        dynamic, at, text = False, node.start_byte + 1, []
        for child in [child for child in node.named_children if child.type != "string_content"]:
            dynamic = True
            start = self._start_of_expansion(child)
            text.append(self._quoted(at, start))
            at = child.end_byte
            if start == child.start_byte:
                self._word(child)
            elif child.type == "command_substitution":
                self._substitution(child, self._text(start, child.end_byte))
        text.append(self._quoted(at, node.end_byte - 1))
        return Arg(source, "dynamic", one_word="@" not in source) if dynamic else Arg("".join(text))

    def _start_of_expansion(self, node: Node) -> int:
        """Where a node in a string starts. The grammar counts blanks between two expansions to the second one."""
        source = self._text(node.start_byte, node.end_byte)
        plain = source.lstrip(" \t\n")
        shape = _PLAIN_EXPANSION if node.type == "expansion" else _SHAPES.get(node.type)
        known = node.type in {"simple_expansion", "expansion", "command_substitution"} and shape is not None
        if known and shape and plain != source and shape.fullmatch(plain):
            return node.end_byte - len(plain.encode())
        return node.start_byte

    def _quoted(self, start: int, end: int) -> str:
        text = self._text(start, end)
        if _HIDDEN_OR_QUOTE.search(text.replace("\\\\", "")):
            self._mark_unclear("a quoted word could not be parsed")
        return parse_double_quoted(text)

    def _substitution(self, node: Node, source: str) -> None:
        if source.startswith("$(("):
            self._mark_unclear("arithmetic can run commands")
        if source.startswith("`") and "\\" in source:
            self._mark_unclear("escapes within backquotes cannot be analysed")
        self._statements_in(node, {"$(", "`", ")"})

    def _statements_in(self, node: Node, brackets: set[str]) -> None:
        for child in self._parts(node):
            if child.type == "file_redirect":
                if self._redirect(child):
                    self._mark_unclear("words after a redirection cannot be analysed")
            elif child.is_named:
                self._statement(child)
            elif child.type not in brackets | SEPARATORS:
                self._mark_unclear(f"{child.type!r} cannot be analysed")

    def _expansion(self, node: Node) -> None:
        """Accept only the forms of `${…}` that can neither assign nor evaluate.

        Single quotes inside do not quote if the whole is within double quotes or a here-document.
        """
        source = self._text(node.start_byte, node.end_byte)
        if re.search(r"['\\]", source) and re.search(r"[$`]", source[1:]):
            self._mark_unclear("quotes in an expansion cannot be analysed")
        for at, child in enumerate(node.children):
            if at and child.start_byte != node.children[at - 1].end_byte:
                self._mark_unclear("an expansion could not be parsed")
            match child.type:
                case "${" | "}" | "variable_name" | "special_variable_name":
                    pass
                case "#" if at == 1:
                    pass
                case "regex":
                    self._pattern(child)
                case kind if kind in _EXPANSION_OPERATORS and not child.is_named:
                    pass
                case "word" | "string" | "raw_string" | "concatenation" | "command_substitution" | "simple_expansion":
                    self._word(child)
                case "expansion":
                    self._expansion(child)
                case kind:
                    self._mark_unclear(f"{kind!r} in an expansion cannot be analysed")
                    self._find_commands(child)

    def _pattern(self, node: Node) -> None:
        text = self._text(node.start_byte, node.end_byte)
        if _HIDDEN.search(text) or _PROCESS.search(text):
            self._mark_unclear("a pattern cannot be analysed")
            self._find_commands(node)

    def _find_commands(self, node: Node) -> None:
        """Find commands in a part that cannot be analysed, so that deny rules see them."""
        if node.type in {"command_substitution", "process_substitution"}:
            self._word(node)
            return
        if node.type in {"command", "redirected_statement", "do_group", "compound_statement"}:
            self._statement(node)
            return
        for child in node.named_children:
            self._find_commands(child)

    def _text(self, start: int, end: int) -> str:
        return self._source[start:end].decode(errors="replace")

    def _mark_unclear(self, why: str) -> None:
        self._unclear[why] = None

    def _add_caution(self, what: str) -> None:
        self._cautions[what] = None


def _without_tilde(part: Arg) -> Arg:
    """The shell expands a tilde only at the start of a word."""
    return Arg(part.text, part.kind) if part.tilde else part


def check_heredoc(node: Node, source: bytes) -> str | None:
    """Why the grammar and the shell may disagree about a here-document; ``None`` if they agree.

    Where they disagree, the shell could run part of the body as code.
    """
    parts = {child.type: child for child in node.children}
    start, end = parts.get("heredoc_start"), parts.get("heredoc_end")
    found = _HEREDOC_START.fullmatch(source, start.start_byte, start.end_byte) if start else None
    if start is None or end is None or found is None:
        return "a here-document is incomplete or has an unusual delimiter"
    line_end = source.find(b"\n", start.end_byte)
    if line_end < 0 or source.count(b"<<", source.rfind(b"\n", 0, start.start_byte) + 1, line_end) > 1:
        return "several here-documents in one command cannot be analysed"
    if source[start.end_byte : start.end_byte + 1] not in b" \t\n":
        return "a here-document has an unusual delimiter"
    if re.search(rb"['\"`\\]", source[start.end_byte : line_end]):
        return "quotes after a here-document cannot be analysed"
    if not _fills_the_line(node, start, source, line_end):
        return "a command continues after a here-document"
    word = found["word"] or found["escaped"]
    body_end = _shell_end(source, line_end + 1, word, tabs="<<-" in parts)
    if body_end is None or body_end[1] != end.end_byte:
        return "the end of a here-document is ambiguous"
    literal = bool(found["quote"] or found["escaped"])
    return None if literal else _hidden_substitution(parts.get("heredoc_body"), source, line_end + 1, body_end[0])


def _fills_the_line(node: Node, start: Node, source: bytes, line_end: int) -> bool:
    """Whether the nodes after the delimiter cover the rest of that line, and nothing of the next."""
    at = start.end_byte
    for child in node.children:
        if child.start_byte < at or child.type in {"heredoc_body", "heredoc_end"}:
            continue
        if source[at : child.start_byte].strip(b" \t") or child.end_byte > line_end:
            return False
        at = child.end_byte
    return not source[at:line_end].strip(b" \t")


def _shell_end(source: bytes, at: int, word: bytes, *, tabs: bool) -> tuple[int, int] | None:
    """The start and the end of the line that closes the here-document for the shell."""
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


def _hidden_substitution(body: Node | None, source: bytes, start: int, end: int) -> str | None:
    """Why the body may contain a substitution that the grammar did not find; ``None`` if it does not."""
    seen = [child for child in body.named_children if child.type != "heredoc_content"] if body else []
    at = start
    for child in seen:
        if _HIDDEN_BYTES.search(source, at, child.start_byte):
            return "a substitution in a here-document could not be parsed"
        at = child.end_byte
    if b"\\" in source[start:end] and seen:
        return "escapes in a here-document cannot be analysed"
    return "a substitution in a here-document could not be parsed" if _HIDDEN_BYTES.search(source, at, end) else None
