"""Every command once, through a real process."""

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import __version__
from holdfast.cli.argument_parser import parser_of
from holdfast.cli.command_table import all_commands
from holdfast.cli.commands.completion import Completions, bash, completions_of, fish, zsh
from tests.cli.cli_shell import CliShell, open_shell


def test_the_version_and_the_help_need_no_server(sh: CliShell) -> None:
    assert sh.ok("--version") == f"holdfast {__version__}"
    told = sh.ok("--help")
    assert [name for name in all_commands() if not re.search(rf"^  {name} ", told, re.MULTILINE)] == []
    assert "examples:" in told
    assert sh.ok("help", "run") == sh.ok("run", "--help")


def test_without_a_command_it_says_what_there_is(sh: CliShell) -> None:
    done = sh()
    assert done.status == 0
    assert "comes with a later version" in done.err
    assert done.out == sh("--help").out


@pytest.mark.parametrize("name", sorted(all_commands()))
def test_each_command_explains_itself(name: str) -> None:
    parser = parser_of(all_commands()[name])
    told = parser.format_help()
    assert told.startswith(f"usage: holdfast {name}")
    assert parser.description
    assert parser.description in told


def test_mistakes_are_told_in_two_lines(sh: CliShell) -> None:
    for words in (("runn", "x"), ("--nonsense",), ("sessions",), ("approvals", "answer", "x", "perhaps")):
        done = sh(*words)
        assert (done.status, done.out) == (2, "")
        assert len(done.err.strip().splitlines()) == 2, done.err
    assert "did you mean 'run'?" in sh("runn").err


def test_status_stop_and_logs(sh: CliShell) -> None:
    sh.ok("run", "!say hello")
    assert "running at unix:" in sh.ok("status")
    told = sh("status", "--json").json
    assert told["server"]["version"] == __version__
    assert [workspace["path"] for workspace in told["workspaces"]] == [str(sh.work)]
    assert "listening at unix:" in sh.ok("logs")
    assert len(sh.ok("logs", "-n", "1").splitlines()) == 1
    assert sh.ok("stop", "--if-idle") == "stopped"
    assert sh.ok("stop") == "no server is running"
    assert sh("status").status == 1
    assert not sh.locations.socket.exists()


def test_logs_follow_what_is_written(sh: CliShell) -> None:
    sh.ok("run", "!say hello")
    following = sh.start("logs", "-f", "-n", "1")
    following.until("\n")
    sh.ok("stop")
    following.until("stopped")
    following.signal()
    assert following.end().status == 130


def test_sessions_are_listed_shown_renamed_searched_exported_forked_and_deleted(sh: CliShell) -> None:
    session = sh("run", "--output", "json", "!say a needle in the hay").json["session_id"]
    assert session in sh.ok("sessions", "list")
    assert sh.ok("sessions", "list", "-n", "1", "--json").count('"id"') == 1
    shown = sh.ok("sessions", "show", session)
    assert "> !say a needle in the hay" in shown
    assert sh("sessions", "show", "--json").json["session"]["id"] == session
    assert sh.ok("sessions", "rename", session, "Another", "title") == f"{session}  Another title"
    assert "needle" in sh.ok("sessions", "search", "needle")
    assert sh("sessions", "search", "needle", "--everywhere", "--json").json[0]["session_id"] == session
    assert sh.ok("sessions", "export", session).startswith("# Another title")
    target = sh.base / "exported.json"
    sh.ok("sessions", "export", session, "--format", "json", "-o", str(target))
    assert json.loads(target.read_text())["session"]["id"] == session
    assert sh("sessions", "export", session, "-o", str(target)).status == 2
    fork = sh.ok("sessions", "fork", session)
    assert sh("sessions", "show", fork, "--json").json["session"]["forked_from"] == session
    assert sh("sessions", "delete", fork).status == 2
    assert sh.ok("sessions", "delete", fork, "--yes") == f"deleted {fork}"
    assert sh("sessions", "show", fork).status == 1


def test_changes_undo_and_redo(sh: CliShell) -> None:
    made = sh.work / "made.txt"
    sh.ok("run", "--mode", "accept_edits", "!write made.txt")
    assert made.read_text() == "this is made.txt\n"
    assert "+this is made.txt" in sh.ok("changes")
    assert sh.ok("changes", "--names") == "created   made.txt"
    assert sh("changes", "--json").json[0]["state"] == "applied"
    assert "made.txt" in sh.ok("undo")
    assert not made.exists()
    assert "(undone)" in sh.ok("changes", "--names")
    assert sh("redo", "--json").json["state"] == "completed"
    assert made.exists()


def test_a_queue_is_shown_changed_paused_and_resumed(sh: CliShell) -> None:
    session = sh("run", "--detach", "--output", "json", "!gate queue").json["run"]["session_id"]
    first, second, third = (sh.ok("run", "--detach", "--session", session, f"!say {n}") for n in ("1", "2", "3"))
    listed = sh.ok("queue", "list", session)
    assert [line.split()[0] for line in listed.splitlines()[1:]] == [first, second, third]
    assert sh.ok("queue", "edit", second, "!say", "two") == f"{second}  !say two"
    assert sh.ok("queue", "move", third, "1").splitlines()[1].startswith(third)
    assert "cancelled" in sh.ok("queue", "remove", first)
    assert sh.ok("pause", session) == "the queue is paused by the user"
    assert "paused by the user" in sh.ok("queue", "list", session)
    sh.open("queue")
    assert sh.ok("resume", session).startswith("resumed")
    assert [sh.ok("wait", run) for run in (third, second)] == ["3", "two"]
    assert sh("wait", first).status == 130
    assert sh.ok("queue", "list", session) == "no run is active or queued"
    assert sh("queue", "list", session, "--json").json["run_ids"] == []


def test_cancel_takes_a_session_a_run_or_what_is_active(sh: CliShell) -> None:
    session = sh("run", "--detach", "--output", "json", "!hang").json["run"]["session_id"]
    behind = sh.ok("run", "--detach", "--session", session, "!say behind")
    assert "was active" in sh.ok("cancel", session, "--active")
    assert sh.ok("wait", behind) == "behind"
    hanging = sh.ok("run", "--detach", "--session", session, "--run-id", "my-own-name", "!hang")
    assert [run["run_id"] for run in sh("cancel", hanging, "--json").json["runs"]] == ["my-own-name"]
    sh.ok("run", "--detach", "--session", session, "!hang")
    assert "cancelled" in sh.ok("cancel")
    assert sh.ok("cancel") == "no runs were active or queued"
    assert sh("cancel", "run_nobody").status == 1


def test_models_and_keys(sh: CliShell) -> None:
    assert re.search(r"^\* +test/test-model", sh.ok("models"), re.MULTILINE)
    assert "holdfast key set anthropic" in sh.ok("models", "--all")
    assert sh("models", "--json").json["large"] == "test/test-model"
    assert sh("key", "test", "anthropic").status == 3
    assert "stored" in sh.ok("key", "set", "anthropic", given="sk-secret-never-shown\n")
    told = sh("models", "--all").out + sh("models", "--json").out + sh("doctor").out + sh("doctor", "--json").out
    assert "key from" in told
    assert "sk-secret-never-shown" not in told
    assert sh.ok("key", "forget", "anthropic") == "removed"
    assert "holdfast key set anthropic" in sh.ok("models", "--all")
    assert "test/test-model answered" in sh.ok("key", "test", "test")
    assert sh("key", "set", "anthropic", given="").status == 2


def test_configuration_is_read_changed_and_edited(sh: CliShell) -> None:
    assert sh.ok("config", "path") == str(sh.locations.config_file)
    assert sh.ok("config", "get", "limits.max_steps") == "200"
    assert sh.ok("config", "set", "limits.max_steps", "50") == "limits.max_steps = 50"
    assert "limits.max_steps" in sh.ok("config", "get")
    sh.ok("config", "set", "approvals.allow", '["bash: true"]')
    assert sh("config", "get", "approvals.allow", "--json").json == ["bash: true"]
    sh.ok("config", "set", "approvals.allow", "--unset")
    sh.ok("config", "set", "limits.max_steps", "--unset")
    assert sh("config", "get", "--json").json["values"]["limits"]["max_steps"] == 200
    assert "did you mean 'limits.max_steps'" in sh("config", "get", "limits.max_stepz").err
    assert sh("config", "set", "limits.max_steps", "many").status == 3
    assert sh("config", "set", "limits.max_steps").status == 2
    assert sh("config", "schema").json["type"] == "object"
    assert sh.ok("config", "edit", env={"EDITOR": "true"}) == "the settings are valid"
    before = sh.locations.config_file.read_text()
    try:
        spoiled = sh("config", "edit", env={"EDITOR": "sh -c 'echo nonsense = 1 >> \"$0\"'"})
        assert spoiled.status == 3
        assert "nonsense" in spoiled.err
    finally:
        sh.locations.config_file.write_text(before)


def test_approvals_are_answered_from_another_shell(sh: CliShell) -> None:
    assert sh.ok("approvals", "list") == "no approvals or questions are pending in this directory"
    done = sh("approvals", "answer", "apr_nobody", "once")
    assert (done.status, done.out) == (1, "")


def test_trust_is_given_and_taken_back(sh: CliShell) -> None:
    assert sh.ok("trust") == f"{sh.work} is trusted"
    assert not sh("trust", "--revoke", "--json").json["trusted"]


def test_backup_copies_the_database_while_it_is_used(sh: CliShell) -> None:
    sh.ok("run", "!say hello")
    target = sh.base / "copy.db"
    assert sh("backup", str(target), "--json").json["size"] == target.stat().st_size
    assert sh("backup", str(target)).status == 2
    assert target.read_bytes().startswith(b"SQLite format 3")


def test_doctor_says_what_is_found_and_what_to_do(sh: CliShell) -> None:
    told = sh.ok("doctor")
    for words in ("version", "database: ", "running at unix:", "default model: test/test-model", "bash: "):
        assert words in told
    areas = {finding["area"] for finding in sh("doctor", "--json").json}
    assert areas == {"holdfast", "places", "server", "configuration", "models", "tools", "sandbox", "terminal"}


def test_doctor_finds_a_broken_configuration() -> None:
    with open_shell() as sh:
        sh.locations.config_file.write_text("[limits]\nmax_stepz = 3\n")
        done = sh("doctor")
        assert done.status == 1
        assert "max_stepz" in done.out
        sh.locations.config_file.write_text("")


def test_stats_are_drawn(sh: CliShell) -> None:
    sh.ok("run", "!bash echo counted")
    told = sh.ok("stats", "--days", "7")
    assert re.search(r"test/test-model +█+", told)
    assert re.search(r"bash +█+", told)
    assert "by day" in told
    assert sh("stats", "--json").json["models"][0]["model"] == "test/test-model"


def test_attach_tells_a_session_that_is_idle_and_leaves(sh: CliShell) -> None:
    session = sh("run", "--output", "json", "!bash echo attached").json["session_id"]
    done = sh("attach", session, "--until-idle", "--all")
    assert (done.status, done.out.startswith("I begin.")) == (0, True)
    assert "> !bash echo attached" in done.err
    assert "✓ bash echo attached" in done.err


def test_serve_listens_where_it_is_told_and_says_where_the_token_is() -> None:
    with open_shell() as sh:
        token_file = sh.base / "token"
        server = sh.start("serve", "--listen", "127.0.0.1:0", "--token-file", str(token_file))
        told = server.until("token in ")
        address = next(line for line in told.splitlines() if line.startswith("http://"))
        there = {"HOLDFAST_SERVER": address, "HOLDFAST_TOKEN": token_file.read_text().strip()}
        assert sh.ok("run", "!say over tcp", env=there) == "over tcp"
        assert sh("run", "x", env={"HOLDFAST_SERVER": address}).status == 3
        second = sh("serve")
        assert (second.status, second.out) == (75, "")
        assert sh("serve", "--listen", "0.0.0.0:0").status in (3, 75)
        sh.ok("stop")
        assert server.end().status == 0


@pytest.mark.parametrize("make", [bash, zsh, fish])
def test_completion_knows_every_command(make: Callable[[dict[str, Completions]], str]) -> None:
    commands = {name: completions_of(parser_of(command), command.summary) for name, command in all_commands().items()}
    script = make(commands)
    assert [command for command in commands if command not in script] == []
    assert "output-schema" in script


def test_bash_completes_with_it(sh: CliShell) -> None:
    script = sh.ok("completion", "bash")
    program = f"{script}\nCOMP_WORDS=(holdfast run --out); COMP_CWORD=2; _holdfast; echo ${{COMPREPLY[*]}}"
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout.split() == ["--output", "--output-schema"]


def test_another_directory_can_be_named(sh: CliShell, tmp_path: Path) -> None:
    assert sh("-C", str(tmp_path), "run", "--output", "json", "!say there").json["text"] == "there"
    assert sh("sessions", "list", "-C", str(tmp_path), "--json").json[0]["title"]
    assert sh("-C", str(tmp_path / "absent"), "status").status == 2
