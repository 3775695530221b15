"""What a shell line needs to be allowed, and what of it is denied."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from holdfast.approvals.needs import CommandUse, Family, FileUse, Level, Need, denies_file
from holdfast.approvals.path_location import Places, is_stream
from holdfast.approvals.rule_patterns import CommandPattern
from holdfast.approvals.rule_suggestions import command_rule, file_rule
from holdfast.approvals.rules import Rule, Rules
from holdfast.approvals.shell.command_line import Command, Line, Redirect
from holdfast.approvals.shell.program_variables import changes_programs
from holdfast.approvals.shell.readonly_commands import Reads, only_reads, option_values
from holdfast.approvals.shell.shell_words import Arg, Assign
from holdfast.schema.base import Value

_MAX_DIRECTORIES: Final = 8


class Denied(Value, frozen=True):
    rule: str
    what: str


class LineJudge:
    """Judges one line: the directories it may be in while it runs, and each thing it does."""

    def __init__(self, line: Line, *, cwd: str, rules: Rules, places: Places, trusted: bool) -> None:
        self._line = line
        self._rules = rules
        self._places = places
        self._trusted = trusted
        self._cwds = self._directories(cwd)

    def judge(self) -> Denied | tuple[Need, ...]:
        """The deny rule that holds for any part, or everything that must be allowed."""
        if denied := self._denied():
            return denied
        needs = [Need(why, "unclear") for why in self._line.unclear]
        needs += [Need(why, "plain") for why in self._line.cautions]
        for command in self._line.commands:
            needs += self._command(command)
        for redirect in self._line.redirects:
            needs += self._redirect(redirect)
        for arg in self._line.globs:
            needs += self._reads_outside((arg,), None)
        return tuple(dict.fromkeys(needs))

    def _directories(self, cwd: str) -> tuple[str, ...]:
        """Every directory that a command of the line may run in."""
        found = [cwd]
        for command in self._line.commands:
            targets = command.argv[1:2] if command.name == "cd" else command.dirs
            for target in targets:
                if target.literal:
                    found += [self._places.resolve(target.text, cwd=at, tilde=target.tilde) for at in found]
                found = list(dict.fromkeys(found))[:_MAX_DIRECTORIES]
        return tuple(found)

    def _denied(self) -> Denied | None:
        for rule in self._rules.deny:
            if rule.speaks_of("bash"):
                if rule.pattern is None:
                    return Denied(rule.text, "bash")
                for command in self._line.commands:
                    if _denies_command(rule, command) == "yes":
                        return Denied(rule.text, _shown(command.argv))
            for path, family in self._named_files():
                if denies_file(rule, tool=family, family=family, path=path, places=self._places):
                    return Denied(rule.text, self._places.shown(path))
        return None

    def _named_files(self) -> list[tuple[str, str]]:
        """Files that the line is known to write or read."""
        found = [
            (path, "write" if redirect.writes else "view")
            for redirect in self._line.redirects
            for path in self._paths(redirect.target) or ()
        ]
        for command in self._line.commands:
            if reads := only_reads(command, trusted=True):
                found += [(path, "view") for arg in reads.files for path in self._paths(arg) or ()]
        return found

    def _command(self, command: Command) -> list[Need]:
        needs = [
            Need(f"{_shown(command.argv)} may be what the rule {rule.text!r} denies", "always")
            for rule in self._rules.deny
            if _denies_command(rule, command) == "maybe"
        ]
        for target in command.dirs:
            needs += self._reads_outside((target,), command)
        reads = only_reads(command, trusted=self._trusted)
        return needs + (self._only_reads(command, reads) if reads else self._runs(command))

    def _only_reads(self, command: Command, reads: Reads) -> list[Need]:
        return self._reads_outside(reads.files, command)

    def _reads_outside(self, files: tuple[Arg, ...], command: Command | None) -> list[Need]:
        needs = []
        for arg in files:
            paths = self._paths(arg)
            if paths is None:
                why = f"which files {arg.text!r} stands for is not known"
            elif outside := [path for path in paths if not self._places.may_read(path)]:
                why = f"{outside[0]} is outside of the workspace"
            else:
                continue
            at = _places_of(arg, command) if command else frozenset[int]()
            rule = command_rule(command.argv, named=at) if command and at else None
            use = CommandUse(command.argv, at) if command and at and paths is not None else None
            needs.append(Need(why, "outside", use, changes=False, rule=rule if use else None))
        return needs

    def _runs(self, command: Command) -> list[Need]:
        """A command that may do anything: it needs a rule, which must name what leads out of the workspace."""
        use = self._command_use(command, [assign for assign in command.assigns if changes_programs(assign.name)])
        if len(use.words) - len(command.argv) < len(command.assigns):
            use = replace(use, spelled=self._command_use(command, list(command.assigns)))
        needs = [need for arg in command.argv[1:] for need in self._may_change(arg)]
        rule = command_rule(use.words, named=use.outside)
        return [*needs, Need(_shown(use.words), "plain", use, rule=rule)]

    def _command_use(self, command: Command, assigns: list[Assign]) -> CommandUse:
        set_words = tuple(Arg(f"{assign.name}={assign.value.text}", assign.value.kind) for assign in assigns)
        words = (*set_words, *command.argv)
        outside = {
            at
            for at, arg in enumerate(words)
            for path in self._may_touch(arg, program=at == len(set_words))
            if not self._places.inside(path)
        }
        return CommandUse(words, frozenset(outside))

    def _may_change(self, arg: Arg) -> list[Need]:
        needs = [need for path in self._may_touch(arg, program=False) for need in self._may_write(path)]
        if arg.kind == "glob" and (what := self._places.glob_may_protect(arg)):
            needs.append(Need(f"{arg.text!r} may match {what}", "always"))
        return needs

    def _may_touch(self, arg: Arg, *, program: bool) -> list[str]:
        if program and "/" not in arg.text:
            return []
        args = [arg, *option_values(arg)] if arg.literal and arg.text.startswith("-") else [arg]
        return [path for each in args for path in self._paths(each) or ()]

    def _may_write(self, path: str) -> list[Need]:
        needs = []
        if what := self._places.protected(path):
            needs.append(Need(f"{self._places.shown(path)} is {what}", "always"))
        needs += [
            Need(f"{self._places.shown(path)} may be what the rule {rule.text!r} denies", "always")
            for rule in self._rules.deny
            if denies_file(rule, tool="write", family="write", path=path, places=self._places)
        ]
        return needs

    def _redirect(self, redirect: Redirect) -> list[Need]:
        if redirect.target.literal and is_stream(redirect.target.text):
            return []
        paths = self._paths(redirect.target)
        verb = "writes to" if redirect.writes else "reads"
        if paths is None:
            level: Level = "unclear" if redirect.writes else "outside"
            return [Need(f"which file it {verb} is not known", level, changes=redirect.writes)]
        needs: list[Need] = []
        for path in paths:
            inside, shown = self._places.inside(path), self._places.shown(path)
            if redirect.writes and (what := self._places.protected(path)):
                needs.append(Need(f"{verb} {shown}, which is {what}", "always"))
            elif redirect.writes or not self._places.may_read(path):
                family: Family = "write" if redirect.writes else "view"
                why = f"{verb} {shown}" + ("" if inside else ", which is outside of the workspace")
                use = FileUse(family, family, path)
                level = "edit" if inside else "outside"
                needs.append(Need(why, level, use, changes=redirect.writes, rule=file_rule(family, shown)))
        return needs

    def _paths(self, arg: Arg) -> tuple[str, ...] | None:
        """Where a word leads from every directory it may be used in."""
        found: dict[str, None] = {}
        for cwd in self._cwds:
            paths = self._places.leads_to(arg, cwd=cwd)
            if paths is None:
                return None
            found.update(dict.fromkeys(paths))
        return tuple(found)


def _denies_command(rule: Rule, command: Command) -> str:
    if not rule.speaks_of("bash") or not isinstance(rule.pattern, CommandPattern):
        return "no"
    found = {rule.pattern.compare(reading) for argv in (command.argv, *command.also) for reading in _readings(argv)}
    return "yes" if "yes" in found else "maybe" if "maybe" in found else "no"


def _readings(argv: tuple[Arg, ...]) -> list[tuple[Arg, ...]]:
    """A program named by its path is also the program of that name."""
    name = argv[0].text.rpartition("/")[2]
    return [argv] if name == argv[0].text else [argv, (Arg(name, argv[0].kind), *argv[1:])]


def _places_of(arg: Arg, command: Command) -> frozenset[int]:
    return frozenset(at for at, word in enumerate(command.argv) if word.literal and word.text.endswith(arg.text))


def _shown(words: tuple[Arg, ...]) -> str:
    text = " ".join(arg.text for arg in words)
    return text if len(text) <= 120 else text[:119] + "…"
