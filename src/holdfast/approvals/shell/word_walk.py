"""The words of a syntax tree, and the commands that stand in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from holdfast.approvals.shell.command_line import Command, Redirect
from holdfast.approvals.shell.shell_words import Arg, ansi_quoted, bare, double_quoted, join, look_alike

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_GAP: Final = re.compile(rb"(?:[ \t\n]|\\\n)*")
_REDIRECTS: Final = frozenset({"file_redirect", "herestring_redirect", "heredoc_redirect"})
_EXPANSION_OPERATORS: Final = frozenset({":-", "-", ":+", "+", "%", "%%", "#", "##", "/", "//"})
SEPARATORS: Final = frozenset({";", "&", "&&", "||", "|", "|&", "\n", "(", ")", "{", "}", "!"})
_HIDDEN: Final = re.compile(r"(?<!\\)(?:`|\$[({\[])")
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
_BLANK_OR_OPERATOR: Final = re.compile(r"(?<!\\)(?:\\\\)*[ \t\n;&|<>()]|\n")


class WordWalk:
    """Collects what one line does. What it does not expect becomes a reason."""

    def __init__(self, parser: Parser) -> None:
        self._parser = parser
        self._source = b""
        self._commands: list[Command] = []
        self._redirects: list[Redirect] = []
        self._globs: list[Arg] = []
        self._unclear: dict[str, None] = {}
        self._cautions: dict[str, None] = {}
        self._depth = 0
        self._repeats = 0

    def _statement(self, node: Node) -> None:
        raise NotImplementedError

    def _parts(self, node: Node) -> Iterator[Node]:
        """The children, comments left out; anything between them but blanks is a doubt."""
        at, ended = node.start_byte, False
        for child in node.children:
            if ended and at == child.start_byte and child.is_named and child.type not in _REDIRECTS:
                self._doubt("a redirection or an assignment was not read to its end")
            ended = child.type in _REDIRECTS or child.type == "variable_assignment"
            if not _GAP.fullmatch(self._source, at, child.start_byte):
                self._doubt("part of the line was not read")
            at = child.end_byte
            if child.is_error or child.is_missing:
                self._doubt("the line is not complete or not shell")
            if not child.is_named and self._text(child.start_byte, child.end_byte).strip() != child.type.strip():
                self._doubt(f"{child.type!r} within a word is not followed")
            if child.type != "comment":
                yield child
            elif child.start_byte and self._source[child.start_byte - 1 : child.start_byte] not in b" \t\n;|&()":
                self._doubt("a comment starts within a word")

    def _redirect(self, node: Node) -> list[Arg]:
        """Note the file; give back words that the grammar hung onto the redirection but belong to the command."""
        operator = ""
        found: list[tuple[int, int, Arg]] = []
        for child in self._parts(node):
            if child.type == "file_descriptor":
                continue
            if child.is_named:
                found.append((child.start_byte, child.end_byte, self._word(child)))
            else:
                operator = child.type
        targets = self._touching(found)
        if operator in {">&-", "<&-"}:
            return targets
        if not targets or operator not in {"<", ">", ">>", ">|", "&>", "&>>", ">&", "<&"}:
            self._doubt("a redirection is not followed")
            return targets
        copies = operator in {">&", "<&"} and re.fullmatch(r"\d+-?|-", targets[0].text)
        if not copies:
            self._redirects.append(Redirect(targets[0], writes=operator not in {"<", "<&"}))
        return targets[1:]

    def _touching(self, words: list[tuple[int, int, Arg]]) -> list[Arg]:
        """Words with nothing between them are one word to the shell."""
        args: list[Arg] = []
        for at, (start, end, arg) in enumerate(words):
            if at and words[at - 1][1] == start:
                args[-1] = Arg(args[-1].text + self._text(start, end), "dynamic")
            else:
                args.append(arg)
        return args

    def _word(self, node: Node) -> Arg:
        """What a word stands for; commands inside it are noted on the way."""
        source = self._text(node.start_byte, node.end_byte)
        shape = _SHAPES.get(node.type)
        if shape and not shape.fullmatch(source):
            self._doubt("a word was not read as one")
            for child in node.named_children:
                self._inside(child)
            return Arg(source, "dynamic")
        match node.type:
            case "word" | "number":
                return self._bare(node, source)
            case "raw_string":
                return Arg(source[1:-1])
            case "ansi_c_string":
                return ansi_quoted(source[2:-1])
            case "string":
                return self._string(node, source)
            case "concatenation":
                pieces = [self._word(child) for child in node.children]
                if any(a.end_byte != b.start_byte for a, b in zip(node.children, node.children[1:], strict=False)):
                    self._doubt("a word was not read as one")
                return join([_not_first(piece) if at else piece for at, piece in enumerate(pieces)], source)
            case "simple_expansion":
                return Arg(source, "dynamic")
            case "expansion":
                self._expansion(node)
            case "command_substitution":
                self._substitution(node, source)
            case "process_substitution":
                self._nested_in(node, {"<(", ">(", ")"})
                return Arg(source, "stream")
            case "brace_expression":
                pass
            case "arithmetic_expansion":
                self._doubt("arithmetic can run commands")
                self._inside(node)
            case "$" if not node.is_named:
                pass
            case _:
                self._doubt(f"{node.type.replace('_', ' ')} is not followed")
                self._inside(node)
        return Arg(source, "dynamic")

    def _bare(self, node: Node, source: str) -> Arg:
        if node.children:
            self._doubt("a word was not read as one")
            self._inside(node)
        if char := look_alike(source):
            self._doubt(f"the line has a look-alike of a plain character ({char})")
        if _HIDDEN.search(source) or _BLANK_OR_OPERATOR.search(source):
            self._doubt("a word was not read as one")
        return bare(source, first=True)

    def _string(self, node: Node, source: str) -> Arg:
        """A double-quoted word: literal text between expansions."""
        dynamic, at, text = False, node.start_byte + 1, []
        for child in [child for child in node.named_children if child.type != "string_content"]:
            dynamic = True
            text.append(self._quoted(at, child.start_byte))
            at = child.end_byte
            self._word(child)
        text.append(self._quoted(at, node.end_byte - 1))
        return Arg(source, "dynamic") if dynamic else Arg("".join(text))

    def _quoted(self, start: int, end: int) -> str:
        text = self._text(start, end)
        if _HIDDEN_OR_QUOTE.search(text.replace("\\\\", "")):
            self._doubt("a quoted word was not read to its end")
        return double_quoted(text)

    def _substitution(self, node: Node, source: str) -> None:
        if source.startswith("`") and "\\" in source:
            self._doubt("escapes within backquotes are not followed")
        self._nested_in(node, {"$(", "`", ")"})

    def _nested_in(self, node: Node, brackets: set[str]) -> None:
        for child in self._parts(node):
            if child.type == "file_redirect":
                if self._redirect(child):
                    self._doubt("words after a redirection are not followed")
            elif child.is_named:
                self._statement(child)
            elif child.type not in brackets | SEPARATORS:
                self._doubt(f"{child.type!r} is not followed")

    def _expansion(self, node: Node) -> None:
        """`${…}`: only forms that can neither assign nor evaluate."""
        for at, child in enumerate(node.children):
            if at and child.start_byte != node.children[at - 1].end_byte:
                self._doubt("an expansion was not read as one")
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
                    self._doubt(f"{kind!r} in an expansion is not followed")
                    self._inside(child)

    def _pattern(self, node: Node) -> None:
        if _HIDDEN.search(self._text(node.start_byte, node.end_byte)):
            self._doubt("a pattern is not followed")
            self._inside(node)

    def _inside(self, node: Node) -> None:
        """Find commands in a part that is not understood, for the deny rules."""
        if node.type in {"command_substitution", "process_substitution"}:
            self._word(node)
            return
        if node.type in {"command", "redirected_statement", "do_group", "compound_statement"}:
            self._statement(node)
            return
        for child in node.named_children:
            self._inside(child)

    def _text(self, start: int, end: int) -> str:
        return self._source[start:end].decode(errors="replace")

    def _doubt(self, why: str) -> None:
        self._unclear[why] = None

    def _caution(self, what: str) -> None:
        self._cautions[what] = None


def _not_first(piece: Arg) -> Arg:
    return Arg(piece.text, piece.kind) if piece.tilde else piece
