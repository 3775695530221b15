"""The decision about one call: allow, deny, or ask a person.

Order: a configured deny > a rule that was configured or saved > a grant of this session > ask. Modes change only what
would be asked: `accept_edits` lets files inside the workspace be written, `auto` lets everything happen but what is
denied, `plan` denies whatever may change something. Never lifted, in no mode: writes to git's own files, to Holdfast's
configuration and to start-up files, and commands of which it cannot be told whether a deny rule holds. A run that
cannot ask is denied what would be asked.

A deny rule is a fence for honest mistakes, not a wall: a program that is allowed to run can do what it likes.
"""

from __future__ import annotations

from typing import TypeAlias

from holdfast.approvals.needs import Family, FileUse, Need, ToolUse, UrlUse, covers, denies_file
from holdfast.approvals.path_location import Places
from holdfast.approvals.rule_patterns import PathPattern, TextPattern, UrlPattern
from holdfast.approvals.rule_suggestions import file_rule, url_rule
from holdfast.approvals.rules import Rule, Rules
from holdfast.approvals.shell.command_line import Line
from holdfast.approvals.shell.judge import Denied, LineJudge
from holdfast.schema.approvals import Subject
from holdfast.schema.base import Value
from holdfast.schema.runs import Mode


class Allow(Value, frozen=True, tag="allow"):
    why: str


class Deny(Value, frozen=True, tag="deny"):
    why: str
    """For the model and the person."""
    rule: str | None = None


class Ask(Value, frozen=True, tag="ask"):
    why: str
    patterns: tuple[str, ...] = ()
    """What "session" or "always" would save, exactly. Empty: only "once" and "deny" can be answered."""


Verdict: TypeAlias = Allow | Deny | Ask


def decide(
    subject: Subject,
    *,
    line: Line | None,
    mode: Mode,
    rules: Rules,
    places: Places,
    trusted: bool = True,
    interactive: bool = True,
) -> Verdict:
    """Decide about a call. ``line`` is the subject's command, read. Symlinks are followed through ``places``."""
    if subject.command is not None:
        judge = LineJudge(
            line or Line(unclear=("the line was not read",)),
            cwd=subject.cwd or places.workspace,
            rules=rules,
            places=places,
            trusted=trusted,
        )
        found = judge.judge()
    else:
        found = _denied(subject, rules, places) or _needs(subject, places)
    if isinstance(found, Denied):
        return Deny(f"{found.what!r} is denied by the rule {found.rule!r}", found.rule)
    if mode == "plan" and (changing := next((need for need in found if need.changes), None)):
        return Deny(f"this run only plans, nothing may be changed: {changing.why}")
    hides = any(rule.speaks_of("bash") or rule.speaks_of("write") for rule in rules.deny)
    asked = [need for need in found if not _lifted(need, mode, hides=hides)]
    open_needs = [need for need in asked if not _covered(need, rules, places)]
    if open_needs:
        return _ask(open_needs, interactive=interactive)
    return Allow(_why_allowed(found, asked, mode, rules, places))


def _lifted(need: Need, mode: Mode, *, hides: bool) -> bool:
    if mode == "auto":
        return need.level != "always" and not (need.level == "unclear" and hides)
    return mode == "accept_edits" and need.level == "edit"


def _covered(need: Need, rules: Rules, places: Places) -> bool:
    return _covering(need, (*rules.allow, *rules.grants), places) is not None


def _covering(need: Need, rules: tuple[Rule, ...], places: Places) -> Rule | None:
    if need.use is None:
        return None
    use = need.use
    return next((rule for rule in rules if covers(rule, use, places=places)), None)


def _ask(needs: list[Need], *, interactive: bool) -> Ask | Deny:
    why = "; ".join(dict.fromkeys(need.why for need in needs))
    if not interactive:
        return Deny(f"it would have to be asked, and nobody can be asked in this run: {why}")
    rules = [need.rule for need in needs]
    patterns = tuple(dict.fromkeys(rule for rule in rules if rule is not None))
    return Ask(why, patterns if None not in rules else ())


def _why_allowed(found: tuple[Need, ...], asked: list[Need], mode: Mode, rules: Rules, places: Places) -> str:
    if not found:
        return "it changes nothing"
    if not asked:
        return f"the mode is {mode}"
    covering = [_covering(need, (*rules.allow, *rules.grants), places) for need in asked]
    return "allowed by " + ", ".join(dict.fromkeys(repr(rule.text) for rule in covering if rule))


def _denied(subject: Subject, rules: Rules, places: Places) -> Denied | None:
    for rule in rules.deny:
        if any(_denies_path(rule, subject, path, places) for path in subject.paths):
            return Denied(rule.text, subject.title)
        if rule.speaks_of(subject.tool) and _denies_rest(rule, subject):
            return Denied(rule.text, subject.title)
    return None


def _denies_path(rule: Rule, subject: Subject, path: str, places: Places) -> bool:
    family = "view" if subject.effect == "reads" else "write"
    return denies_file(rule, tool=subject.tool, family=family, path=path, places=places)


def _denies_rest(rule: Rule, subject: Subject) -> bool:
    match rule.pattern:
        case None:
            return True
        case UrlPattern() as pattern:
            return subject.url is not None and pattern.matches(subject.url)
        case TextPattern() as pattern:
            return pattern.matches(subject.title)
        case PathPattern() | _:
            return False


def _needs(subject: Subject, places: Places) -> tuple[Need, ...]:
    """What a call of any tool but a shell needs."""
    match subject.effect:
        case "none":
            return ()
        case "reads":
            return tuple(need for path in subject.paths for need in _file(subject.tool, "view", path, places))
        case "writes":
            needs = [need for path in subject.paths for need in _file(subject.tool, "write", path, places)]
            return (*needs, *_network(subject)) if subject.url else tuple(needs) or (_tool(subject, changes=True),)
        case "network":
            written = [need for path in subject.paths for need in _file(subject.tool, "write", path, places)]
            return (*_network(subject), *written)
        case "runs":
            return (_tool(subject, changes=True),)


def _file(tool: str, family: Family, path: str, places: Places) -> list[Need]:
    path = places.resolve(path, cwd=places.workspace)
    inside, shown, writes = places.inside(path), places.shown(path), family == "write"
    if writes and (what := places.protected(path)):
        return [Need(f"{shown} is {what}", "always")]
    if not writes and places.may_read(path):
        return []
    why = shown if inside else f"{shown} is outside of the workspace"
    use = FileUse(tool, family, path)
    return [Need(why, "edit" if inside else "outside", use, changes=writes, rule=file_rule(family, shown))]


def _network(subject: Subject) -> tuple[Need, ...]:
    if subject.url is None:
        return (_tool(subject, changes=False),)
    use = UrlUse(subject.tool, subject.url)
    return (Need(f"reaches {subject.url}", "plain", use, changes=False, rule=url_rule(subject.tool, subject.url)),)


def _tool(subject: Subject, *, changes: bool) -> Need:
    return Need(subject.title, "plain", ToolUse(subject.tool, subject.title), changes=changes, rule=subject.tool)
