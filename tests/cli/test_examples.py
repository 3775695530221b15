"""Every example in the help texts, in README.md and in docs/ works, on a real server with a scripted model."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.cli.argument_parser import parse, parser_of
from holdfast.cli.command_table import all_commands
from holdfast.client import open_sync_client
from holdfast.schema.runs import Run, RunRequest
from tests.cli.cli_shell import CliShell, open_shell
from tests.cli.doc_examples import documented_calls, documented_file
from tests.support.mcp_peers import plain_command

EXAMPLES = documented_calls()

NOT_RUN = {
    "holdfast mcp login tracker": "needs a server and a browser; tests/extend/mcp/test_login.py has both",
    "holdfast mcp login tracker --answer URL": "ends a login that waits; tests/cli/commands/test_mcp.py has one",
    **{
        f"holdfast devices {what}": "needs a paired browser; tests/server/test_devices.py pairs one"
        for what in ('rename dev_1 "sofa"', 'rename dev_1 "my phone"', "revoke dev_1")
    },
    **{
        f"holdfast web --share{options}": "listens on the network; tests/cli/commands/test_web.py does it on loopback"
        for options in (
            "",
            " --scope answer",
            " --listen 192.168.1.7:8443",
            " --certificate cert.pem --key key.pem",
        )
    },
    **{
        f"holdfast store copy {what}": "needs PostgreSQL; tests/cli/commands/test_store.py has one"
        for what in (
            "sqlite: postgresql://holdfast@db/holdfast",
            "postgresql://holdfast@db/holdfast sqlite:",
        )
    },
    "holdfast review --pr 17 look at the locking": "asks a host of git repositories, over the network",
    "holdfast selftest": "takes a minute; tests/selftest runs it",
    "holdfast selftest --quick": "takes half a minute; tests/selftest runs it",
    "holdfast selftest --json": "takes a minute; tests/selftest runs it",
    "holdfast selftest --server unix:/run/holdfast.sock": "needs a server at that place; tests/selftest has one",
    "holdfast serve --crush auto": "listens outside the test's directory; tests/crush listens inside it",
    "HOLDFAST_SERVER=http://127.0.0.1:8787 HOLDFAST_TOKEN=… holdfast run …": "needs a server at that port; "
    "test_environment.py does the same with a free port",
}
"""Examples that are only parsed, each with its reason."""

STATUS = {
    **{
        f"holdfast lsp {what} {name}": (1, "no server was started; tests/extend/lsp starts some")
        for what in ("restart", "logs")
        for name in ("ruff", "NAME")
    },
    "holdfast key test anthropic": (6, "the network is off in tests"),
    "holdfast acp --setup": (1, "opens the terminal interface, which tests/tui does on a terminal"),
    "holdfast --continue": (2, "opens the terminal interface, which tests/tui does on a terminal"),
    "holdfast --session ID": (2, "the same"),
}
"""Exit statuses other than 0."""

UNTIL_INTERRUPTED = {
    "holdfast serve": ("unix:", 0),
    "holdfast serve --listen 127.0.0.1:0": ("token in", 0),
    "holdfast logs -f": ("listening", 130),
    "holdfast audit --follow --json": ('"action"', 0),
    "holdfast attach": ("before", 0),
    "holdfast attach ses_…": ("shown", 0),
}
"""Examples that run until Ctrl-C: what they print first, and the exit status."""

KEY = "sk-example-0123456789"

COMPLETED = {
    "holdfast run": "holdfast run …",
    "holdfast run --effort high": "holdfast run --effort high …",
    "holdfast run --verbose": "holdfast run --verbose …",
    "holdfast run --session": "holdfast run --session ID …",
    "holdfast wait": "holdfast wait RUN",
}
"""Mentions of a command or option in a sentence, as a whole call."""

VALUES = {
    "COMMAND": "run",
    "KEY": "limits.max_steps",
    "VALUE": "100",
    "PROVIDER": "anthropic",
    "TEXT": "'a note'",
    "[NOTE]": "'a note'",
    "[INSTRUCTION]": "'keep the names'",
    "PROMPT…": "'!say fine'",
    '"PROMPT"': "'!say fine'",
    '"…"': "'!say fine'",
    "…": "'!say fine'",
}


class Examples:
    """A shell in which each example finds what it needs."""

    def __init__(self, sh: CliShell) -> None:
        self.sh = sh
        self._commands = iter(("touch a", "mkdir b", "cp slug.py c", "ln -s slug.py d", "chmod +x slug.py", "rmdir b"))
        """Each needs approval, also after "always" was answered for those before it."""
        self._settings = sh.locations.config_file.read_text()
        programs = sh.base / "bin"
        programs.mkdir()
        self._program(programs / "holdfast", f'exec "{sys.executable}" -m holdfast "$@"')
        self._program(programs / "pass", f"echo {KEY}")
        if shutil.which("jq") is None:
            self._program(programs / "jq", "cat")
        for place in (".local/share/bash-completion/completions", ".zfunc", ".config/fish/completions"):
            (sh.base / place).mkdir(parents=True)
        self.env = {
            **sh.env,
            "PATH": f"{programs}{os.pathsep}{sh.env['PATH']}",
            **dict.fromkeys(("EDITOR", "BROWSER"), "true"),
            **dict.fromkeys(("HTTPS_PROXY", "HTTP_PROXY"), "http://127.0.0.1:9"),  # nothing leaves this machine
            "NO_PROXY": "127.0.0.1,localhost",
        }
        for section, file in (("Commands", "commands/fix-issue.md"), ("Agents", "agents/reviewer.md")):
            path = sh.locations.config_dir / file
            path.parent.mkdir(exist_ok=True)
            path.write_text(documented_file(section))
        self._git("init", "-q", "-b", "main")
        (sh.work / "slug.py").write_text("def slug(text):\n    return text\n")
        self._git("add", "-A")
        self._git("commit", "-q", "-m", "first")
        self._git("tag", "v1.0")
        self._git("switch", "-q", "-c", "work")
        (sh.work / "slug.py").write_text("def slug(text):\n    return text.lower()\n")
        self._git("commit", "-q", "-a", "-m", "second")

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        given = {"input": KEY} if "key set" in line else {"stdin": subprocess.DEVNULL}
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", self.prepare(line)],
            cwd=self.sh.work,
            env=self.env,
            text=True,
            capture_output=True,
            check=False,
            timeout=55,
            **given,
        )

    def prepare(self, line: str) -> str:
        """Create what the line needs, in a new session, and put real ids and values into it."""
        self.sh.locations.config_file.write_text(self._settings)
        (self.sh.base / "holdfast.db").unlink(missing_ok=True)
        self._end(self._start(RunRequest(prompt="!say before")))
        (self.sh.work / "slug.py").write_text("def slug(text):\n    return text.lower().strip()\n")
        needed: tuple[tuple[str, Callable[[], str | None]], ...] = (
            (r"queue \w+ run_…", self._queued_run),
            (r"run_…|run_01k9|\bRUN\b", self._ended_run),
            (r"job_…", self._job),
            (r"apr_…", self._approval),
            (r"ses_…|\bID\b", self._session),
            (r"key test", self._key),
            (r"^holdfast review$", self._trust),
            (r"holdfast accept", self._plan),
            (r"holdfast (undo|redo|changes)", self._change),
            (r"memory remove", self._notes),
            (r"mcp (remove|test|logs)", self._mcp_server),
            (r"mcp logout", self._remote_mcp_server),
            (r"holdfast people add", self._nobody),
            (r"people (token|change|remove)|web --person", self._person),
            (r"holdfast (restore|serve)", self._stop),
        )
        line = COMPLETED.get(line, line)
        for pattern, create in needed:
            if re.search(pattern, line) and (value := create()):
                line = re.sub(r"(run|job|apr|ses)_…|run_01k9|\bRUN\b|\bID\b", value, line)
        if "redo" in line:
            self.sh.ok("undo", env=self.env)
        if "restore ~" in line or "restore latest" in line:
            copy = self.sh.base / "holdfast.db" if "~" in line else self.sh.locations.backups_dir / "holdfast-1.db"
            copy.parent.mkdir(exist_ok=True)
            self.sh.ok("backup", str(copy), env=self.env)
            self._stop()
        for name, value in VALUES.items():
            line = re.sub(rf"(?<![\w]){re.escape(name)}(?!\w)", value.replace("\\", r"\\"), line)
        return line

    def _queued_run(self) -> str:
        active = self._start(RunRequest(prompt="!hang"))
        with open_sync_client(self.env, name="test") as client:
            return client.start_run(active.session_id, RunRequest(prompt="!say queued")).run.id

    def _ended_run(self) -> str:
        return self._end(self._start(RunRequest(prompt="!say ended"))).id

    def _session(self) -> str:
        return self._end(self._start(RunRequest(prompt="!say shown"))).session_id

    def _job(self) -> str:
        self._end(self._start(RunRequest(prompt="!job echo begun; sleep 1000", mode="auto")))
        with open_sync_client(self.env, name="test") as client:
            return client.jobs(client.open_workspace(str(self.sh.work)).id, running=True).items[0].id

    def _key(self) -> None:
        self.sh.ok("key", "set", "anthropic", given=KEY, env=self.env)

    def _approval(self) -> str:
        run = self._start(RunRequest(prompt=f"!bash {next(self._commands)}"))
        with open_sync_client(self.env, name="test") as client:
            with client.events(after="") as events:
                while not (found := client.approvals(client.open_workspace(str(self.sh.work)).id).items):
                    next(events)
            assert found[-1].run_id == run.id
            return found[-1].id

    def _start(self, request: RunRequest) -> Run:
        with open_sync_client(self.env, name="test") as client:
            return client.start_session(client.open_workspace(str(self.sh.work)).id, request).run

    def _end(self, run: Run) -> Run:
        with open_sync_client(self.env, name="test") as client:
            ended = client.wait_run(run.id)
        assert ended.state == "completed", ended
        return ended

    def _plan(self) -> None:
        self._end(self._start(RunRequest(prompt="!say 1. change slug.py", mode="plan")))

    def _change(self) -> None:
        (self.sh.work / "made.txt").unlink(missing_ok=True)
        self._end(self._start(RunRequest(prompt="!write made.txt", mode="auto")))

    def _notes(self) -> None:
        for note in ("one", "two"):
            self.sh.ok("memory", "add", note, env=self.env)

    def _nobody(self) -> None:
        with open_sync_client(self.env, name="test") as client:
            for person in client.people().items:
                client.remove_person(person.name)

    def _person(self) -> None:
        self._nobody()
        for name in ("anna", "prometheus"):
            self.sh.ok("people", "add", name, "--role", "drive", "--all-workspaces", env=self.env)

    def _remote_mcp_server(self) -> None:
        self.sh.ok("mcp", "add", "tracker", "http://127.0.0.1:9/mcp", env=self.env)

    def _mcp_server(self) -> None:
        self.sh.ok("mcp", "add", "docs", "--", *plain_command(), env=self.env)

    def _trust(self) -> None:
        """Without it, git is not asked to compare the files of a work tree: it could start programs of the tree."""
        self.sh.ok("trust", env=self.env)

    def _stop(self) -> None:
        self.sh.ok("stop", env=self.env)

    def clean_up(self) -> None:
        """End what the example left active."""
        with open_sync_client(self.env, name="test") as client:
            workspace = client.open_workspace(str(self.sh.work))
            for session in client.sessions(workspace.id, limit=5).items if workspace.unfinished_runs else ():
                client.cancel_session(session.id)
            for job in client.jobs(workspace.id, running=True).items:
                client.kill_job(job.id)

    def _git(self, *words: str) -> None:
        subprocess.run(["git", *words], cwd=self.sh.work, env=self.sh.env, check=True, capture_output=True)

    def _program(self, path: Path, body: str) -> None:
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)


@pytest.fixture(scope="module")
def examples() -> Iterator[Examples]:
    with open_shell() as sh:
        text = sh.locations.config_file.read_text()
        with_effort = '[providers.test.models.test-model]\nreasoning = ["low", "high"]'
        sh.locations.config_file.write_text(text.replace("[providers.test.models.test-model]", with_effort))
        yield Examples(sh)


@pytest.mark.parametrize("line", [line for line in EXAMPLES if line not in {*NOT_RUN, *UNTIL_INTERRUPTED}])
def test_the_example_works(examples: Examples, line: str) -> None:
    done = examples.run(line)
    examples.clean_up()
    status, _ = STATUS.get(line, (0, ""))
    assert done.returncode == status, (EXAMPLES[line], done)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("line", UNTIL_INTERRUPTED)
def test_the_example_runs_until_it_is_interrupted(examples: Examples, line: str) -> None:
    printed, status = UNTIL_INTERRUPTED[line]
    running = examples.sh.start(*shlex.split(examples.prepare(line))[1:], env=examples.env)
    running.until(printed)
    running.signal()
    done = running.end()
    assert done.status == status, (EXAMPLES[line], done)
    assert "Traceback" not in done.err


@pytest.mark.parametrize("line", NOT_RUN)
def test_an_example_that_is_not_run_is_valid(line: str) -> None:
    call = line.replace("…", "x").partition("holdfast ")[2]
    name, *args = shlex.split(call)
    assert callable(parse(parser_of(all_commands()[name]), args).run)


def test_exceptions_are_named_only_for_examples_that_exist() -> None:
    assert set(NOT_RUN) | set(STATUS) | set(COMPLETED) | set(UNTIL_INTERRUPTED) <= set(EXAMPLES)
    assert len(EXAMPLES) > 100
    assert len(NOT_RUN) < len(EXAMPLES) / 10
