"""Judge a parsed line: find a deny rule that applies to it, or list the permissions that it needs."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from holdfast.approvals.permissions import CommandUse, FileAccess, FileUse, Level, Permission, denies_file
from holdfast.approvals.rule_patterns import CommandPattern
from holdfast.approvals.rule_suggestions import command_rule, file_rule
from holdfast.approvals.rules import Rule, Rules
from holdfast.approvals.shell.readonly_commands import only_reads, option_values
from holdfast.approvals.shell.shell_commands import Command, ParsedLine, Redirect
from holdfast.approvals.shell.shell_words import Arg, Assign, changes_programs
from holdfast.approvals.workspace_paths import WorkspacePaths, is_stream
from holdfast.schema.base import Value

_MAX_DIRECTORIES: Final = 8


class DeniedBy(Value, frozen=True):
    """A deny rule, and the part of the call that it applies to."""

    rule: str
    what: str


class LineJudge:
    """Judges one line. A word may name different files, because the line may change its directory."""

    def __init__(self, line: ParsedLine, *, cwd: str, rules: Rules, workspace: WorkspacePaths, trusted: bool) -> None:
        self._line = line
        self._rules = rules
        self._workspace = workspace
        self._trusted = trusted
        self._directories = self._possible_directories(cwd)

    def judge(self) -> DeniedBy | tuple[Permission, ...]:
        """The deny rule that applies to a part of the line, or all permissions that the line needs."""
        if denied := self._denied():
            return denied
        permissions = [Permission(why, "unclear") for why in self._line.unclear]
        permissions += [Permission(why, "plain") for why in self._line.cautions]
        for command in self._line.commands:
            permissions += self._command_permissions(command)
        for redirect in self._line.redirects:
            permissions += self._redirect_permissions(redirect)
        for arg in self._line.globs:
            permissions += self._outside_permissions((arg,), None)
        return tuple(dict.fromkeys(permissions))

    def _possible_directories(self, cwd: str) -> tuple[str, ...]:
        """Every directory in which a command of the line may run."""
        found = [cwd]
        for command in self._line.commands:
            targets = command.argv[1:2] if command.name == "cd" else command.directories
            for target in targets:
                if target.literal:
                    found += [self._workspace.resolve(target.text, cwd=at, tilde=target.tilde) for at in found]
                found = list(dict.fromkeys(found))[:_MAX_DIRECTORIES]
        return tuple(found)

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
            for redirect in self._line.redirects
            for path in self._paths(redirect.target) or ()
        ]
        for command in self._line.commands:
            if reads := only_reads(command, trusted=True):
                found += [(path, "view") for arg in reads.files for path in self._paths(arg) or ()]
        return found

    def _command_permissions(self, command: Command) -> list[Permission]:
        permissions = [
            Permission(f"{_display(command.argv)} may be denied by the rule {rule.text!r}", "always")
            for rule in self._rules.deny
            if _denies_command(rule, command) == "maybe"
        ]
        for target in command.directories:
            permissions += self._outside_permissions((target,), command)
        reads = only_reads(command, trusted=self._trusted)
        return permissions + (
            self._outside_permissions(reads.files, command) if reads else self._run_permissions(command)
        )

    def _outside_permissions(self, files: tuple[Arg, ...], command: Command | None) -> list[Permission]:
        """The permissions to read files outside the workspace, or files that are unknown."""
        permissions = []
        for arg in files:
            paths = self._paths(arg)
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

    def _run_permissions(self, command: Command) -> list[Permission]:
        """A command that may do anything needs a rule. The rule must name every file outside the workspace."""
        use = self._command_use(command, [assign for assign in command.assigns if changes_programs(assign.name)])
        if len(use.words) - len(command.argv) < len(command.assigns):
            use = replace(use, with_all_variables=self._command_use(command, list(command.assigns)))
        permissions = [permission for arg in command.argv[1:] for permission in self._change_permissions(arg)]
        rule = command_rule(use.words, named=use.outside)
        return [*permissions, Permission(_display(use.words), "plain", use, rule=rule)]

    def _command_use(self, command: Command, assigns: list[Assign]) -> CommandUse:
        set_words = tuple(Arg(f"{assign.name}={assign.value.text}", assign.value.kind) for assign in assigns)
        words = (*set_words, *command.argv)
        outside = {
            at
            for at, arg in enumerate(words)
            for path in self._possible_files(arg, program=at == len(set_words))
            if not self._workspace.contains(path)
        }
        return CommandUse(words, frozenset(outside))

    def _change_permissions(self, arg: Arg) -> list[Permission]:
        """The permissions for the protected or denied files that a word of a command may name."""
        permissions = [
            permission
            for path in self._possible_files(arg, program=False)
            for permission in self._write_permissions(path)
        ]
        if arg.kind == "glob" and (what := self._workspace.why_glob_protected(arg)):
            permissions.append(Permission(f"{arg.text!r} may match {what}", "always"))
        return permissions

    def _possible_files(self, arg: Arg, *, program: bool) -> list[str]:
        """The files that a word may name. ``program``: the word is the program; without a slash it is not a path."""
        if program and "/" not in arg.text:
            return []
        args = [arg, *option_values(arg)] if arg.literal and arg.text.startswith("-") else [arg]
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


def _positions_of(arg: Arg, command: Command) -> frozenset[int]:
    return frozenset(at for at, word in enumerate(command.argv) if word.literal and word.text.endswith(arg.text))


def _display(words: tuple[Arg, ...]) -> str:
    text = " ".join(arg.text for arg in words)
    return text if len(text) <= 120 else text[:119] + "…"
