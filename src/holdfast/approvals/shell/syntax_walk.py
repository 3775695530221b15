"""The walk over one line's syntax tree. One walk, one line; nested scripts (`sh -c '…'`) are walked by it as well."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from holdfast.approvals.shell.command_line import Command, Line
from holdfast.approvals.shell.heredoc import check_heredoc
from holdfast.approvals.shell.peeled_command import Argv, Branch, Opaque, Runner, Script, Through
from holdfast.approvals.shell.program_variables import changes_programs
from holdfast.approvals.shell.shell_words import Arg, Assign, not_readable
from holdfast.approvals.shell.word_walk import SEPARATORS, WordWalk
from holdfast.approvals.shell.wrappers import peel

if TYPE_CHECKING:
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
_NESTS: Final = frozenset(
    {
        *("program", "list", "pipeline", "subshell", "compound_statement", "if_statement", "elif_clause"),
        *("else_clause", "while_statement", "do_group", "negated_command", "variable_assignments"),
    }
)
_CHANGES_THE_SHELL: Final = frozenset(
    {
        *("source", ".", "alias", "unalias", "trap", "enable", "shopt", "hash", "bind", "complete", "compgen"),
        *(
            "compopt",
            "fc",
            "history",
            "mapfile",
            "readarray",
            "let",
            "read",
            "local",
            "getopts",
            "ulimit",
            "wait",
            "exec",
        ),
    }
)
_ARITHMETIC_TESTS: Final = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_DIRECTORY_CHANGES: Final = frozenset({"cd", "pushd", "popd"})


class Walk(WordWalk):
    """Follows every statement of one line."""

    def line(self, text: str) -> Line:
        self._script(text, ())
        return Line(
            commands=tuple(self._commands),
            redirects=tuple(self._redirects),
            globs=tuple(self._globs),
            unclear=tuple(self._unclear),
            cautions=tuple(self._cautions),
        )

    def _script(self, text: str, assigns: tuple[Assign, ...]) -> None:
        """Walk a text of its own; ``assigns`` hold for every command in it."""
        if problem := not_readable(text):
            self._doubt(problem)
            return
        outer, first = self._source, len(self._commands)
        self._source = text.encode()
        root = self._parser.parse(self._source).root_node
        if root.has_error:
            self._doubt("the line is not complete or not shell")
        if self._text(0, root.start_byte).strip() or self._text(root.end_byte, len(self._source)).strip():
            self._doubt("part of the line was not read")
        if _too_deep(root):
            self._doubt("the line is too deep to follow")
        else:
            self._statement(root)
        self._source = outer
        if assigns:
            self._commands[first:] = [_with_assigns(command, assigns) for command in self._commands[first:]]

    def _statement(self, node: Node) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH or len(self._commands) > _MAX_COMMANDS:
            self._doubt("the line is too deep or too long to follow")
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
                self._repeats += 1
                self._nested(node)
                self._repeats -= 1
            case kind if kind in _NESTS:
                self._nested(node)
            case kind:
                self._doubt(f"{kind.replace('_', ' ')} is not followed")
                self._inside(node)

    def _nested(self, node: Node) -> None:
        for child in self._parts(node):
            if child.is_named:
                self._statement(child)
            elif child.type not in SEPARATORS and child.type not in _KEYWORDS | {"then", "else"}:
                self._doubt(f"{child.type!r} is not followed")
            elif child.type == "((":
                self._doubt("arithmetic can run commands")
            elif child.type in {"!", "{"} and self._source[child.end_byte : child.end_byte + 1] not in b" \t\n":
                self._doubt(f"{child.type!r} within a word is not followed")

    def _command(self, node: Node, *, more: tuple[Arg, ...] = ()) -> None:
        assigns: list[Assign] = []
        words: list[tuple[int, int, Arg]] = []
        late: list[Arg] = []
        for child in self._parts(node):
            match child.type:
                case "variable_assignment":
                    assigns.append(self._assignment(child))
                case "file_redirect":
                    late += self._redirect(child)
                case "herestring_redirect":
                    self._herestring(child)
                case "command_name":
                    words.append((child.start_byte, child.end_byte, self._word(child.children[0])))
                case _:
                    words.append((child.start_byte, child.end_byte, self._word(child)))
        argv = (*self._touching(words), *late, *more)
        self._run(argv, tuple(assigns))

    def _run(self, argv: Argv, assigns: tuple[Assign, ...]) -> None:
        """A command with its words: take wrappers away, note what it runs."""
        if not argv or not argv[0].literal or argv[0].tilde or not argv[0].text:
            self._doubt("which program runs is not known" if argv else "a command has no name")
            self._commands.append(Command(argv or (Arg("", "dynamic"),), assigns))
            return
        name = argv[0].text
        if not name.isascii():
            self._doubt(f"the program's name {name!r} has look-alike characters")
        if name in _KEYWORDS - {"time", "["}:
            self._doubt(f"{name!r} is not followed")
        self._depth += 1
        self._peeled(argv, assigns) if self._depth <= _MAX_DEPTH else self._doubt("the line is too deep to follow")
        self._depth -= 1

    def _peeled(self, argv: Argv, assigns: tuple[Assign, ...]) -> None:
        match peel(argv):
            case Through(argv=inner, assigns=more):
                self._run(inner, (*assigns, *more))
            case Script(text=text):
                self._script(text, assigns)
            case Branch() as branch:
                if branch.unclear:
                    self._doubt(branch.unclear)
                self._commands.append(Command(branch.outer, assigns, dirs=branch.dirs))
                for inner in branch.inners:
                    self._run(inner, assigns)
                for text in branch.scripts:
                    self._script(text, assigns)
            case Runner():
                self._commands.append(Command(argv, assigns, also=self._may_run(argv)))
            case Opaque(why=why):
                self._doubt(why)
                self._commands.append(Command(argv, assigns, also=self._may_run(argv)))
            case None:
                self._plain(argv, assigns)

    def _plain(self, argv: Argv, assigns: tuple[Assign, ...]) -> None:
        name = argv[0].text
        if name in _CHANGES_THE_SHELL and not _reads_into_plain_names(argv):
            self._doubt(f"{name!r} changes what the rest of the line means")
        if name in {"test", "printf"} and any(arg.text.startswith(("-v", "-R")) for arg in argv[1:]):
            self._doubt(f"{name!r} can evaluate a variable's name")
        if name in _DIRECTORY_CHANGES and (self._repeats or name != "cd"):
            self._caution(f"{name!r} changes the directory in a way that is not followed")
        self._commands.append(Command(argv, assigns))

    def _may_run(self, argv: Argv) -> tuple[Argv, ...]:
        """Every command that could start at a later word, or stand in one."""
        if len(argv) > _MAX_WORDS:
            self._doubt(f"{argv[0].text!r} is given too many words to follow")
        starts = [argv[at:] for at in range(1, min(len(argv), _MAX_WORDS))]
        inner = Walk(self._parser)
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
                    self._doubt("a redirection is not followed")
        if body is not None and body.type == "command":
            self._command(body, more=tuple(more))
        elif body is not None:
            if more:
                self._doubt("words after a redirection are not followed")
            self._statement(body)
        elif more:
            self._run(tuple(more), ())

    def _herestring(self, node: Node) -> None:
        for child in self._parts(node):
            if child.is_named and child.type != "file_descriptor":
                self._word(child)

    def _heredoc(self, node: Node) -> list[Arg]:
        if problem := check_heredoc(node, self._source):
            self._doubt(problem)
        if any(not child.is_named and child.text != child.type.encode() for child in node.children):
            self._doubt("a here-document starts within a word")
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
                    self._doubt(f"{kind!r} after a here-document is not followed")
        return more

    def _assignment(self, node: Node) -> Assign:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        shown = self._text(name.start_byte, name.end_byte) if name else ""
        start = self._text(node.start_byte, value.start_byte if value else node.end_byte)
        if start not in {f"{shown}=", f"{shown}+="} or not _NAME.fullmatch(shown):
            self._doubt("an assignment is not followed")
            self._inside(node)
            return Assign("?", Arg("", "dynamic"))
        if value is None:
            return Assign(shown, Arg(""))
        if value.type != "array":
            return Assign(shown, self._word(value))
        for child in self._parts(value):
            if child.is_named:
                self._word(child)
        return Assign(shown, Arg(self._text(value.start_byte, value.end_byte), "dynamic"))

    def _assigned(self, assign: Assign) -> None:
        """A variable is set for the rest of the line."""
        if changes_programs(assign.name):
            self._caution(f"sets {assign.name} for the commands after it")

    def _declaration(self, node: Node) -> None:
        for child in self._parts(node):
            match child.type:
                case "variable_assignment":
                    self._assigned(self._assignment(child))
                case "variable_name":
                    name = self._text(child.start_byte, child.end_byte)
                    if changes_programs(name):
                        self._caution(f"changes {name} for the commands after it")
                case "export" | "declare" | "readonly" | "typeset" | "unset" | "local" | "unsetenv":
                    pass
                case "word" if re.fullmatch(r"-[xr]+", self._text(child.start_byte, child.end_byte)):
                    pass
                case _:
                    self._doubt("a declaration is not followed")
                    self._inside(child)

    def _test(self, node: Node) -> None:
        """`[ … ]` and `[[ … ]]`, as the command `test` with its words."""
        words: list[Arg] = [Arg("test")]
        text = self._source[node.start_byte : node.end_byte]
        double = text.startswith(b"[[")
        if not re.fullmatch(rb"\[\[?[ \t\n].*[ \t\n]\]\]?", text, re.DOTALL):
            self._doubt("a test was not read as one")
        self._test_words(node, words)
        texts = [arg.text for arg in words]
        if double and _ARITHMETIC_TESTS & set(texts) and not all(_plain_test(arg) for arg in words):
            self._doubt("arithmetic can run commands")
        self._run(tuple(words), ())

    def _test_words(self, node: Node, words: list[Arg]) -> None:
        for child in self._parts(node):
            match child.type:
                case "binary_expression" | "unary_expression" | "parenthesized_expression":
                    self._test_words(child, words)
                case "test_operator":
                    words.append(Arg(self._text(child.start_byte, child.end_byte)))
                case "regex" | "extglob_pattern":
                    self._pattern(child)
                    words.append(Arg(self._text(child.start_byte, child.end_byte), "stream"))
                case _ if child.is_named:
                    words.append(self._word(child))
                case "[" | "]" | "[[" | "]]" | "(" | ")" | "!" | "&&" | "||" | "=" | "==" | "!=" | "=~" | "<" | ">":
                    pass
                case kind:
                    self._doubt(f"{kind!r} in a test is not followed")

    def _for(self, node: Node) -> None:
        self._repeats += 1
        for child in self._parts(node):
            match child.type:
                case "variable_name":
                    self._assigned(Assign(self._text(child.start_byte, child.end_byte), Arg("", "dynamic")))
                case "do_group" | "compound_statement":
                    self._statement(child)
                case "for" | "in" | ";" | "\n":
                    pass
                case "select":
                    self._doubt("'select' is not followed")
                case _:
                    arg = self._word(child)
                    if arg.kind == "glob":
                        self._globs.append(arg)
        self._repeats -= 1

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
        self._caution(f"defines the function {shown!r}")
        self._repeats += 1
        for child in self._parts(node):
            if child.type == "file_redirect":
                self._redirect(child)
            elif child.is_named and child != name:
                self._statement(child)
        self._repeats -= 1


def _with_assigns(command: Command, assigns: tuple[Assign, ...]) -> Command:
    return Command(command.argv, (*assigns, *command.assigns), command.also, command.dirs)


def _too_deep(root: Node) -> bool:
    """Whether the tree is deeper than can be walked safely; found without recursion."""
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


def _plain_test(arg: Arg) -> bool:
    return arg.literal and re.fullmatch(r"-?\d+|-\w+|test", arg.text) is not None


def _reads_into_plain_names(argv: Argv) -> bool:
    """`read` into variables that no program listens to."""
    return argv[0].text == "read" and all(
        arg.literal and (arg.text == "-r" or (arg.text.isidentifier() and not changes_programs(arg.text)))
        for arg in argv[1:]
    )
