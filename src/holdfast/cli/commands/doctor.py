"""`holdfast doctor`: what is found, what is missing, what to do."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from holdfast import __version__
from holdfast.cli.argument_parser import Parser
from holdfast.cli.command_context import CommandContext
from holdfast.cli.exit_status import Exit
from holdfast.cli.formatting import size
from holdfast.cli.no_model_help import unseen_variables
from holdfast.cli.run_result import as_text
from holdfast.cli.screen import Style, can_show, is_terminal, one_line
from holdfast.errors import HoldfastError
from holdfast.locations import Locations
from holdfast.schema.api.response_bodies import ModelsView

_LEAST_FREE = 200 << 20
_PROGRAMS = (
    ("bash", "commands of the agent run in it", True),
    ("git", "branches, diffs, history", False),
    ("rg", "fast search; without it a slower one is used", False),
)


class Finding(NamedTuple):
    area: str
    state: Literal["good", "hint", "bad"]
    what: str
    advice: str = ""


def configure(parser: Parser) -> None:
    parser.explain(
        "What is found on this machine, what is missing, and what to do about it. Keys are never shown.\n"
        "The status is 1 if something must be mended before work is possible."
    )
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    findings = list(examine())
    if args.json:
        print(as_text([finding._asdict() for finding in findings]))
    else:
        print("\n".join(lines_of(findings)))
    return Exit.FAILED if any(finding.state == "bad" for finding in findings) else Exit.COMPLETED


def lines_of(findings: list[Finding]) -> list[str]:
    style = Style(sys.stdout)
    plain_marks = not can_show(sys.stdout, "✓")
    marks = {
        "good": style.good("ok" if plain_marks else "✓"),
        "hint": style.warm("-" if plain_marks else "•"),
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
        with CommandContext() as here:
            yield from _server(here)
            yield from _asked("configuration", lambda: _configuration(here))
            yield from _asked("models", lambda: _models(here.client.models(workspace_id=here.workspace.id)))
    except HoldfastError as error:
        yield Finding("server", "bad", error.message, "'holdfast logs' shows what it said")
    yield from _tools()
    yield _sandbox()
    yield from _terminal()


def _asked(area: str, ask: Callable[[], list[Finding]]) -> list[Finding]:
    """A broken configuration is a finding, not the end."""
    try:
        return ask()
    except HoldfastError as error:
        return [Finding(area, "bad", error.message, "'holdfast config edit' opens your file")]


def _places(locations: Locations) -> Iterator[Finding]:
    config = locations.config_file
    said = "is there" if config.exists() else "is not there; everything is as it comes"
    yield Finding("places", "good", f"settings: {config} {said}")
    database = locations.database
    if database.exists():
        yield Finding("places", "good", f"database: {database}, {size(database.stat().st_size)}")
    else:
        yield Finding("places", "good", f"database: {database}, made with the first run")
    base = next(parent for parent in (locations.data_dir, *locations.data_dir.parents) if parent.exists())
    if not os.access(base, os.W_OK):
        yield Finding("places", "bad", f"{base} cannot be written", "mend its permissions, or set HOLDFAST_HOME")
    free = shutil.disk_usage(base).free
    if free < _LEAST_FREE:
        yield Finding("places", "bad", f"only {size(free)} are free on the disk of {base}", "make room")


def _server(here: CommandContext) -> Iterator[Finding]:
    info = here.client.server()
    what = f"answers at {here.client.address}, version {info.version}, pid {info.pid}"
    if info.version != __version__:
        advice = "it is used as it is; 'holdfast stop' lets the next command start this version"
        yield Finding("server", "hint", what, advice)
    else:
        yield Finding("server", "good", what)


def _configuration(here: CommandContext) -> list[Finding]:
    found = here.client.config(here.workspace.id)
    files = ", ".join(found.files) or "no file"
    findings = [Finding("configuration", "good", f"read: {files}")]
    findings += [Finding("configuration", "hint", warning) for warning in found.warnings]
    findings += [
        Finding("configuration", "hint", f"not read: {file}", "'holdfast trust' lets this directory take part")
        for file in found.untrusted
    ]
    return findings


def _models(found: ModelsView) -> list[Finding]:
    findings = []
    if found.large:
        findings.append(Finding("models", "good", f"used when none is named: {found.large}"))
    else:
        advice = "'holdfast key set PROVIDER', or start a local model server, or --model offline/demo"
        findings.append(Finding("models", "bad", "no model can be used", advice))
    for provider in found.providers:
        if provider.id == "offline":
            continue
        count = sum(model.provider == provider.id for model in found.models)
        name = provider.name or provider.id
        if provider.active and provider.local:
            if count:
                findings.append(Finding("models", "good", f"{name} answers here with {count} models"))
        elif provider.active:
            findings.append(Finding("models", "good", f"{name}: key from {provider.key or 'nowhere, none is needed'}"))
    if unseen := unseen_variables(found, os.environ):
        what = f"set here, but not where the server was started: {', '.join(unseen)}"
        findings.append(Finding("models", "hint", what, "'holdfast stop' lets the next command start one that has it"))
    missing = [provider.id for provider in found.providers if not provider.active]
    if missing:
        findings.append(Finding("models", "hint", f"no key for: {', '.join(missing)}"))
    return findings


def _tools() -> Iterator[Finding]:
    beside = str(Path(sys.executable).parent)
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), beside])
    for program, use, needed in _PROGRAMS:
        found = shutil.which(program, path=path)
        if found:
            yield Finding("tools", "good", f"{program}: {found}")
        else:
            yield Finding("tools", "bad" if needed else "hint", f"{program} is not installed", use)


def _sandbox() -> Finding:
    """What can confine the agent's commands here; `server.sandbox` says whether it does."""
    if found := shutil.which("bwrap"):
        return Finding("sandbox", "good", f"bubblewrap: {found}")
    try:
        modules = Path("/sys/kernel/security/lsm").read_text("ascii")
    except OSError:
        modules = ""
    if "landlock" in modules:
        return Finding("sandbox", "good", "Landlock, built into this kernel")
    return Finding("sandbox", "hint", "nothing was found to confine commands with", "install bubblewrap")


def _terminal() -> Iterator[Finding]:
    if not is_terminal(sys.stdout):
        yield Finding("terminal", "good", "stdout is no terminal: plain text")
        return
    columns, rows = shutil.get_terminal_size()
    what = f"{os.environ.get('TERM', 'unknown')}, {columns}×{rows}, {sys.stdout.encoding}"
    if can_show(sys.stdout, "✓█⠋"):
        yield Finding("terminal", "good", what)
    else:
        yield Finding("terminal", "hint", what, "set LANG to a UTF-8 locale for better pictures")
