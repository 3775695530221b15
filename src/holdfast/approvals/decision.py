"""The decision about one call: allow it, deny it, or ask for approval.

Order of precedence: a configured deny rule, an allow rule (configured or saved), a grant of this session, ask. A mode
changes only calls that would be asked about. `accept_edits` allows writing files inside the workspace. `auto` allows
everything that is not denied. `plan` denies everything that may change something. No mode allows, without asking, to
write a file outside the workspace with a file tool, or any file if the sandbox is read-only; to write git's own files,
Holdfast's configuration or start-up files; or to run a command to which a deny rule may apply. Directories that the
settings make writable for commands count as inside for file tools. A run that cannot ask is denied every call that
would be asked about.

A deny rule prevents honest mistakes. It is not a security boundary: a program that is allowed to run can do anything.
"""

from __future__ import annotations

import asyncio
from typing import TypeAlias

from holdfast.approvals.permissions import (
    FileAccess,
    FileUse,
    McpUse,
    Permission,
    ToolUse,
    UrlUse,
    covers,
    denies_file,
    matches_mcp_tool,
)
from holdfast.approvals.rule_patterns import PathPattern, TextPattern, UrlPattern
from holdfast.approvals.rule_suggestions import file_rule, url_rule
from holdfast.approvals.rules import Rule, Rules
from holdfast.approvals.shell.judge import DeniedBy, LineJudge
from holdfast.approvals.shell.shell_parser import ShellParser
from holdfast.approvals.workspace_paths import WorkspacePaths
from holdfast.schema.approvals import Subject
from holdfast.schema.base import Value
from holdfast.schema.runs import Mode


class Allow(Value, frozen=True, tag="allow"):
    why: str
    read_only: bool = False
    """Whether it is allowed because it changes nothing. Such a command runs in an environment that keeps it so."""


class Deny(Value, frozen=True, tag="deny"):
    why: str
    """Shown to the model and to the user."""
    rule: str | None = None
    """The deny rule that applies."""
    unasked: bool = False
    """Whether approval is needed and the run cannot ask for it."""


class Ask(Value, frozen=True, tag="ask"):
    why: str
    patterns: tuple[str, ...] = ()
    """The rules that the answers "session" and "always" save. If empty, only "once" and "deny" are possible."""


Verdict: TypeAlias = Allow | Deny | Ask


class Approver:
    """Decides about the calls of one workspace. It has no state except the shell parser and the resolved paths."""

    def __init__(self, workspace: WorkspacePaths) -> None:
        self._unresolved = workspace
        self._resolved: WorkspacePaths | None = None
        self._parser = ShellParser()

    async def consider(
        self,
        subject: Subject,
        *,
        mode: Mode,
        rules: Rules,
        trusted: bool,
        interactive: bool,
        readable: tuple[str, ...] = (),
        writable: tuple[str, ...] = (),
        read_only: bool = False,
        protected: tuple[str, ...] = (),
    ) -> Verdict:
        """Decide about a call in a thread, because `decide` reads the file system and parses commands."""
        return await asyncio.to_thread(
            self.decide,
            subject,
            mode=mode,
            rules=rules,
            trusted=trusted,
            interactive=interactive,
            readable=readable,
            writable=writable,
            read_only=read_only,
            protected=protected,
        )

    def decide(
        self,
        subject: Subject,
        *,
        mode: Mode,
        rules: Rules,
        trusted: bool,
        interactive: bool,
        readable: tuple[str, ...] = (),
        writable: tuple[str, ...] = (),
        read_only: bool = False,
        protected: tuple[str, ...] = (),
    ) -> Verdict:
        """Decide about a call in the caller's thread.

        ``readable`` are directories that its session may also read, ``writable`` those that the sandbox lets commands
        write. ``read_only``: the sandbox forbids all writes. ``protected``: files that hooks run.
        """
        workspace = self._resolved = self._resolved or self._unresolved.real()
        workspace = workspace.with_directories(readable=readable, writable=() if read_only else writable)
        workspace = workspace.with_hook_programs(protected)
        found: DeniedBy | tuple[Permission, ...]
        if subject.command is not None:
            line = self._parser.parse(subject.command)
            cwd = subject.cwd or workspace.root
            judge = LineJudge(
                line, cwd=cwd, rules=rules, workspace=workspace, trusted=trusted, search_path=subject.search_path
            )
            found = judge.judge()
            if subject.escalation is not None and not isinstance(found, DeniedBy):
                found = (*judge.escalation_permissions(subject.escalation), *found)
        else:
            found = _denied(subject, rules, workspace) or _needed(subject, workspace, read_only=read_only)
        if isinstance(found, DeniedBy):
            return Deny(f"{found.what!r} is denied by the rule {found.rule!r}", found.rule)
        return _decide_permissions(found, mode=mode, rules=rules, workspace=workspace, interactive=interactive)


def _decide_permissions(
    needed: tuple[Permission, ...], *, mode: Mode, rules: Rules, workspace: WorkspacePaths, interactive: bool
) -> Verdict:
    if mode == "plan" and (changing := next((permission for permission in needed if permission.changes), None)):
        return Deny(f"the run is in plan mode and may not change anything: {changing.why}")
    deny_may_apply = any(rule.applies_to("bash") or rule.applies_to("write") for rule in rules.deny)
    not_given = [
        permission for permission in needed if not _given_by_mode(permission, mode, deny_may_apply=deny_may_apply)
    ]
    covering = [(permission, _covering_rule(permission, rules, workspace)) for permission in not_given]
    if missing := [permission for permission, rule in covering if rule is None]:
        return _ask(missing, interactive=interactive)
    if not needed:
        return Allow("it changes nothing", read_only=True)
    read_only = not any(permission.changes for permission in needed)
    if not not_given:
        return Allow(f"the mode is {mode}", read_only)
    names = ", ".join(dict.fromkeys(repr(rule.text) for _, rule in covering if rule))
    return Allow(f"allowed by {names}", read_only)


def _given_by_mode(permission: Permission, mode: Mode, *, deny_may_apply: bool) -> bool:
    if mode == "auto":
        return permission.level != "always" and not (permission.level == "unclear" and deny_may_apply)
    return mode == "accept_edits" and permission.level == "edit"


def _covering_rule(permission: Permission, rules: Rules, workspace: WorkspacePaths) -> Rule | None:
    use = permission.use
    if use is None:
        return None
    return next((rule for rule in (*rules.allow, *rules.grants) if covers(rule, use, workspace=workspace)), None)


def _ask(missing: list[Permission], *, interactive: bool) -> Ask | Deny:
    if not interactive:
        told = "; ".join(dict.fromkeys(permission.told or permission.why for permission in missing))
        return Deny(f"this needs approval, and this run cannot ask for it: {told}", unasked=True)
    why = "; ".join(dict.fromkeys(permission.why for permission in missing))
    rules = [permission.rule for permission in missing]
    patterns = tuple(dict.fromkeys(rule for rule in rules if rule is not None))
    return Ask(why, patterns if None not in rules else ())


def _denied(subject: Subject, rules: Rules, workspace: WorkspacePaths) -> DeniedBy | None:
    access: FileAccess = "view" if subject.effect == "reads" else "write"
    for rule in rules.deny:
        if any(
            denies_file(rule, tool=subject.tool, access=access, path=path, workspace=workspace)
            for path in subject.paths
        ):
            return DeniedBy(rule.text, subject.title)
        if subject.definition and matches_mcp_tool(rule, subject.tool, definition=subject.definition):
            return DeniedBy(rule.text, subject.tool)
        if rule.applies_to(subject.tool) and _denies_rest(rule, subject):
            return DeniedBy(rule.text, subject.title)
    return None


def _denies_rest(rule: Rule, subject: Subject) -> bool:
    """Whether a deny rule for this tool applies to anything but its files."""
    match rule.pattern:
        case None:
            return True
        case UrlPattern() as pattern:
            return subject.url is not None and pattern.matches(subject.url)
        case TextPattern() as pattern:
            return pattern.matches(subject.title)
        case PathPattern() | _:
            return False


def _needed(subject: Subject, workspace: WorkspacePaths, *, read_only: bool) -> tuple[Permission, ...]:
    """The permissions that a call needs, for every tool except the shell."""
    if subject.definition:
        return (_mcp(subject),)
    match subject.effect:
        case "none":
            return ()
        case "reads":
            return tuple(_files(subject, "view", workspace, read_only=read_only))
        case "writes":
            written = _files(subject, "write", workspace, read_only=read_only)
            return (*written, *_network(subject)) if subject.url else tuple(written) or (_tool(subject, changes=True),)
        case "network":
            return (*_network(subject), *_files(subject, "write", workspace, read_only=read_only))
        case "runs":
            return (_tool(subject, changes=True),)


def _files(subject: Subject, access: FileAccess, workspace: WorkspacePaths, *, read_only: bool) -> list[Permission]:
    return [
        permission
        for path in subject.paths
        for permission in _file(subject.tool, access, path, workspace, read_only=read_only)
    ]


def _file(tool: str, access: FileAccess, path: str, workspace: WorkspacePaths, *, read_only: bool) -> list[Permission]:
    path = workspace.resolve(path, cwd=workspace.root)
    shown, writes = workspace.display(path), access == "write"
    inside = workspace.may_write(path) if writes else workspace.contains(path)
    if writes and (what := workspace.why_protected(path)):
        return [Permission(f"{shown} is {what}", "always")]
    if not writes and workspace.may_read(path):
        return []
    use, rule = FileUse(tool, access, path), file_rule(access, shown)
    if not inside:
        # No mode gives a write outside. A model that is denied learns nothing about where the path leads.
        why, told = f"{shown} is outside the workspace", "the path is outside the workspace"
        return [Permission(why, "always" if writes else "outside", use, changes=writes, rule=rule, told=told)]
    if writes and read_only:
        return [Permission(f"{shown} would be written, and the sandbox is read-only", "always", use, rule=rule)]
    return [Permission(shown, "edit", use, changes=writes, rule=rule)]


def _network(subject: Subject) -> tuple[Permission, ...]:
    if subject.url is None:
        return (_tool(subject, changes=False),)
    use = UrlUse(subject.tool, subject.url)
    rule = url_rule(subject.tool, subject.url)
    return (Permission(f"reaches {subject.url}", "plain", use, changes=False, rule=rule),)


def _mcp(subject: Subject) -> Permission:
    """What a server says about its tool is a hint: it decides what plan mode offers, but every call needs approval."""
    use, rule = McpUse(subject.tool, subject.definition), f"mcp: {subject.tool}#{subject.definition}"
    return Permission(subject.title, "plain", use, changes=subject.effect != "network", rule=rule)


def _tool(subject: Subject, *, changes: bool) -> Permission:
    return Permission(subject.title, "plain", ToolUse(subject.tool, subject.title), changes=changes, rule=subject.tool)
