"""The managed policy: a file of the administrator that no other layer, run or person can loosen.

The file belongs to root and nobody else can write it or replace it; otherwise it is refused and nothing runs. Its path
is fixed: no variable and no setting changes it. A server gets another path only from the program that opens it.

``[allow]`` lists what may be used: providers, models, modes, MCP servers. What is not listed there is unrestricted.
``[settings]`` has settings that override every other layer. See docs/extensions.md.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Final, cast, get_args
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from holdfast.config.config_files import problem_with, read_text
from holdfast.config.setting_validation import SettingProblem, decode, decode_table, unknown
from holdfast.config.settings import Table, Text
from holdfast.config.toml_document import KeyLines, KeyPath, TomlError, format_key, parse_toml
from holdfast.errors import ConfigError, PolicyDenied
from holdfast.schema.runs import MODES_BY_FREEDOM, Mode

_STRICTEST_LAST: Final[Mapping[KeyPath, tuple[str, ...]]] = {
    ("server", "sandbox"): ("off", "auto", "workspace-write", "read-only"),
    ("server", "sandbox_network"): ("allow", "ask", "off"),
}
"""Settings of which a stricter value than that of the policy stays."""
_CHOSEN_PER_RUN: Final[Mapping[KeyPath, str]] = {
    ("models",): "every run can choose its model; use 'allow.models'",
    ("approvals", "mode"): "every run can choose its mode; use 'allow.modes'",
}
_OTHERS_CAN_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_ANY_ARGUMENTS: Final = "*"


class McpAllowance(Table, frozen=True):
    """An MCP server that may be used: its whole command, or its address."""

    command: Annotated[
        tuple[Text, ...], Meta(description="Patterns of the program and its arguments; a last `*`: any arguments.")
    ] = ()
    url: Annotated[Text | None, Meta(description="A pattern of its address, such as `https://mcp.example.org/*`.")] = (
        None
    )

    def covers(self, *, command: Sequence[str], url: str | None) -> bool:
        if url is not None:
            return self.url is not None and not command and _url_matches(self.url, url)
        return bool(self.command) and _command_matches(self.command, command)


class PolicyAllowances(Table, frozen=True):
    """What may be used. A key that is not set restricts nothing; an empty list allows nothing."""

    providers: Annotated[tuple[Text, ...] | None, Meta(description="Patterns of providers.")] = None
    models: Annotated[tuple[Text, ...] | None, Meta(description="Patterns of models, as `provider/model`.")] = None
    modes: Annotated[tuple[Text, ...] | None, Meta(description="The modes of approval.")] = None
    mcp: Annotated[dict[str, McpAllowance] | None, Meta(description="MCP servers by a pattern of their name.")] = None


class PolicyTables(Table, frozen=True):
    """The whole file."""

    contact: Annotated[Text | None, Meta(description="Whom to ask; added to every refusal.")] = None
    allow: PolicyAllowances = PolicyAllowances()
    settings: Annotated[dict[str, Any], Meta(description="Settings that override all others.")] = {}


class Policy(msgspec.Struct, frozen=True):
    """A policy that was read, or `NO_POLICY`. Its checks are pure; each returns the refusal or ``None``."""

    source: str = ""
    """The path of the file; empty if there is none."""
    tables: PolicyTables = PolicyTables()
    lines: KeyLines = KeyLines("")

    def __bool__(self) -> bool:
        return bool(self.source)

    @property
    def settings(self) -> dict[str, Any]:
        return self.tables.settings

    @property
    def deny_rules(self) -> tuple[str, ...]:
        return tuple(self.value_of("approvals", "deny") or ())

    def fixes(self, *path: str) -> bool:
        """Whether the policy sets this setting or a table that contains it."""
        return self.value_of(*path) is not None

    def value_of(self, *path: str) -> Any:
        """The value that the policy sets; ``None`` if it sets none."""
        found: Any = self.tables.settings
        for part in path:
            if not isinstance(found, dict) or part not in found:
                return None
            found = found[part]
        return found

    def provider_refusal(self, name: str, *, base_url: str, builtin_url: str | None) -> str | None:
        """Why a provider may not be used. Its address must be its built-in one, or the one that the policy sets."""
        allow = self.tables.allow
        if allow.providers is not None and not _matches_any(name, allow.providers):
            return self.refusal(f"the provider {name!r}", allowed=allow.providers)
        if allow.models is not None and not any(_may_name_provider(pattern, name) for pattern in allow.models):
            return self.refusal(f"the provider {name!r}", allowed=allow.models)
        if allow.providers is None and allow.models is None:
            return None
        own = self.value_of("providers", name, "base_url")
        address = own.rstrip("/") if isinstance(own, str) else builtin_url
        if base_url == address:
            return None
        return self.refusal(f"the address of the provider {name!r}", advice=f"settings.providers.{name}.base_url")

    def model_refusal(self, name: str) -> str | None:
        """Why a model, as ``provider/model``, may not be used."""
        allowed = self.tables.allow.models
        if allowed is None or _matches_any(name, allowed):
            return None
        return self.refusal(f"the model {name!r}", allowed=allowed)

    def mode_refusal(self, mode: Mode) -> str | None:
        allowed = self.tables.allow.modes
        return None if allowed is None or mode in allowed else self.refusal(f"the mode {mode!r}", allowed=allowed)

    def check_mode(self, mode: Mode) -> None:
        """Raise `PolicyDenied` if a run may not have this mode."""
        if refusal := self.mode_refusal(mode):
            raise PolicyDenied(refusal, detail={"policy": self.source, "mode": mode})

    def strictest_mode_for(self, mode: Mode) -> Mode | None:
        """The freest allowed mode that is not freer than this one; ``None`` if there is none."""
        freedom = MODES_BY_FREEDOM.index(mode)
        allowed = [one for one in MODES_BY_FREEDOM[: freedom + 1] if self.mode_refusal(one) is None]
        return allowed[-1] if allowed else None

    def allows_mcp_server(self, name: str, *, command: Sequence[str] = (), url: str | None = None) -> bool:
        return self.mcp_refusal(name, command=command, url=url) is None

    def mcp_refusal(self, name: str, *, command: Sequence[str] = (), url: str | None = None) -> str | None:
        """Why an MCP server may not be used: its name and its command or address must be allowed together."""
        allowed = self.tables.allow.mcp
        if allowed is None:
            return None
        if any(fnmatchcase(name, pattern) and one.covers(command=command, url=url) for pattern, one in allowed.items()):
            return None
        return self.refusal(f"the MCP server {name!r} with this {'command' if url is None else 'address'}")

    def escalation_refusal(self, escalation: str | None) -> str | None:
        """Why a command may not leave the sandbox, whoever approves it."""
        if escalation is None:
            return None
        sandbox, network = self.value_of("server", "sandbox"), self.value_of("server", "sandbox_network")
        if escalation == "unconfined" and (sandbox not in (None, "off") or network not in (None, "allow")):
            return self.refusal("a command without the sandbox")
        return self.refusal("a command with the network") if escalation == "network" and network == "off" else None

    def refusal(self, what: str, *, allowed: Sequence[str] | None = None, advice: str = "") -> str:
        """The sentence of every refusal. It names the policy."""
        listed = "" if allowed is None else f" (allowed: {', '.join(allowed) or 'none'})"
        advice = f"; the policy must set {advice}" if advice else ""
        contact = f"; {self.tables.contact}" if self.tables.contact else ""
        return f"{what} is not allowed by the managed policy {self.source}{listed}{advice}{contact}"

    def summary(self) -> tuple[str, ...]:
        """What it restricts, in a line each, for people."""
        if not self:
            return ()
        allow = self.tables.allow
        lists = {"providers": allow.providers, "models": allow.models, "modes": allow.modes}
        lines = [f"{what}: {', '.join(names) or 'none'}" for what, names in lists.items() if names is not None]
        if allow.mcp is not None:
            lines.append(f"MCP servers: {', '.join(allow.mcp) or 'none'}")
        if keys := [format_key(path) for path in setting_paths(self.settings)]:
            lines.append(f"settings: {', '.join(keys)}")
        return tuple(lines) or ("restricts nothing",)


NO_POLICY: Final = Policy()


class PolicyFile:
    """Where the policy is, and who must own it. `read` blocks: call it in a thread."""

    def __init__(self, path: Path | None = None, *, owner: int = 0) -> None:
        """Tests pass a path and an owner. Nothing that a user can set reaches these arguments."""
        self.path = path or system_policy_path()
        self._owner = owner

    def read(self) -> Policy:
        """Return the policy, or `NO_POLICY` if the file does not exist. `ConfigError` for anything else."""
        try:
            text = self._read_text()
            return parse_policy(text, path=self.path) if text is not None else NO_POLICY
        except ConfigError as error:
            message = f"the managed policy cannot be used, so nothing runs: {error.message}; ask the administrator"
            raise ConfigError(message, code="policy_invalid", detail=error.detail) from None

    def _read_text(self) -> str | None:
        """Check the owner and the permissions of the file and of the directories above it, and read it."""
        try:
            found = os.lstat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise problem_with(self.path, f"cannot be read: {error.strerror or error}") from None
        if not stat.S_ISREG(found.st_mode):
            raise problem_with(self.path, "is not a regular file")
        self._check(self.path, found)
        for directory in self.path.parents:
            self._check(directory, os.lstat(directory))
        return read_text(self.path)

    def _check(self, path: Path, found: os.stat_result) -> None:
        if found.st_uid not in (0, self._owner) or (path == self.path and found.st_uid != self._owner):
            raise problem_with(path, "does not belong to root; run 'chown root' on it")
        is_sticky = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
        if found.st_mode & _OTHERS_CAN_WRITE and not is_sticky:
            raise problem_with(path, "can be changed by others than root; run 'chmod go-w' on it")


def system_policy_path(*, platform: str = sys.platform) -> Path:
    if platform == "darwin":
        return Path("/Library/Application Support/Holdfast/policy.toml")
    return Path("/etc/holdfast/policy.toml")


def parse_policy(text: str, *, path: Path) -> Policy:
    """Read the text of a policy. `ConfigError` for every mistake: a rule that is not understood cannot be kept."""
    try:
        data = parse_toml(text)
    except TomlError as error:
        raise problem_with(path, str(error), line=error.line) from None
    tables, problems = decode_table(PolicyTables, data)
    lines = KeyLines(text)
    problems += _problems_of(tables) if not problems else []
    if problems:
        first = problems[0]
        raise problem_with(path, "; ".join(map(str, problems[:5])), line=lines.of(first.key))
    return Policy(str(path), tables, lines)


def _problems_of(tables: PolicyTables) -> list[SettingProblem]:
    _, found = decode(tables.settings)
    problems = [SettingProblem(("settings", *problem.key), problem.message) for problem in found]
    for path, why in _CHOSEN_PER_RUN.items():
        if Policy(tables=tables).fixes(*path):
            problems.append(SettingProblem(("settings", *path), f"would not be kept: {why}"))
    modes: tuple[str, ...] = get_args(Mode)
    problems += [
        SettingProblem(("allow", "modes"), unknown(mode, modes, what="mode"))
        for mode in tables.allow.modes or ()
        if mode not in modes
    ]
    for name, server in (tables.allow.mcp or {}).items():
        if bool(server.command) == bool(server.url):
            message = "needs either 'command' or 'url': a name alone can be chosen freely"
            problems.append(SettingProblem(("allow", "mcp", name), message))
        elif server.url is not None and not _is_url_pattern(server.url):
            message = "write it like 'https://mcp.example.org/*'; '*' may stand for parts of the host and of the path"
            problems.append(SettingProblem(("allow", "mcp", name, "url"), message))
    return problems


def policy_layer_data(policy: Policy, below: dict[str, Any]) -> dict[str, Any]:
    """The settings of the policy as the highest layer over the plain values of all layers ``below``.

    Deny rules are added, a stricter sandbox stays, and a hook of the policy replaces one with the same name.
    """
    data = cast("dict[str, Any]", msgspec.to_builtins(policy.settings))
    below_denies = _at(below, ("approvals", "deny")) or []
    if own := _at(data, ("approvals", "deny")):
        data["approvals"]["deny"] = [*own, *(rule for rule in below_denies if rule not in own)]
    for path, values in _STRICTEST_LAST.items():
        own, other = _at(data, path), _at(below, path)
        if own in values and other in values and values.index(other) > values.index(own):
            data[path[0]].pop(path[1])
    if policy.value_of("server", "sandbox") not in (None, "off"):
        data.setdefault("server", {}).setdefault("sandbox_writable", [])
    return data


def clamped_mode(policy: Policy, mode: Mode) -> Mode:
    """The mode of runs that choose none. `ConfigError` if the policy allows none that is as strict."""
    allowed = policy.strictest_mode_for(mode)
    if allowed is None:
        raise ConfigError(f"approvals.mode: {policy.mode_refusal(mode)}", detail={"key": "approvals.mode"})
    return allowed


def setting_paths(data: Mapping[str, Any], path: KeyPath = ()) -> tuple[KeyPath, ...]:
    """The keys of all values in nested tables."""
    found: list[KeyPath] = []
    for key, value in data.items():
        found += setting_paths(value, (*path, key)) if isinstance(value, dict) and value else [(*path, key)]
    return tuple(found)


def _at(data: dict[str, Any], path: KeyPath) -> Any:
    found: Any = data
    for part in path:
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _matches_any(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _may_name_provider(pattern: str, provider: str) -> bool:
    """Whether a pattern of models can match a model of this provider."""
    return fnmatchcase(provider, pattern.partition("/")[0])


def _command_matches(patterns: tuple[str, ...], command: Sequence[str]) -> bool:
    exact, any_rest = (
        (patterns[:-1], True) if patterns[-1] == _ANY_ARGUMENTS and len(patterns) > 1 else (patterns, False)
    )
    if len(command) < len(exact) or (len(command) > len(exact) and not any_rest):
        return False
    return all(fnmatchcase(word, pattern) for word, pattern in zip(command, exact, strict=False))


def _is_url_pattern(pattern: str) -> bool:
    try:
        parts = urlsplit(pattern)
        return (
            parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc and parts.port != 0
        )
    except ValueError:
        return False


def _url_matches(pattern: str, url: str) -> bool:
    """Compare scheme, host, port and path each by itself, so that no address can hide another one."""
    try:
        wanted, given = urlsplit(pattern), urlsplit(url)
        ports = (wanted.port, given.port)
    except ValueError:
        return False
    if "@" in given.netloc or "\\" in url or given.scheme != wanted.scheme or ports[0] != ports[1]:
        return False
    path = given.path or "/"
    if ".." in path.split("/") or "%" in path:
        return False
    return fnmatchcase(given.hostname or "", wanted.hostname or "") and fnmatchcase(path, wanted.path or "/")
