"""Parse a command line with tree-sitter and find every command that it would run.

All parts are visited: pipes, lists, subshells, control flow, function bodies and substitutions, and scripts inside the
line (`sh -c '…'`). The grammar is not the shell, so only what is expected is trusted: an unknown node, operator or gap
makes the line *unclear*, and an unclear line needs approval. Commands found in an unclear line are still reported, so
that deny rules see them.
"""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from holdfast.approvals.shell.posix_subset import is_posix_subset
from holdfast.approvals.shell.shell_commands import (
    Argv,
    Command,
    CommandWithInner,
    InnerCommand,
    InnerScript,
    ParsedLine,
    Runner,
    UnknownInner,
)
from holdfast.approvals.shell.shell_words import Arg, Assign, changes_programs, has_glob, why_unreadable
from holdfast.approvals.shell.word_reader import SEPARATORS, WordReader, check_heredoc
from holdfast.approvals.shell.wrapper_commands import unwrap

if TYPE_CHECKING:
    import tree_sitter
    from tree_sitter import Node

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MAX_DEPTH: Final = 60
_MAX_TREE: Final = 100
_MAX_COMMANDS: Final = 200
_MAX_WORDS: Final = 64
_KEYWORDS: Final = frozenset(
    {
        *("if", "then", "else", "elif", "fi", "do", "done", "case", "esac", "while", "until", "for", "select", "in"),
        *("function", "coproc", "[[", "]]", "{", "}", "!", "((", "time", "[", "]"),
    }
)
_NESTING_NODES: Final = frozenset(
    {
        *("program", "list", "pipeline", "subshell", "compound_statement", "if_statement", "elif_clause"),
        *("else_clause", "while_statement", "do_group", "negated_command", "variable_assignments"),
    }
)
_SHELL_STATE_COMMANDS: Final = frozenset(
    {
        *("source", ".", "alias", "unalias", "trap", "enable", "shopt", "hash", "bind", "complete", "compgen"),
        *("compopt", "fc", "history", "mapfile", "readarray", "let", "read", "local", "getopts", "ulimit", "wait"),
        "exec",
    }
)
_ARITHMETIC_TESTS: Final = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_DIRECTORY_CHANGES: Final = frozenset({"cd", "pushd", "popd"})


class ShellParser:
    """Parses command lines. It loads tree-sitter on first use and may be used from several threads."""

    def __init__(self) -> None:
        self._parser: tree_sitter.Parser | None = None
        self._lock = threading.Lock()

    def parse(self, line: str) -> ParsedLine:
        """Find the commands of a line. It never raises: a line that cannot be parsed is unclear."""
        if problem := why_unreadable(line):
            return ParsedLine(unclear=(problem,))
        with self._lock:
            if self._parser is None:
                self._parser = _new_parser()
            try:
                return StatementReader(self._parser).line(line)
            except RecursionError:
                return ParsedLine(unclear=("the line is too deeply nested to analyse",))


def _new_parser() -> tree_sitter.Parser:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


class StatementReader(WordReader):
    """Visits every statement of one line."""

    def line(self, text: str) -> ParsedLine:
        self._script(text, ())
        return ParsedLine(
            commands=tuple(self._commands),
            redirects=tuple(self._redirects),
            wrappers=tuple(self._wrappers),
            globs=tuple(self._globs),
            uncertain=tuple(self._uncertain),
            unclear=tuple(self._unclear),
            cautions=tuple(self._cautions),
        )

    def _script(self, text: str, assigns: tuple[Assign, ...], *, posix: bool = False) -> None:
        """Visit a script. ``assigns`` apply to every command in it. ``posix``: another shell than bash may run it."""
        if problem := why_unreadable(text):
            self._mark_unclear(problem)
            return
        if posix and not is_posix_subset(text):
            self._mark_unclear("shells other than bash may read the script differently")
        outer, first, outer_posix = self._source, len(self._commands), self._posix
        self._posix = posix or outer_posix
        self._source = text.encode()
        root = self._parser.parse(self._source).root_node
        if root.has_error:
            self._mark_unclear("the line is incomplete or not valid shell syntax")
        if self._text(0, root.start_byte).strip() or self._text(root.end_byte, len(self._source)).strip():
            self._mark_unclear("part of the line could not be parsed")
        if _too_deep(root):
            self._mark_unclear("the line is too deeply nested to analyse")
        else:
            self._statement(root)
        self._source, self._posix = outer, outer_posix
        if assigns:
            self._commands[first:] = [_with_assigns(command, assigns) for command in self._commands[first:]]

    def _statement(self, node: Node) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH or len(self._commands) > _MAX_COMMANDS:
            self._mark_unclear("the line is too deeply nested or too long to analyse")
        else:
            self._statement_of_kind(node)
        self._depth -= 1

    def _statement_of_kind(self, node: Node) -> None:
        match node.type:
            case "command":
                self._command(node)
            case "redirected_statement":
                self._redirected(node)
            case "variable_assignment":
                self._assigned(self._assignment(node))
            case "declaration_command" | "unset_command":
                self._declaration(node)
            case "test_command":
                self._test(node)
            case "for_statement":
                self._for(node)
            case "case_statement":
                self._case(node)
            case "function_definition":
                self._function(node)
            case "while_statement":
                self._loops += 1
                self._nested(node)
                self._loops -= 1
            case kind if kind in _NESTING_NODES:
                self._nested(node)
            case kind:
                self._mark_unclear(f"{kind.replace('_', ' ')} cannot be analysed")
                self._find_commands(node)

    def _nested(self, node: Node) -> None:
        for child in self._parts(node):
            if child.is_named:
                self._statement(child)
            elif child.type not in SEPARATORS and child.type not in _KEYWORDS | {"then", "else"}:
                self._mark_unclear(f"{child.type!r} cannot be analysed")
            elif child.type == "((":
                self._mark_unclear("arithmetic can run commands")
            elif child.type in {"!", "{"} and self._source[child.end_byte : child.end_byte + 1] not in b" \t\n":
                self._mark_unclear(f"{child.type!r} within a word cannot be analysed")

    def _command(self, node: Node, *, more: tuple[Arg, ...] = ()) -> None:
        assigns: list[Assign] = []
        words: list[tuple[int, int, Arg]] = []
        late: list[Arg] = []
        for child in self._parts(node):
            match child.type:
                case "variable_assignment":
                    assigns.append(replace(self._assignment(child), exported=True))
                case "file_redirect":
                    late += self._redirect(child)
                case "herestring_redirect":
                    self._herestring(child)
                case "command_name":
                    words.append((child.start_byte, child.end_byte, self._word(child.children[0])))
                case _:
                    words.append((child.start_byte, child.end_byte, self._word(child)))
        argv = (*self._join_adjacent(words), *late, *more)
        self._run(argv, tuple(assigns))

    def _run(self, argv: Argv, assigns: tuple[Assign, ...]) -> None:
        """Record a command, without its wrappers, and the commands that it runs."""
        if not argv or not argv[0].literal or argv[0].tilde or not argv[0].text:
            self._mark_unclear("the program is not known before it runs" if argv else "a command has no name")
            self._commands.append(Command(argv or (Arg("", "dynamic"),), assigns))
            return
        name = argv[0].text
        if not name.isascii():
            self._mark_unclear(f"the program's name {name!r} contains look-alike characters")
        if name in _KEYWORDS - {"time", "["}:
            self._mark_unclear(f"{name!r} cannot be analysed")
        self._depth += 1
        if self._depth <= _MAX_DEPTH:
            self._unwrap(argv, assigns)
        else:
            self._mark_unclear("the line is too deeply nested to analyse")
        self._depth -= 1

    def _unwrap(self, argv: Argv, assigns: tuple[Assign, ...]) -> None:
        found = unwrap(argv)
        if isinstance(found, InnerCommand | InnerScript | CommandWithInner):
            self._wrappers[argv[0].text] = None
        match found:
            case InnerCommand(argv=inner, assigns=more):
                self._run(inner, (*assigns, *more))
            case InnerScript(text=text, posix=posix, login=login):
                if login:
                    self._mark_unclear("a login shell runs start-up files first, which may change what the line means")
                for assign in assigns:
                    self._add_caution(f"sets {assign.name} for a shell")
                self._script(text, assigns, posix=posix)
            case CommandWithInner() as command:
                if command.unclear:
                    self._mark_unclear(command.unclear)
                self._commands.append(Command(command.outer, assigns, directories=command.directories))
                for inner in command.inners:
                    self._run(inner, assigns)
                for text in command.scripts:
                    self._script(text, assigns)
            case Runner(name=name):
                may_run = self._may_run(argv)
                if name != argv[0].text:
                    named = StatementReader(self._parser)
                    named._depth = self._depth + 1
                    named._run((Arg(name), *argv[1:]), ())
                    may_run += tuple(command.argv for command in named._commands)
                self._commands.append(Command(argv, assigns, may_run=may_run))
            case UnknownInner(why=why):
                self._mark_unclear(why)
                self._commands.append(Command(argv, assigns, may_run=self._may_run(argv)))
            case None:
                self._plain(argv, assigns)

    def _plain(self, argv: Argv, assigns: tuple[Assign, ...]) -> None:
        name = argv[0].text
        if name in _SHELL_STATE_COMMANDS and not _reads_into_plain_names(argv):
            self._mark_unclear(f"{name!r} changes how the rest of the line is interpreted")
        if name in {"test", "[", "printf"} and any(arg.text.startswith(("-v", "-R")) for arg in argv[1:]):
            self._mark_unclear(f"{name!r} can evaluate a variable's name")
        if name == "test" and self._posix:
            self._arithmetic_test(list(argv[1:]))
        if name == "read":
            self._uncertain.update(dict.fromkeys(arg.text for arg in argv[1:]))
        if name in _DIRECTORY_CHANGES and (self._loops or name != "cd"):
            self._add_caution(f"{name!r} changes the directory in a way that cannot be analysed")
        self._commands.append(Command(argv, assigns))

    def _may_run(self, argv: Argv) -> tuple[Argv, ...]:
        """Every command that may start at a later word or be the text of one."""
        if len(argv) > _MAX_WORDS:
            self._mark_unclear(f"{argv[0].text!r} has too many words to analyse")
        starts = [argv[at:] for at in range(1, min(len(argv), _MAX_WORDS))]
        inner = StatementReader(self._parser)
        for arg in argv[1:]:
            if arg.literal and any(char in arg.text for char in " \t\n;|&") and self._depth < _MAX_DEPTH:
                inner._depth = self._depth + 1
                starts += [command.argv for command in inner.line(arg.text).commands]
        return tuple(starts)

    def _redirected(self, node: Node) -> None:
        body: Node | None = None
        more: list[Arg] = []
        for child in self._parts(node):
            match child.type:
                case "file_redirect":
                    more += self._redirect(child)
                case "herestring_redirect":
                    self._herestring(child)
                case "heredoc_redirect":
                    more += self._heredoc(child)
                case _ if body is None:
                    body = child
                case _:
                    self._mark_unclear("a redirection cannot be analysed")
        if body is not None and body.type == "command":
            self._command(body, more=tuple(more))
        elif body is not None:
            if more:
                self._mark_unclear("words after a redirection cannot be analysed")
            self._statement(body)
        elif more:
            self._run(tuple(more), ())

    def _herestring(self, node: Node) -> None:
        for child in self._parts(node):
            if child.is_named and child.type != "file_descriptor":
                self._word(child)

    def _heredoc(self, node: Node) -> list[Arg]:
        if problem := check_heredoc(node, self._source):
            self._mark_unclear(problem)
        if any(not child.is_named and child.text != child.type.encode() for child in node.children):
            self._mark_unclear("a here-document starts within a word")
        more: list[Arg] = []
        for child in node.children:
            match child.type:
                case "heredoc_body":
                    for inner in child.named_children:
                        if inner.type != "heredoc_content":
                            self._word(inner)
                case "heredoc_start" | "heredoc_end" | "<<" | "<<-" | "file_descriptor":
                    pass
                case "file_redirect":
                    more += self._redirect(child)
                case "pipeline":
                    self._nested(child)
                case "&&" | "||":
                    pass
                case "command" | "list" | "subshell" | "redirected_statement" | "test_command" | "compound_statement":
                    self._statement(child)
                case _ if child.is_named:
                    more.append(self._word(child))
                case kind:
                    self._mark_unclear(f"{kind!r} after a here-document cannot be analysed")
        return more

    def _assignment(self, node: Node) -> Assign:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        shown = self._text(name.start_byte, name.end_byte) if name else ""
        start = self._text(node.start_byte, value.start_byte if value else node.end_byte)
        if start not in {f"{shown}=", f"{shown}+="} or not _NAME.fullmatch(shown):
            self._mark_unclear("an assignment cannot be analysed")
            self._find_commands(node)
            return Assign("?", Arg("", "dynamic"))
        if value is None:
            return Assign(shown, Arg(""))
        if value.type != "array":
            arg = self._word(value)
            if not arg.literal or has_glob(arg.text):
                self._uncertain[shown] = None
            return Assign(shown, arg)
        self._uncertain[shown] = None
        for child in self._parts(value):
            if child.is_named:
                self._word(child)
        return Assign(shown, Arg(self._text(value.start_byte, value.end_byte), "dynamic"))

    def _assigned(self, assign: Assign) -> None:
        """Record that a variable is set for the rest of the line."""
        if not assign.harmless:
            self._add_caution(f"sets {assign.name} for the commands after it")

    def _declaration(self, node: Node) -> None:
        exported = (
            re.match(
                r"(?:declare|typeset|local|readonly)\s+-r*\s|readonly|unset", self._text(node.start_byte, node.end_byte)
            )
            is None
        )
        if not any(child.type in {"variable_assignment", "variable_name"} for child in node.children):
            self._add_caution("shows the variables of the environment")
        for child in self._parts(node):
            match child.type:
                case "variable_assignment":
                    self._assigned(replace(self._assignment(child), exported=exported))
                case "variable_name":
                    name = self._text(child.start_byte, child.end_byte)
                    if exported or changes_programs(name):
                        self._add_caution(f"changes {name} for the commands after it")
                case "export" | "declare" | "readonly" | "typeset" | "unset" | "local" | "unsetenv":
                    pass
                case "word" if re.fullmatch(r"-[xr]+", self._text(child.start_byte, child.end_byte)):
                    pass
                case _:
                    self._mark_unclear("a declaration cannot be analysed")
                    self._find_commands(child)

    def _test(self, node: Node) -> None:
        """Record `[ … ]` and `[[ … ]]` as the command `test`."""
        words: list[Arg] = []
        text = self._source[node.start_byte : node.end_byte]
        double = text.startswith(b"[[")
        if not re.fullmatch(rb"\[\[?[ \t\n].*[ \t\n]\]\]?", text, re.DOTALL):
            self._mark_unclear("a test could not be parsed")
        self._test_words(node, words, double=double)
        texts = [arg.text for arg in words]
        if {"-v", "-R"} & set(texts):
            self._mark_unclear("a test can evaluate a variable's name")
        if double or self._posix:
            self._arithmetic_test(words)
        self._commands.append(Command((Arg("[[" if double else "test"), *words)))

    def _arithmetic_test(self, words: list[Arg]) -> None:
        """Some shells evaluate the operands of ``-eq`` as arithmetic: bash in ``[[ … ]]``, Korn shells in any test."""
        if any(arg.text in _ARITHMETIC_TESTS for arg in words) and not all(_is_plain_number(arg) for arg in words):
            self._mark_unclear("arithmetic can run commands")

    def _test_words(self, node: Node, words: list[Arg], *, double: bool) -> None:
        for child in self._parts(node):
            match child.type:
                case "binary_expression" | "unary_expression" | "parenthesized_expression":
                    self._test_words(child, words, double=double)
                case "test_operator":
                    words.append(Arg(self._text(child.start_byte, child.end_byte)))
                case "regex" | "extglob_pattern":
                    self._pattern(child)
                    words.append(Arg(self._text(child.start_byte, child.end_byte), "stream"))
                case _ if child.is_named:
                    words.append(self._word(child))
                case "!" | "=" | "==" | "!=":
                    words.append(Arg(child.type))
                case "[" | "]" | "[[" | "]]":
                    pass
                case "(" | ")" | "&&" | "||" | "=~" | "<" | ">" if double:
                    pass
                case kind:
                    self._mark_unclear(f"{kind!r} in a test cannot be analysed")

    def _for(self, node: Node) -> None:
        self._loops += 1
        variable = ""
        for child in self._parts(node):
            match child.type:
                case "variable_name":
                    variable = self._text(child.start_byte, child.end_byte)
                    self._assigned(Assign(variable, Arg("", "dynamic")))
                case "do_group" | "compound_statement":
                    self._statement(child)
                case "for" | "in" | ";" | "\n":
                    pass
                case "select":
                    self._mark_unclear("'select' cannot be analysed")
                case _:
                    arg = self._word(child)
                    if not arg.literal or has_glob(arg.text):
                        self._globs.append(arg)
                    if arg.kind != "glob" and (arg.globbed or arg.one_word or has_glob(arg.text)):
                        self._uncertain[variable] = None
        self._loops -= 1

    def _case(self, node: Node) -> None:
        for child in self._parts(node):
            if child.type == "case_item":
                self._case_item(child)
            elif child.is_named:
                self._word(child)

    def _case_item(self, node: Node) -> None:
        body = False
        for child in self._parts(node):
            if child.type == ")":
                body = True
            elif child.is_named and body:
                self._statement(child)
            elif child.type in {"extglob_pattern", "regex"}:
                self._pattern(child)
            elif child.is_named:
                self._word(child)

    def _function(self, node: Node) -> None:
        name = node.child_by_field_name("name")
        shown = self._text(name.start_byte, name.end_byte) if name else "?"
        self._add_caution(f"defines the function {shown!r}")
        self._loops += 1
        for child in self._parts(node):
            if child.type == "file_redirect":
                self._redirect(child)
            elif child.is_named and child != name:
                self._statement(child)
        self._loops -= 1


def _with_assigns(command: Command, assigns: tuple[Assign, ...]) -> Command:
    return Command(command.argv, (*assigns, *command.assigns), command.may_run, command.directories)


def _too_deep(root: Node) -> bool:
    """Whether the tree is too deep to visit recursively."""
    cursor, depth = root.walk(), 0
    while True:
        if cursor.goto_first_child():
            depth += 1
            if depth > _MAX_TREE:
                return True
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return False
            depth -= 1


def _is_plain_number(arg: Arg) -> bool:
    return arg.literal and re.fullmatch(r"-?\d+|-\w+|!", arg.text) is not None


def _reads_into_plain_names(argv: Argv) -> bool:
    """Whether this is `read` into variables that no program uses."""
    return argv[0].text == "read" and all(
        arg.literal and (arg.text == "-r" or (arg.text.isidentifier() and not changes_programs(arg.text)))
        for arg in argv[1:]
    )
