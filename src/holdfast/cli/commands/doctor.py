"""`holdfast doctor`: check the installation and say what to do."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

from holdfast import __version__
from holdfast.cli.argument_parser import Parser
from holdfast.cli.command_context import CommandContext, unseen_keys
from holdfast.cli.exit_status import Exit
from holdfast.cli.formatting import byte_size, json_text
from holdfast.cli.screen import Style, can_show, is_terminal, one_line
from holdfast.client.client_environment import with_shell_models
from holdfast.errors import HoldfastError
from holdfast.locations import Locations
from holdfast.schema.api.response_bodies import ConfigView, ModelsView, SandboxView
from holdfast.schema.extensions import ExtensionStatus

_MIN_FREE = 200 << 20
_EXTENSION_SECONDS = 10.0
"""How long to wait for extensions that are starting."""
_PROGRAMS = (
    ("bash", "needed to run the agent's commands", True),
    ("git", "needed for branches, diffs and history", False),
    ("rg", "makes search faster", False),
)


class Finding(NamedTuple):
    area: str
    state: Literal["good", "hint", "bad"]
    what: str
    advice: str = ""


def configure(parser: Parser) -> None:
    parser.explain(
        "Check the installation and say what is missing and what to do. Keys are never printed.\n"
        "Exits with 1 if something must be fixed before Holdfast can work.",
        examples=(("holdfast doctor --json", "for a bug report"),),
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    findings = list(examine())
    if args.json:
        print(json_text([finding._asdict() for finding in findings]))
    else:
        print("\n".join(finding_lines(findings)))
    return Exit.FAILED if any(finding.state == "bad" for finding in findings) else Exit.COMPLETED


def finding_lines(findings: list[Finding]) -> list[str]:
    style = Style(sys.stdout)
    plain_marks = not can_show(sys.stdout, "✓")
    marks = {
        "good": style.good("ok" if plain_marks else "✓"),
        "hint": style.warn("-" if plain_marks else "•"),
        "bad": style.bad("!!" if plain_marks else "✗"),
    }
    lines, area = [], ""
    for finding in findings:
        if finding.area != area:
            area = finding.area
            lines.append(style.bold(area))
        lines.append(f"  {marks[finding.state]} {one_line(finding.what)}")
        if finding.advice:
            lines.append(f"      {finding.advice}")
    return lines


def examine() -> Iterator[Finding]:
    yield Finding("holdfast", "good", f"version {__version__}, Python {platform.python_version()}, {sys.platform}")
    try:
        locations = Locations.from_env(os.environ)
    except HoldfastError as error:
        yield Finding("places", "bad", error.message)
        return
    yield from _places(locations)
    try:
        with CommandContext() as context:
            yield from _server(context)
            yield from _check("configuration", lambda: _configuration(context))
            yield from _check("models", lambda: _models(_models_of_shell(context)))
            yield from _check("sandbox", lambda: _check_sandbox(context))
            yield from _check("extensions", lambda: _extensions(context))
    except HoldfastError as error:
        yield Finding("server", "bad", error.message, "'holdfast logs' shows its log")
    yield from _tools()
    yield from _terminal()


def _check(area: str, check: Callable[[], list[Finding]]) -> list[Finding]:
    """Report an error as a finding, and continue with the other checks."""
    try:
        return check()
    except HoldfastError as error:
        return [Finding(area, "bad", error.message, "'holdfast config edit' opens your file")]


def _places(locations: Locations) -> Iterator[Finding]:
    config = locations.config_file
    note = "" if config.exists() else " does not exist; all settings are at their defaults"
    yield Finding("places", "good", f"settings: {config}{note}")
    database = locations.database
    if database.exists():
        yield Finding("places", "good", f"database: {database}, {byte_size(database.stat().st_size)}")
    else:
        yield Finding("places", "good", f"database: {database}, created by the first run")
    base = next(parent for parent in (locations.data_dir, *locations.data_dir.parents) if parent.exists())
    if not os.access(base, os.W_OK):
        yield Finding("places", "bad", f"{base} is not writable", "correct its permissions, or set HOLDFAST_HOME")
    free = shutil.disk_usage(base).free
    if free < _MIN_FREE:
        yield Finding("places", "bad", f"only {byte_size(free)} are free on the disk of {base}", "free disk space")


def _server(context: CommandContext) -> Iterator[Finding]:
    info = context.client.server()
    what = f"running at {context.client.address}, version {info.version}, pid {info.pid}"
    if info.version != __version__:
        advice = "its version differs; run 'holdfast stop', and the next command starts this version"
        yield Finding("server", "hint", what, advice)
    else:
        yield Finding("server", "good", what)


def _configuration(context: CommandContext) -> list[Finding]:
    return config_findings(context.client.config(context.workspace.id))


def config_findings(found: ConfigView) -> list[Finding]:
    files = ", ".join(found.files) or "no files"
    findings = [Finding("configuration", "good", f"read: {files}")]
    if store := found.values.get("store"):
        findings.append(Finding("configuration", "good", f"sessions are in PostgreSQL ({store}), not in the file"))
    if found.policy_file:
        what = f"managed policy {found.policy_file}: {'; '.join(found.policy)}"
        findings.append(Finding("configuration", "good", what))
    findings += [Finding("configuration", "hint", warning) for warning in found.warnings]
    findings += [
        Finding("configuration", "hint", f"ignored: {file}", "'holdfast trust' enables this directory's configuration")
        for file in found.untrusted
    ]
    return findings


def _models_of_shell(context: CommandContext) -> ModelsView:
    return with_shell_models(context.client.models(workspace_id=context.workspace.id), os.environ)


def _models(found: ModelsView) -> list[Finding]:
    findings = []
    if found.large:
        findings.append(Finding("models", "good", f"default model: {found.large}"))
    else:
        advice = "'holdfast key set PROVIDER', or start a local model server, or --model offline/demo"
        findings.append(Finding("models", "bad", "no model is available", advice))
    for provider in found.providers:
        if provider.id == "offline":
            continue
        count = sum(model.provider == provider.id for model in found.models)
        name = provider.name or provider.id
        if provider.active and provider.local:
            if count:
                findings.append(Finding("models", "good", f"{name} is running with {count} models"))
        elif provider.active:
            findings.append(
                Finding("models", "good", f"{name}: {f'key from {provider.key}' if provider.key else 'no key needed'}")
            )
    if unseen := unseen_keys(found, os.environ):
        what = f"set here, but not in the server's environment: {', '.join(unseen)}"
        findings.append(
            Finding("models", "hint", what, "run 'holdfast stop', and the next command starts a server that has it")
        )
    missing = [provider.id for provider in found.providers if not provider.active]
    if missing:
        findings.append(Finding("models", "hint", f"no key for: {', '.join(missing)}"))
    return findings


def _tools() -> Iterator[Finding]:
    own_programs = str(Path(sys.executable).parent)
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), own_programs])
    for program, use, needed in _PROGRAMS:
        found = shutil.which(program, path=path)
        if found:
            yield Finding("tools", "good", f"{program}: {found}")
        else:
            yield Finding("tools", "bad" if needed else "hint", f"{program} is not installed", use)


def _check_sandbox(context: CommandContext) -> list[Finding]:
    return sandbox_findings(context.client.sandbox(), context.client.config(context.workspace.id).values["server"])


def sandbox_findings(found: SandboxView, server: dict[str, Any]) -> list[Finding]:
    """What confines the agent's commands: what the server found when it tried, and the settings that it uses."""
    mode = server["sandbox"]
    problems = f"namespaces: {found.namespace}; bubblewrap: {found.bubblewrap}; Landlock: {found.landlock}"
    if found.backend is None:
        advice = "install bubblewrap, or use Linux 6.12 or newer"
        if mode in ("auto", "off"):
            return [Finding("sandbox", "hint", f"commands are not confined ({problems})", advice)]
        what = f"server.sandbox is {mode!r}, but no sandbox works ({problems}); no command can run"
        return [Finding("sandbox", "bad", what, f"{advice}, or 'holdfast config set server.sandbox auto'")]
    names = {"namespace": "a mount namespace", "bubblewrap": "bubblewrap", "landlock": "Landlock"}
    name = names[found.backend]
    if mode == "off":
        advice = "'holdfast config set server.sandbox auto' confines them"
        return [Finding("sandbox", "hint", f"commands are not confined: server.sandbox is 'off'; {name} works", advice)]
    findings = [Finding("sandbox", "good", f"{name} confines commands; {_describe_limits(mode, server)}")]
    if found.not_covered:
        what = f"{name} does not prevent: {', '.join(found.not_covered)}"
        advice = f"bubblewrap would ({found.bubblewrap}), and so would namespaces ({found.namespace})"
        findings.append(Finding("sandbox", "hint", what, advice))
    return findings


def _extensions(context: CommandContext) -> list[Finding]:
    found = context.client.extensions(context.workspace.id, wait=_EXTENSION_SECONDS).items
    return [extension_finding(status) for status in found]


def extension_finding(status: ExtensionStatus) -> Finding:
    what = f"{status.kind} {status.name}: {status.state.replace('_', ' ')}"
    if status.detail:
        what += f", {status.detail}"
    is_good = status.state in ("ready", "disabled")
    return Finding("extensions", "good" if is_good else "hint", what, f"see {status.source}" if status.source else "")


def _describe_limits(mode: str, server: dict[str, Any]) -> str:
    places = [] if mode == "read-only" else ["the workspace", *server["sandbox_writable"]]
    places += ["their temporary directory"]
    if mode != "read-only" and server["sandbox_caches"]:
        places.append("caches of package managers")
    network = {"allow": "they have the network", "ask": "the network needs an approval", "off": "they have no network"}
    return f"they write {', '.join(places)}; {network[server['sandbox_network']]}"


def _terminal() -> Iterator[Finding]:
    if not is_terminal(sys.stdout):
        yield Finding("terminal", "good", "stdout is not a terminal: plain text")
        return
    columns, rows = shutil.get_terminal_size()
    what = f"{os.environ.get('TERM', 'unknown')}, {columns}×{rows}, {sys.stdout.encoding}"
    if can_show(sys.stdout, "✓█⠋"):
        yield Finding("terminal", "good", what)
    else:
        yield Finding("terminal", "hint", what, "set LANG to a UTF-8 locale to see all characters")
