"""Judge a parsed line: find a deny rule that applies to it, or list the permissions that it needs."""

from __future__ import annotations

import os
import re
from typing import Final

from msgspec.structs import replace

from holdfast.approvals.git_repository import repository_at, why_git_may_run_programs
from holdfast.approvals.permissions import CommandUse, FileAccess, FileUse, Level, Permission, denies_file
from holdfast.approvals.program_lookup import why_untrusted
from holdfast.approvals.rule_patterns import CommandPattern
from holdfast.approvals.rule_suggestions import command_rule, file_rule
from holdfast.approvals.rules import Rule, Rules
from holdfast.approvals.shell.option_parser import NotUnderstood
from holdfast.approvals.shell.readonly_commands import parse_read
from holdfast.approvals.shell.readonly_programs import BUILTINS
from holdfast.approvals.shell.shell_commands import Argv, Command, ParsedLine, Redirect
from holdfast.approvals.shell.shell_words import Arg, Assign, has_glob
from holdfast.approvals.shell.wrapper_commands import known_name
from holdfast.approvals.workspace_paths import WorkspacePaths, is_descriptor, is_stream
from holdfast.schema.approvals import Escalation
from holdfast.schema.base import Value

_MAX_DIRECTORIES: Final = 32
_MAX_UNKNOWN_OPTIONS: Final = 20
_PLAIN_VARIABLES: Final = frozenset(
    {
        "HOME",
        "USER",
        "LOGNAME",
        "PWD",
        "PATH",
        "SHELL",
        "LANG",
        "TERM",
        "HOSTNAME",
        "VIRTUAL_ENV",
        "?",
        "#",
        "$",
        "!",
        "UID",
    }
)


class DeniedBy(Value, frozen=True):
    """A deny rule, and the part of the call that it applies to."""

    rule: str
    what: str


class _FilesRead(Value, frozen=True):
    """A command that only reads, in every directory in which it may run."""

    words: tuple[tuple[Arg, tuple[str, ...] | None], ...]
    """Each word that names files, and their paths; ``None`` if they are not known."""
    directories_too: bool


class LineJudge:
    """Judges one line. A word may name different files, because the line may change its directory."""

    def __init__(
        self, line: ParsedLine, *, cwd: str, rules: Rules, workspace: WorkspacePaths, trusted: bool, search_path: str
    ) -> None:
        self._line = line
        self._rules = rules
        self._workspace = workspace
        self._trusted = trusted
        self._search_path = search_path
        self._directories, self._all_directories_known = self._possible_directories(cwd)
        self._redirects = _with_reopened(line.redirects)
        self._reads = tuple((command, self._files_read(command)) for command in line.commands)

    def judge(self) -> DeniedBy | tuple[Permission, ...]:
        """The deny rule that applies to a part of the line, or all permissions that the line needs."""
        if denied := self._denied():
            return denied
        permissions = [Permission(why, "unclear") for why in self._line.unclear]
        permissions += [Permission(why, "plain") for why in self._line.cautions]
        permissions += self._program_permissions()
        permissions += self._directory_permissions()
        for command, reads in self._reads:
            permissions += self._command_permissions(command, reads)
        for redirect in self._redirects:
            permissions += self._redirect_permissions(redirect)
        permissions += self._loop_permissions()
        if any(permission.changes for permission in permissions):
            permissions += self._changing_glob_permissions()
        return tuple(dict.fromkeys(permissions))

    def _loop_permissions(self) -> list[Permission]:
        """The words of a loop: globs, and unknown words in which the shell expands globs."""
        permissions: list[Permission] = []
        for arg in self._line.globs:
            if arg.kind == "glob":
                permissions += self._outside_permissions(((arg, self._paths(arg)),), None)
                names = [name for cwd in self._directories for name in self._workspace.expand_glob(arg, cwd=cwd) or ()]
                if any(has_glob(name) and name != arg.text for name in names):
                    permissions.append(_expands_unknown_globs(arg))
            elif self._expands_unknown_globs(arg):
                permissions.append(_expands_unknown_globs(arg))
        return permissions

    def _expands_unknown_globs(self, arg: Arg) -> bool:
        """Whether the shell may replace an unknown word by the names of any files.

        Variables of the environment count as plain text, but bash has some of its own that contain the line.
        """
        return any(
            name in self._line.uncertain or not ((name.islower() and name.isidentifier()) or name in _PLAIN_VARIABLES)
            for name in arg.globbed
        )

    def escalation_permissions(self, escalation: Escalation) -> tuple[Permission, ...]:
        """The permissions to run the line outside the sandbox. No mode gives them; a rule must cover every command."""
        why = "it runs without the sandbox" if escalation == "unconfined" else "it runs with the network"
        if self._line.unclear or not self._line.commands:
            return (Permission(why, "always"),)
        uses = [self._command_use(command, list(command.assigns)) for command in self._line.commands]
        return tuple(Permission(why, "always", replace(use, tool=escalation)) for use in uses)

    def _possible_directories(self, cwd: str) -> tuple[tuple[str, ...], bool]:
        """Every directory in which a command of the line may run, and whether these are all."""
        found = [cwd]
        for command in self._line.commands:
            if command.name == "cd":
                if any(not target.literal for target in command.argv[1:2]):
                    return tuple(found), False
                for target in command.argv[1:2]:
                    found += [path for at in found for path in self._workspace.directories_after(target, cwd=at)]
            for target in command.directories:
                if target.literal:
                    found += [self._workspace.resolve(target.text, cwd=at, tilde=target.tilde) for at in found]
            found = list(dict.fromkeys(found))
            if len(found) > _MAX_DIRECTORIES:
                return tuple(found[:_MAX_DIRECTORIES]), False
        return tuple(found), True

    def _directory_permissions(self) -> list[Permission]:
        permissions: list[Permission] = []
        if not self._all_directories_known:
            permissions.append(Permission("the directories that it changes to are not known before it runs", "unclear"))
        for directory in self._directories:
            path = os.path.realpath(directory)
            if not self._workspace.may_read(path):
                permissions.append(Permission(f"{path} is outside the workspace", "outside", changes=False))
        return permissions

    def _program_permissions(self) -> list[Permission]:
        """A program that is known by its name must be the one of the system, not one that the agent wrote."""
        names = {"bash", *(name for name in self._line.wrappers if name not in BUILTINS)}
        wrapped = bool(self._line.wrappers)
        for command, reads in self._reads:
            if isinstance(reads, _FilesRead) and (wrapped or command.name not in BUILTINS):
                names.add("test" if command.name == "[[" else command.name)
                names.update(("grep",) if command.name in {"egrep", "fgrep"} else ())
        found = {
            name: why_untrusted(name, search_path=self._search_path, workspace=self._workspace.root)
            for name in sorted(names)
        }
        return [Permission(f"{name!r} may be any program: {why}", "unclear") for name, why in found.items() if why]

    def _changing_glob_permissions(self) -> list[Permission]:
        """In a line that also changes something, a glob may match other files when it is its turn."""
        globs = [
            arg
            for command, reads in self._reads
            if isinstance(reads, _FilesRead)
            for arg in command.argv
            if arg.kind == "glob"
        ]
        return [
            Permission(f"the files that {arg.text!r} stands for may change before it runs", "outside", changes=False)
            for arg in globs
        ]

    def _files_read(self, command: Command) -> _FilesRead | NotUnderstood:
        """The files that a command reads; the word because of which it may do more than read."""
        words: list[tuple[Arg, tuple[str, ...] | None]] = []
        directories_too = True
        for cwd in self._directories:
            argv = self._expanded(command.argv, cwd)
            if argv is None:
                return NotUnderstood(0)
            parsed = parse_read(argv, command.assigns)
            if isinstance(parsed, NotUnderstood):
                return parsed if len(argv) == len(command.argv) else NotUnderstood(0)
            directories_too = directories_too and parsed.directories_too
            words += [(arg, self._workspace.paths_of(arg, cwd=cwd)) for arg in parsed.files]
            words += [(arg, self._workspace.paths_of(arg, cwd=cwd)) for arg in command.argv if arg.kind == "glob"]
        return _FilesRead(tuple(dict.fromkeys(words)), directories_too)

    def _expanded(self, argv: Argv, cwd: str) -> Argv | None:
        """The words with globs replaced by the names that they match; ``None`` if those are not known."""
        words: list[Arg] = []
        for arg in argv:
            if arg.kind != "glob":
                words.append(arg)
                continue
            names = self._workspace.expand_glob(arg, cwd=cwd)
            if names is None:
                return None
            words += [Arg(name) for name in names]
        return tuple(words)

    def _denied(self) -> DeniedBy | None:
        for rule in self._rules.deny:
            if rule.applies_to("bash"):
                if rule.pattern is None:
                    return DeniedBy(rule.text, "bash")
                for command in self._line.commands:
                    if _denies_command(rule, command) == "yes":
                        return DeniedBy(rule.text, _display(command.argv))
            for path, access in self._known_files():
                if denies_file(rule, tool=access, access=access, path=path, workspace=self._workspace):
                    return DeniedBy(rule.text, self._workspace.display(path))
        return None

    def _known_files(self) -> list[tuple[str, FileAccess]]:
        """The files that the line certainly writes or reads."""
        found: list[tuple[str, FileAccess]] = [
            (path, "write" if redirect.writes else "view")
            for redirect in self._redirects
            for path in self._paths(redirect.target) or ()
        ]
        for _, reads in self._reads:
            if isinstance(reads, _FilesRead):
                found += [(path, "view") for _, paths in reads.words for path in paths or ()]
        return found

    def _command_permissions(self, command: Command, reads: _FilesRead | NotUnderstood) -> list[Permission]:
        permissions = [
            Permission(f"{_display(command.argv)} may be denied by the rule {rule.text!r}", "always")
            for rule in self._rules.deny
            if _denies_command(rule, command) == "maybe"
        ]
        for target in command.directories:
            permissions += self._outside_permissions(((target, self._paths(target)),), command)
        if isinstance(reads, NotUnderstood):
            return permissions + self._run_permissions(command)
        if known_name(command.name) == "git" and (problem := self._why_git_is_not_neutral()):
            return [*permissions, *self._run_permissions(command, why=problem)]
        permissions += self._outside_permissions(reads.words, command)
        permissions += [_expands_unknown_globs(arg) for arg in command.argv if self._expands_unknown_globs(arg)]
        if not reads.directories_too:
            permissions += [
                Permission(f"{command.name!r} reads the files in {path}, also outside", "outside", changes=False)
                for _, paths in reads.words
                for path in paths or ()
                if os.path.isdir(path)
            ]
        return permissions

    def _why_git_is_not_neutral(self) -> str | None:
        """Why git may use another repository than the workspace's, or run programs that the repository names."""
        own = repository_at(self._workspace.root)
        for directory in self._directories:
            if (found := repository_at(directory)) not in {None, own}:
                return f"{found} is another repository"
        if own is not None and os.path.basename(own) != ".git":
            return f"{own} is a bare repository"
        return None if self._trusted else why_git_may_run_programs(self._workspace.root)

    def _outside_permissions(
        self, files: tuple[tuple[Arg, tuple[str, ...] | None], ...], command: Command | None
    ) -> list[Permission]:
        """The permissions to read files outside the workspace, or files that are unknown."""
        permissions = []
        for arg, paths in files:
            if paths is None:
                why = f"the files that {arg.text!r} stands for are not known before it runs"
            elif outside := [path for path in paths if not self._workspace.may_read(path)]:
                why = f"{outside[0]} is outside the workspace"
            else:
                continue
            at = _positions_of(arg, command) if command else frozenset[int]()
            rule = command_rule(command.argv, named=at) if command and at else None
            use = CommandUse(command.argv, at) if command and at and paths is not None else None
            permissions.append(Permission(why, "outside", use, changes=False, rule=rule if use else None))
        return permissions

    def _run_permissions(self, command: Command, *, why: str = "") -> list[Permission]:
        """A command that may do anything needs a rule. The rule must name every file outside the workspace."""
        use = self._command_use(command, [assign for assign in command.assigns if not assign.harmless])
        if len(use.words) - len(command.argv) < len(command.assigns):
            use = replace(use, with_all_variables=self._command_use(command, list(command.assigns)))
        permissions = [permission for arg in command.argv[1:] for permission in self._change_permissions(arg)]
        rule = command_rule(use.words, named=use.must_name)
        shown = f"{_display(use.words)} ({why})" if why else _display(use.words)
        return [*permissions, Permission(shown, "plain", use, rule=rule)]

    def _command_use(self, command: Command, assigns: list[Assign]) -> CommandUse:
        set_words = tuple(Arg(f"{assign.name}={assign.value.text}", assign.value.kind) for assign in assigns)
        words = (*set_words, *command.argv)
        outside = {
            at
            for at, arg in enumerate(words)
            if arg.kind == "dynamic"
            or any(
                not self._workspace.contains(path) for path in self._possible_files(arg, program=at == len(set_words))
            )
        }
        unknown = {at + len(set_words) for at in _unknown_options(command)}
        return CommandUse(words, frozenset(outside | unknown))

    def _change_permissions(self, arg: Arg) -> list[Permission]:
        """The permissions for the protected or denied files that a word of a command may name."""
        _, assigned, value = arg.text.partition("=")
        args = [arg, Arg(value)] if arg.literal and assigned and value else [arg]
        permissions = [
            permission
            for each in args
            for path in self._possible_files(each, program=False)
            for permission in self._write_permissions(path)
        ]
        if arg.kind == "glob" and (what := self._workspace.why_glob_protected(arg)):
            permissions.append(Permission(f"{arg.text!r} may match {what}", "always"))
        return permissions

    def _possible_files(self, arg: Arg, *, program: bool) -> list[str]:
        """The files that a word may name. ``program``: the word is the program; without a slash it is not a path."""
        if program and "/" not in arg.text:
            return []
        args = [arg, *_option_values(arg)] if arg.literal and arg.text.startswith("-") else [arg]
        return [path for each in args for path in self._paths(each) or ()]

    def _write_permissions(self, path: str) -> list[Permission]:
        permissions = []
        if what := self._workspace.why_protected(path):
            permissions.append(Permission(f"{self._workspace.display(path)} is {what}", "always"))
        permissions += [
            Permission(f"{self._workspace.display(path)} may be denied by the rule {rule.text!r}", "always")
            for rule in self._rules.deny
            if denies_file(rule, tool="write", access="write", path=path, workspace=self._workspace)
        ]
        return permissions

    def _redirect_permissions(self, redirect: Redirect) -> list[Permission]:
        if redirect.target.literal and is_stream(redirect.target.text):
            return []
        paths = self._paths(redirect.target)
        verb = "writes to" if redirect.writes else "reads"
        if paths is None:
            level: Level = "unclear" if redirect.writes else "outside"
            return [Permission(f"it {verb} a file that is not known before it runs", level, changes=redirect.writes)]
        permissions: list[Permission] = []
        for path in paths:
            inside, shown = self._workspace.contains(path), self._workspace.display(path)
            if redirect.writes and (what := self._workspace.why_protected(path)):
                permissions.append(Permission(f"{verb} {shown}, which is {what}", "always"))
            elif redirect.writes or not self._workspace.may_read(path):
                access: FileAccess = "write" if redirect.writes else "view"
                why = f"{verb} {shown}" + ("" if inside else ", which is outside the workspace")
                use = FileUse(access, access, path)
                level = "edit" if inside else "outside"
                permissions.append(Permission(why, level, use, changes=redirect.writes, rule=file_rule(access, shown)))
        return permissions

    def _paths(self, arg: Arg) -> tuple[str, ...] | None:
        """Every file that a word may name, in any of the line's directories."""
        found: dict[str, None] = {}
        for cwd in self._directories:
            paths = self._workspace.paths_of(arg, cwd=cwd)
            if paths is None:
                return None
            found.update(dict.fromkeys(paths))
        return tuple(found)


def _with_reopened(redirects: tuple[Redirect, ...]) -> tuple[Redirect, ...]:
    """The redirections of a line. One to a descriptor such as ``/dev/stdin`` writes the file that another one opens."""
    if not any(redirect.writes and is_descriptor(redirect.target.text) for redirect in redirects):
        return redirects
    return tuple(replace(redirect, writes=True) for redirect in redirects)


def _denies_command(rule: Rule, command: Command) -> str:
    if not rule.applies_to("bash") or not isinstance(rule.pattern, CommandPattern):
        return "no"
    found = {
        rule.pattern.compare(words) for argv in (command.argv, *command.may_run) for words in _with_plain_name(argv)
    }
    return "yes" if "yes" in found else "maybe" if "maybe" in found else "no"


def _with_plain_name(argv: tuple[Arg, ...]) -> list[tuple[Arg, ...]]:
    """The command, and the same command with the program's name instead of its path."""
    name = argv[0].text.rpartition("/")[2]
    return [argv] if name == argv[0].text else [argv, (Arg(name, argv[0].kind), *argv[1:])]


def _expands_unknown_globs(arg: Arg) -> Permission:
    why = f"{arg.text!r} may stand for the names of any files; quote it"
    return Permission(why, "outside", changes=False)


def _unknown_options(command: Command) -> set[int]:
    """The positions of words because of which a command that usually reads may do more. A rule must name them."""
    found: set[int] = set()
    at = list(range(len(command.argv)))
    while len(found) < _MAX_UNKNOWN_OPTIONS:
        parsed = parse_read(tuple(command.argv[position] for position in at), ())
        if not isinstance(parsed, NotUnderstood) or not 0 < parsed.position < len(at):
            break
        found.add(at.pop(parsed.position))
    return found


def _option_values(option: Arg) -> list[Arg]:
    """The texts in an option that may be file names: after ``=``, or after any letter of a short option."""
    text = option.text
    if text.startswith("--"):
        values = [text.partition("=")[2]]
    else:
        values = [text[at:] for at in range(2, min(len(text), 40))]
    return [Arg(value) for value in values if value and not re.fullmatch(r"[\d,.:+]*\d", value)]


def _positions_of(arg: Arg, command: Command) -> frozenset[int]:
    return frozenset(at for at, word in enumerate(command.argv) if word.literal and word.text.endswith(arg.text))


def _display(words: tuple[Arg, ...]) -> str:
    text = " ".join(arg.text for arg in words)
    return text if len(text) <= 120 else text[:119] + "…"
