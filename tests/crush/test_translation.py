"""The pure translation between our values and Crush's."""

import json
from pathlib import Path

import pytest

from holdfast.crush.config_translation import agent_body, config_body
from holdfast.crush.crush_address import crush_socket
from holdfast.crush.diff_contents import contents_of_diff, count_changes
from holdfast.crush.event_translation import EventTranslator, question_request, run_complete
from holdfast.crush.message_translation import message_body
from holdfast.crush.tool_translation import permission_request, tool_input
from holdfast.errors import ConfigError
from holdfast.schema.api.response_bodies import ModelsView, ModelView, ProviderView
from holdfast.schema.approvals import Approval, Question, QuestionItem
from holdfast.schema.events import (
    ApprovalResolved,
    Delta,
    MessageCreated,
    MessageFinished,
    OpenPart,
    RunFinished,
    Snapshot,
)
from holdfast.schema.messages import (
    Context,
    File,
    Finish,
    Message,
    Part,
    Reasoning,
    Shell,
    Text,
    ToolCall,
    ToolResult,
)
from holdfast.schema.runs import Run, RunError

AT = "2026-01-02T03:04:05.678Z"
SECONDS = 1767323045
DIFF = "--- a/f\n+++ b/f\n@@ -3,3 +3,3 @@\n keep\n-old\n+new\n last\n"


def message(*parts: Part, role: str = "assistant") -> Message:
    return Message("msg_1", "ses_1", "run_1", role, 2, AT, parts, model="test/some/model")  # type: ignore[arg-type]


def translator() -> EventTranslator:
    return EventTranslator(directory="/work", workspace_id="wsp_1")


def approval(tool: str = "bash", **fields: object) -> Approval:
    return Approval("apr_1", "wsp_1", "ses_1", "ses_1", "run_1", "call_1", tool, "make it", **fields)  # type: ignore[arg-type]


def test_an_answer_has_one_reasoning_one_text_its_calls_and_its_finish() -> None:
    parts = (
        Reasoning("I think", duration=2.0),
        Text("one "),
        ToolCall("call_1", "edit", {"path": "f", "old_text": "a", "new_text": "b"}),
        Text("two"),
        Finish("tool_use"),
    )
    body = message_body(message(*parts))
    assert (body["provider"], body["model"], body["created_at"]) == ("test", "some/model", SECONDS)
    kinds = [(part["type"], part["data"]) for part in body["parts"]]
    call = {"file_path": "f", "old_string": "a", "new_string": "b"}
    assert kinds == [
        ("reasoning", {"thinking": "I think", "signature": "", "started_at": SECONDS, "finished_at": SECONDS + 2}),
        ("text", {"text": "one two"}),
        ("tool_call", {"id": "call_1", "name": "edit", "input": json.dumps(call), "finished": True}),
        ("finish", {"reason": "tool_use", "time": SECONDS}),
    ]


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("cancelled", {"reason": "canceled"}),
        ("refused", {"reason": "content_filter"}),
        ("interrupted", {"reason": "error", "message": "Interrupted", "details": "why"}),
        ("error", {"reason": "error", "message": "The request failed", "details": "why"}),
    ],
)
def test_finish_reasons_are_those_that_the_client_knows(reason: str, expected: dict[str, str]) -> None:
    body = message_body(message(Finish(reason, "why")))  # type: ignore[arg-type]
    assert body["parts"] == [{"type": "finish", "data": {"time": SECONDS, **expected}}]


def test_prompts_show_text_and_files_and_nothing_that_is_meant_for_the_model() -> None:
    parts = (Context(("system prompt",)), Text("hello"), File("f.txt", "text/plain", text="né"))
    body = message_body(message(*parts, role="user"))
    assert [part["type"] for part in body["parts"]] == ["text", "binary", "finish"]
    assert body["parts"][1]["data"] == {"Path": "f.txt", "MIMEType": "text/plain", "Data": "bsOp"}
    shell = message_body(message(Shell("ls", "out", 2), role="user"))
    assert shell["parts"][0] == {"type": "shell_command", "data": {"command": "ls", "output": "out", "exit_code": 2}}


def test_a_result_has_what_the_client_draws() -> None:
    results = (
        ToolResult("c1", "edit", display={"diff": DIFF}),
        ToolResult("c2", "bash", "error", "no", duration=3.0),
        ToolResult("c3", "view", text="   1\tfirst\n   2\tsecond", display={"path": "f"}),
    )
    body = message_body(message(*results, role="tool"))
    found = [part["data"] for part in body["parts"][:-1]]
    metadata = [json.loads(one["metadata"]) for one in found]
    assert metadata[0]["new_content"].split("\n") == ["", "", "keep", "new", "last", ""]
    assert (metadata[0]["additions"], metadata[0]["removals"]) == (1, 1)
    assert (found[1]["is_error"], metadata[1]["output"]) == (True, "no")
    assert metadata[2] == {"file_path": "f", "content": "first\nsecond"}


def test_a_diff_gives_both_texts_with_right_line_numbers() -> None:
    assert contents_of_diff(DIFF) == ("\n\nkeep\nold\nlast\n", "\n\nkeep\nnew\nlast\n")
    assert contents_of_diff("--- /dev/null\n+++ b/f\n@@ -0,0 +1,2 @@\n+a\n+b\n") == ("", "a\nb\n")
    assert (contents_of_diff(""), count_changes(DIFF)) == (("", ""), (1, 1))


def test_arguments_of_tools_have_the_names_of_the_client() -> None:
    edits = tool_input("multiedit", {"path": "f", "edits": [{"old_text": "a", "new_text": "b"}]})
    assert edits == {"file_path": "f", "edits": [{"old_string": "a", "new_string": "b"}]}
    todos = tool_input("todos", {"todos": [{"text": "x", "status": "pending"}]})
    assert todos == {"todos": [{"active_form": "", "content": "x", "status": "pending"}]}
    assert tool_input("unknown", {"a": 1}) == {"a": 1}


def test_permission_requests_have_the_parameters_of_their_tool() -> None:
    found = permission_request(approval("edit", display={"diff": DIFF}), directory="/work")
    assert found["params"]["file_path"] == "/work/make it"
    assert found["params"]["old_content"].endswith("keep\nold\nlast\n")
    command = permission_request(approval(why="it writes"), directory="/work")
    assert (command["params"]["command"], command["description"], command["path"]) == ("make it", "it writes", "/work")
    assert permission_request(approval("some_mcp__tool"), directory="/work")["params"] == {
        "title": "make it",
        "why": "",
    }


@pytest.mark.parametrize(
    ("state", "decision", "granted"),
    [("answered", "once", True), ("answered", "deny", False), ("cancelled", None, False), ("expired", None, False)],
)
def test_every_end_of_an_approval_closes_its_dialog(state: str, decision: str | None, granted: bool) -> None:
    (found,) = translator().apply(ApprovalResolved(AT, "ses_1", approval(state=state, decision=decision)))
    assert found["payload"]["payload"] == {"tool_call_id": "call_1", "granted": granted, "denied": not granted}


def test_live_text_becomes_one_update_with_the_whole_message() -> None:
    events = translator()
    (created,) = events.apply(MessageCreated(AT, "ses_1", message()))
    assert (created["type"], created["payload"]["type"]) == ("message", "created")
    for offset, text in ((0, "Hel"), (3, "lo")):
        assert events.apply(Delta(AT, "ses_1", "msg_1", 0, 1, "text", offset, text)) == []
    call = OpenPart(1, 1, "arguments", '{"comm', call_id="call_1", name="bash")
    events.apply(Snapshot(AT, "ses_1", "msg_1", (OpenPart(0, 1, "text", "Hello"), call)))
    (update,) = events.take_updates()
    assert [part["data"] for part in update["payload"]["payload"]["parts"]] == [
        {"text": "Hello"},
        {"id": "call_1", "name": "bash", "input": '{"comm'},
    ]
    assert events.take_updates() == []
    (end,) = events.apply(MessageFinished(AT, "ses_1", message(Text("Hello"), Finish("end_turn"))))
    assert end["payload"]["payload"]["parts"][0]["data"] == {"text": "Hello"}
    assert not events.knows("msg_1")


def test_results_are_created_when_they_are_there() -> None:
    events = translator()
    assert events.apply(MessageCreated(AT, "ses_1", message(role="tool"))) == []
    for results in ((ToolResult("c1", "ls"),), (ToolResult("c1", "ls"), ToolResult("c2", "ls"))):
        (found,) = events.apply(MessageFinished(AT, "ses_1", message(*results, role="tool")))
        assert (found["payload"]["type"], len(found["payload"]["payload"]["parts"])) == ("created", len(results) + 1)


def test_a_prompt_is_created_once_it_has_content() -> None:
    events = translator()
    assert events.apply(MessageCreated(AT, "ses_1", message(role="user"))) == []
    shell = MessageFinished(AT, "ses_1", message(Shell("ls", "out", 0), role="user"))
    assert [events.apply(shell)[0]["payload"]["type"] for _ in range(2)] == ["created", "updated"]
    assert events.apply(shell, again=True)[0]["payload"]["type"] == "updated"


def test_a_new_attempt_replaces_the_text() -> None:
    events = translator()
    events.apply(MessageCreated(AT, "ses_1", message()))
    events.apply(Delta(AT, "ses_1", "msg_1", 0, 1, "text", 0, "wrong"))
    events.apply(Delta(AT, "ses_1", "msg_1", 0, 2, "text", 0, "right"))
    (update,) = events.take_updates()
    assert update["payload"]["payload"]["parts"][0]["data"] == {"text": "right"}


def test_messages_of_a_sub_agent_name_the_call_that_started_it() -> None:
    events = translator()
    events.apply(MessageCreated(AT, "ses_1", message(ToolCall("call_1", "agent", {}, child_session_id="ses_child"))))
    child = Message("msg_2", "ses_child", "run_2", "assistant", 1, AT)
    (found,) = events.apply(MessageCreated(AT, "ses_child", child))
    assert found["payload"]["payload"]["session_id"] == "msg_1$$call_1"


def run(**fields: object) -> Run:
    return Run(**{"id": "own", "session_id": "ses_1", "seq": 1, "state": "completed", **fields})  # type: ignore[arg-type]


def test_the_end_of_a_run_echoes_only_ids_that_a_client_chose() -> None:
    assert run_complete(run(text="done", message_id="m"))["run_id"] == "own"
    assert "run_id" not in run_complete(run(id="run_" + "0" * 25))
    failed = run_complete(run(state="failed", error=RunError("auth", "no key")))
    assert (failed["error"], "cancelled" in failed) == ("no key", False)
    cancelled = run_complete(run(state="cancelled", text="part"))
    assert (cancelled["cancelled"], cancelled["text"], "error" in cancelled) == (True, "part", False)


def test_runs_that_joined_or_belong_to_sub_agents_have_no_end_of_their_own() -> None:
    for other in (run(host_run_id="x"), run(parent_run_id="x"), run(kind="shell")):
        assert translator().apply(RunFinished(AT, "ses_1", other)) == []
    kinds = [one["type"] for one in translator().apply(RunFinished(AT, "ses_1", run()))]
    assert kinds == ["run_complete", "agent_event"]
    assert [one["type"] for one in translator().apply(RunFinished(AT, "ses_1", run()), again=True)] == ["run_complete"]


def test_items_of_a_question_name_the_question() -> None:
    items = (QuestionItem("Which?", "single", ("a", "b")), QuestionItem("Sure?", "yes_no"))
    found = question_request(Question("qst_1", "wsp_1", "ses_1", "ses_1", "run_1", "call_1", items))
    assert [(one["id"], one["type"]) for one in found["questions"]] == [
        ("qst_1:0", "single_choice"),
        ("qst_1:1", "yes_no"),
    ]
    assert found["questions"][0]["choices"] == [{"id": "0", "label": "a"}, {"id": "1", "label": "b"}]


def test_the_configuration_names_models_and_no_keys() -> None:
    provider = ProviderView(id="test", wire="anthropic", active=True, key="from the environment")
    models = ModelsView((provider, ProviderView(id="off")), (ModelView(name="test/m", provider="test"),), "test/other")
    body = config_body(models, large="test/other", small=None, data_directory="/d", options={"tui": {"x": 1}})
    assert body["models"]["small"] == {"model": "other", "provider": "test"}
    assert list(body["providers"]) == ["test"]
    assert [model["id"] for model in body["providers"]["test"]["models"]] == ["m", "other"]
    assert body["options"]["disable_metrics"]
    assert "environment" not in json.dumps(body)
    assert not agent_body(ModelsView(), large=None, busy=False)["is_ready"]


def test_addresses_are_unix_sockets() -> None:
    assert crush_socket("unix:///run/c.sock", {}, uid=7) == Path("/run/c.sock")
    assert crush_socket("auto", {"XDG_RUNTIME_DIR": "/run/user/7"}, uid=7) == Path("/run/user/7/crush-7.sock")
    assert crush_socket("auto", {"XDG_RUNTIME_DIR": "/" + "d" * 110}, uid=7) == Path("/tmp/crush-7.sock")
    for wrong in ("tcp://127.0.0.1:1", "unix://relative", "/path", "", "unix:///" + "d" * 110):
        with pytest.raises(ConfigError):
            crush_socket(wrong, {}, uid=7)
