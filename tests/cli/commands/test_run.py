"""`holdfast run`: where its output goes, and its options."""

import json
from pathlib import Path

import pytest

from tests.cli.cli_shell import CliShell


def test_text_goes_to_stdout_and_everything_else_to_stderr(sh: CliShell) -> None:
    done = sh("run", "!bash", "echo", "hello")
    assert done.status == 0
    assert done.out.startswith("I begin.\n\ndone: hello")
    assert done.out.endswith("\n")
    assert "✓ bash echo hello" in done.err
    assert "\x1b" not in done.out + done.err


def test_stdin_is_added_to_the_prompt(sh: CliShell) -> None:
    assert sh.ok("run", "!echo", "this:", given="from the pipe\n") == "!echo this:\n\nfrom the pipe"
    assert sh.ok("run", given="!echo only the pipe") == "!echo only the pipe"
    assert sh.ok("run", "-", given="!echo a dash") == "!echo a dash"


def test_options_may_be_between_the_words_of_the_prompt(sh: CliShell) -> None:
    assert sh.ok("run", "!echo", "--mode", "plan", "one", "two") == "!echo one two"
    assert sh.ok("run", "--", "!echo", "--mode") == "!echo --mode"


def test_output_json_is_one_result_object(sh: CliShell) -> None:
    found = sh("run", "--output", "json", "!say hello").json
    assert (found["kind"], found["version"], found["exit_code"]) == ("result", 1, 0)
    assert (found["state"], found["reason"], found["text"]) == ("completed", "end_turn", "hello")
    assert (found["decision"], found["steps"], found["error"]) == ("started", 1, None)
    assert found["usage"] == {
        "input": 100,
        "output": 20,
        "cache_read": 0,
        "cache_write": 0,
        "cost": pytest.approx(0.0003),
        "estimated": False,
    }
    assert found["run_id"].startswith("run_")
    assert found["session_id"].startswith("ses_")


def test_output_jsonl_is_the_events_and_then_one_result(sh: CliShell) -> None:
    lines = [json.loads(line) for line in sh.ok("run", "--output", "jsonl", "!bash echo hi").splitlines()]
    kinds = [line["kind"] for line in lines]
    assert kinds[-2:] == ["run.finished", "result"]
    assert kinds.index("run.accepted") < kinds.index("run.started") < kinds.index("message.finished")
    assert not {"hello", "heartbeat", "client.attached"} & set(kinds)
    assert lines[-1]["text"] == lines[-2]["run"]["text"]
    texts = [
        part["text"]
        for line in lines
        if line["kind"] == "message.finished"
        for part in line["message"]["parts"]
        if part["type"] == "text" and line["message"]["role"] == "assistant"
    ]
    assert texts == ["I begin.", lines[-1]["text"]]


def test_continue_uses_the_last_session(sh: CliShell) -> None:
    first = sh("run", "--output", "json", "!say one").json
    second = sh("run", "--output", "json", "--continue", "!say two").json
    assert second["session_id"] == first["session_id"]
    other = sh("run", "--output", "json", "!say three").json
    assert other["session_id"] != first["session_id"]
    named = sh("run", "--output", "json", "--session", first["session_id"], "!say four").json
    assert named["session_id"] == first["session_id"]


def test_continue_without_a_session_fails(sh: CliShell, tmp_path: Path) -> None:
    done = sh("run", "--continue", "hello", cwd=tmp_path)
    assert (done.status, done.out) == (1, "")
    assert "no session" in done.err


@pytest.mark.promise("R3")
def test_a_repeated_run_id_is_the_same_run(sh: CliShell) -> None:
    first = sh("run", "--run-id", "deploy-1", "--output", "json", "!bash date +%N").json
    again = sh("run", "--run-id", "deploy-1", "--output", "json", "!bash date +%N").json
    assert again["text"] == first["text"]
    assert sh.ok("run", "--run-id", "deploy-1", "!bash date +%N").endswith(first["text"])
    other = sh("run", "--run-id", "deploy-1", "something else")
    assert (other.status, other.out) == (1, "")
    assert "deploy-1" in other.err


def test_detach_prints_the_id_for_wait(sh: CliShell) -> None:
    run_id = sh.ok("run", "--detach", "!gate detached")
    assert run_id.startswith("run_")
    late = sh("wait", run_id, "--timeout", "0.2s")
    assert (late.status, late.out) == (124, "")
    sh.open("detached")
    assert sh.ok("wait", run_id) == "before the gate, after the gate"
    assert sh("wait", run_id, "--output", "json").json["state"] == "completed"


def test_the_last_message_is_written_to_a_file(sh: CliShell, tmp_path: Path) -> None:
    sh.ok("run", "--last-message", str(tmp_path / "last"), "!bash echo hi")
    assert (tmp_path / "last").read_text().startswith("done: hi")
    done = sh("run", "--last-message", str(tmp_path / "absent" / "last"), "!say hello")
    assert (done.status, done.out) == (2, "")


def test_output_schema_decodes_the_answer(sh: CliShell, tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "object"}')
    words = ("run", "--output", "json", "--output-schema", str(schema))
    assert sh(*words, '!say {"a": 1}').json["output"] == {"a": 1}
    bad = sh(*words, "!say no json")
    assert (bad.status, bad.json["exit_code"], bad.json["state"]) == (1, 1, "failed")
    assert (bad.json["reason"], bad.json["output"]) == ("output_schema", None)
    assert "the answer does not match the schema: it is not JSON" in bad.err
    schema.write_text("[]")
    assert sh(*words, "!say x").status == 2
    schema.write_text('{"items": {"$ref": "#"}, "type": "array"}')
    assert sh(*words, "!say [[], [[]]]").json["output"] == [[], [[]]]
    for wrong in ('{"$ref": "http://127.0.0.1:9/schema"}', '{"type": "nonsense"}'):
        schema.write_text(wrong)
        refused = sh(*words, "!say x")
        assert (refused.status, "output_schema is not a valid JSON Schema" in refused.err) == (2, True)


def test_output_schema_prints_only_an_answer_that_matches(sh: CliShell, tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "object"}')
    words = ("run", "--output-schema", str(schema))
    assert sh.ok(*words, "!corrected").strip() == '{"a": 1}'
    bad = sh(*words, "!say no json")
    assert (bad.status, bad.out) == (1, "")
    assert "the answer does not match the schema" in bad.err


def test_attached_files_are_sent(sh: CliShell, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("the notes say: attached")
    assert "the notes say: attached" in sh.ok("run", "--attach", str(tmp_path / "notes.txt"), "!echo")
    missing = sh("run", "--attach", str(tmp_path / "absent"), "!echo")
    assert missing.status == 2
    assert "absent" in missing.err


def test_quiet_prints_only_errors_to_stderr(sh: CliShell) -> None:
    done = sh("run", "--quiet", "!bash echo hello")
    assert (done.status, done.err) == (0, "")
    failed = sh("run", "--quiet", "!status 400")
    assert failed.status == 1
    assert failed.err


def test_a_closed_pipe_does_not_end_the_run(sh: CliShell) -> None:
    done = sh.start("run", "!bash touch finished").close_pipe()
    assert done.status == 4  # nobody could be asked, so it was denied: the run's own end
    assert "Traceback" not in done.err


def test_other_commands_exit_silently_when_the_pipe_is_closed(sh: CliShell) -> None:
    done = sh.start("--help").close_pipe()
    assert (done.status, done.err) == (0, "")


@pytest.mark.promise("R13")
def test_a_retry_is_noted_and_its_text_is_printed_once(sh: CliShell) -> None:
    done = sh("run", "!retry")
    assert (done.status, done.out) == (0, "at last\n")
    assert "rate_limit" in done.err


def test_an_answer_that_goes_on_after_the_output_limit_is_printed_as_one_text(sh: CliShell) -> None:
    assert sh.ok("run", "!halves") == "and here is the first and the second half"


def test_a_traceback_is_printed_only_with_debug(sh: CliShell) -> None:
    done = sh("run", "--session", "ses_nobody", "hello")
    assert done.status == 1
    assert len(done.err.strip().splitlines()) == 2
    asked = sh.start("run", "--debug", "--session", "ses_nobody", "hello").end()
    assert "Traceback" in asked.err


def test_a_retry_note_names_the_wait(sh: CliShell) -> None:
    done = sh("run", "!retry in a pipe")
    assert (done.status, done.out) == (0, "at last\n")
    assert "retrying in 1 s" in done.err


def test_verbose_prints_the_output_of_tools_and_the_task_list(sh: CliShell) -> None:
    assert "│" not in sh("run", "--mode", "auto", "!bash seq 3").err
    done = sh("run", "--json", "--mode", "auto", "--verbose", "!bash seq 3")
    assert [line for line in done.err.splitlines() if "│" in line][:3] == ["  │ 1", "  │ 2", "  │ 3"]
    assert "  │ 2" in sh("attach", done.json["session_id"], "--until-idle", "-v").err
    assert "  [>] find out" in sh("run", "-v", "!todos find out").err.splitlines()
    edited = sh("run", "--mode", "auto", "-v", "!write new.txt").err
    assert "  │ +this is new.txt" in edited.splitlines()
    assert sh("run", "-q", "-v", "x").status == 2


def test_an_effort_that_the_model_does_not_have_is_refused(sh: CliShell) -> None:
    refused = sh("run", "--effort", "high", "!say hello")
    assert refused.status == 2
    assert "'test/test-model' has no effort 'high'; known: off" in refused.err
    assert sh.ok("run", "--effort", "off", "!say hello") == "hello"
