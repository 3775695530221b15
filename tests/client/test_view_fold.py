"""What clients show follows from the server's values and the events since."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.client.view_fold import SessionSnapshot, ViewFold
from holdfast.client.view_values import (
    Block,
    CallBlock,
    NoticeBlock,
    PromptBlock,
    ShellBlock,
    SummaryBlock,
    TextBlock,
    ThinkingBlock,
    TurnEndBlock,
)
from holdfast.schema.approvals import Approval
from holdfast.schema.base import Unknown
from holdfast.schema.events import (
    ApprovalRequested,
    ApprovalResolved,
    Delta,
    Hello,
    MessageCreated,
    MessageFinished,
    OpenPart,
    QueueChanged,
    Reset,
    RunAccepted,
    RunFinished,
    RunProgress,
    RunStarted,
    SessionCreated,
    SessionDeleted,
    Snapshot,
)
from holdfast.schema.messages import File, Message, Notice, Reasoning, Shell, Summary, Text, ToolCall, ToolResult
from holdfast.schema.runs import Now, Queue, Run, RunError
from holdfast.schema.sessions import Session
from holdfast.schema.usage import Usage

AT = "2026-01-01T00:00:00.000Z"
SESSION = Session("ses_1", "wsp_1", title="one")


def message(seq: int, role: Any, *parts: Any, run_id: str = "run_1", **fields: Any) -> Message:
    return Message(f"msg_{seq}", "ses_1", run_id, role, seq, AT, tuple(parts), **fields)


def run(run_id: str = "run_1", state: Any = "active", **fields: Any) -> Run:
    seq = int(run_id.removeprefix("run_"))
    return Run(id=run_id, session_id="ses_1", seq=seq, state=state, started_at=AT, prompt=f"prompt {seq}", **fields)


def opened(*messages: Message, runs: tuple[Run, ...] = (), **fields: Any) -> ViewFold:
    fold = ViewFold()
    fold.open_session(SessionSnapshot(session=SESSION, messages=messages, runs=runs, **fields))
    return fold


def blocks(fold: ViewFold, session_id: str = "ses_1") -> tuple[Block, ...]:
    transcript = fold.transcript(session_id)
    assert transcript is not None
    return transcript.view().blocks


def delta(seq: int, part: int, text: str, *, offset: int = 0, attempt: int = 1, of: Any = "text") -> Delta:
    return Delta(AT, "ses_1", f"msg_{seq}", part, attempt, of, offset, text)


def test_a_prompt_shows_its_text_its_files_and_its_sender() -> None:
    parts = (Text("look at this"), File("a.png", "image/png", data="AA=="))
    fold = opened(message(1, "user", *parts), runs=(run(client="tui/1 me"),))
    (block,) = blocks(fold)
    assert isinstance(block, PromptBlock)
    assert (block.text, block.attachments[0].name, block.client) == ("look at this", "a.png", "tui/1 me")
    assert not block.steered


def test_streamed_text_is_shown_before_it_is_stored_and_the_stored_text_wins() -> None:
    fold = opened(message(1, "user", Text("hi")), message(2, "assistant"))
    fold.apply(delta(2, 0, "Hel"))
    fold.apply(delta(2, 0, "lo", offset=3))
    assert blocks(fold)[-1] == TextBlock(id="msg_2.0", run_id="run_1", text="Hello", open=True)
    fold.apply(MessageFinished(AT, "ses_1", message(2, "assistant", Text("Hello."))))
    assert blocks(fold)[-1] == TextBlock(id="msg_2.0", run_id="run_1", text="Hello.")


def test_a_delta_that_does_not_continue_the_text_is_a_gap() -> None:
    fold = opened(message(2, "assistant"))
    assert "gap" in fold.apply(delta(2, 0, "lo", offset=3))


def test_a_new_attempt_replaces_the_text() -> None:
    fold = opened(message(2, "assistant"))
    fold.apply(delta(2, 0, "first"))
    fold.apply(delta(2, 0, "sec", attempt=2))
    assert [block.text for block in blocks(fold) if isinstance(block, TextBlock)] == ["sec"]


def test_a_new_connection_drops_open_text_until_its_snapshot_arrives() -> None:
    fold = opened(message(2, "assistant"))
    fold.apply(delta(2, 0, "some text"))
    fold.apply(Hello(AT, "c.1", 10.0))
    assert blocks(fold) == ()
    fold.apply(Snapshot(AT, "ses_1", "msg_2", (OpenPart(0, 1, "text", "some text and more"),)))
    assert [block.text for block in blocks(fold) if isinstance(block, TextBlock)] == ["some text and more"]


def test_a_call_goes_from_written_to_waiting_to_running_to_done() -> None:
    fold = opened(message(2, "assistant"))

    def call() -> CallBlock:
        (found,) = blocks(fold)
        assert isinstance(found, CallBlock)
        return found

    fold.apply(Snapshot(AT, "ses_1", "msg_2", (OpenPart(0, 1, "arguments", '{"comm', "call_1", "bash"),)))
    assert (call().state, call().name, call().written) == ("writing", "bash", '{"comm')
    wanted = ToolCall("call_1", "bash", {"command": "make"})
    fold.apply(MessageFinished(AT, "ses_1", message(2, "assistant", wanted)))
    assert (call().state, call().title) == ("running", "make")
    approval = Approval("apr_1", "wsp_1", "ses_1", "ses_1", "run_1", "call_1", "bash", "make")
    fold.apply(ApprovalRequested(AT, "ses_1", approval))
    assert (call().state, call().ask_id, len(fold.asks)) == ("waiting", "apr_1", 1)
    answered = Approval("apr_1", "wsp_1", "ses_1", "ses_1", "run_1", "call_1", "bash", "make", state="answered")
    fold.apply(ApprovalResolved(AT, "ses_1", answered))
    assert (call().state, fold.asks) == ("running", ())
    fold.apply(Snapshot(AT, "ses_1", "msg_2", (OpenPart(0, 1, "output", "cc\n", "call_1", "bash"),)))
    fold.apply(delta(2, 0, "ld\n", offset=3, of="output"))
    assert call().output == "cc\nld\n"
    result = ToolResult("call_1", "bash", "ok", "cc\nld\ndone", display={"exit_code": 0}, duration=1.25)
    fold.apply(MessageFinished(AT, "ses_1", message(3, "tool", result)))
    assert (call().state, call().output, call().duration_ms) == ("ok", "cc\nld\ndone", 1250)


def test_the_end_of_a_run_is_shown_below_its_last_message_with_its_model_and_time() -> None:
    fold = opened(message(1, "user", Text("hi")), message(2, "assistant", Text("done"), model="a/b"), runs=(run(),))
    ended = run(state="completed", reason="end_turn", finished_at="2026-01-01T00:00:02.500Z", usage=Usage(input=3))
    fold.apply(RunFinished(AT, "ses_1", ended))
    end = blocks(fold)[-1]
    assert isinstance(end, TurnEndBlock)
    assert (end.model, end.duration_ms, end.usage.input, end.state) == ("a/b", 2500, 3, "completed")
    fold.apply(RunStarted(AT, "ses_1", run("run_2")))
    fold.apply(MessageCreated(AT, "ses_1", message(3, "user", Text("more"), run_id="run_2")))
    assert [block.id for block in blocks(fold)] == ["msg_1", "msg_2.0", "run_1.end", "msg_3"]


def test_a_steer_is_shown_in_the_turn_that_it_joined() -> None:
    host = run(state="completed", reason="end_turn", finished_at=AT)
    joined = run("run_2", "completed", host_run_id="run_1", finished_at=AT)
    fold = opened(
        message(1, "user", Text("hi")),
        message(2, "user", Text("and this"), run_id="run_2"),
        message(3, "assistant", Text("both")),
        runs=(joined, host),
    )
    assert [block.id for block in blocks(fold)] == ["msg_1", "msg_2", "msg_3.0", "run_1.end"]
    steer = blocks(fold)[1]
    assert isinstance(steer, PromptBlock)
    assert steer.steered


def test_a_failed_run_names_its_error() -> None:
    error = RunError("auth", "the key was refused")
    fold = opened(message(1, "user", Text("hi")), runs=(run(state="failed", reason="auth", error=error),))
    end = blocks(fold)[-1]
    assert isinstance(end, TurnEndBlock)
    assert (end.state, end.error) == ("failed", "the key was refused")


def test_other_parts_have_blocks_of_their_own() -> None:
    fold = opened(
        message(1, "user", Shell("ls", "a\nb", 0)),
        message(2, "user", Summary("## Task")),
        message(3, "user", Notice("undo", "2 files restored", for_model=True)),
        message(4, "assistant", Reasoning("hm"), Unknown("hologram", b"{}"), Text("  ")),
    )
    assert [type(block) for block in blocks(fold)] == [
        ShellBlock,
        SummaryBlock,
        NoticeBlock,
        ThinkingBlock,
        NoticeBlock,
    ]


def test_the_queue_shows_prompts_and_the_active_run_says_what_it_does() -> None:
    fold = opened()
    fold.apply(RunAccepted(AT, "ses_1", run(state="queued")))
    fold.apply(RunStarted(AT, "ses_1", run()))
    fold.apply(RunAccepted(AT, "ses_1", run("run_2", "queued")))
    fold.apply(QueueChanged(AT, "ses_1", Queue("ses_1", ("run_2",), active="run_1", paused="user")))
    fold.apply(RunProgress(AT, "ses_1", "run_1", Now("tool", "bash: make", AT)))
    shown = fold.view().transcripts["ses_1"]
    assert [(item.run_id, item.prompt) for item in shown.queue.queued] == [("run_2", "prompt 2")]
    assert shown.queue.paused == "user"
    assert shown.active is not None
    assert shown.active.now == Now("tool", "bash: make", AT)
    (session,) = fold.sessions
    assert (session.busy, session.queued) == (True, 1)
    fold.apply(RunFinished(AT, "ses_1", run(state="completed", finished_at=AT)))
    assert fold.view().transcripts["ses_1"].active is None
    assert not fold.sessions[0].busy


def test_sessions_are_ordered_by_their_last_prompt() -> None:
    fold = ViewFold()
    fold.load_sessions([Session("ses_2", "wsp_1"), SESSION])
    assert [session.id for session in fold.sessions] == ["ses_2", "ses_1"]
    fold.apply(RunAccepted(AT, "ses_1", run(state="queued")))
    assert [session.id for session in fold.sessions] == ["ses_1", "ses_2"]


def test_a_subagents_session_is_shown_below_the_opened_one_and_not_in_the_list() -> None:
    fold = opened()
    child = Session("ses_2", "wsp_1", parent_id="ses_1")
    fold.apply(SessionCreated(AT, "ses_2", child))
    assert [session.id for session in fold.sessions] == ["ses_1"]
    text = Message("msg_9", "ses_2", "run_9", "user", 1, AT, (Text("look"),))
    fold.apply(MessageCreated(AT, "ses_2", text))
    assert len(blocks(fold, "ses_2")) == 1
    assert fold.root_of("ses_2") == "ses_1"
    fold.close_session("ses_1")
    assert fold.transcript("ses_2") is None


def test_a_deleted_session_and_a_reset_leave_nothing() -> None:
    fold = opened(message(1, "user", Text("hi")))
    assert "sessions" in fold.apply(SessionDeleted(AT, "ses_1"))
    assert (fold.transcript("ses_1"), fold.sessions) == (None, ())
    fold = opened(message(1, "user", Text("hi")))
    assert fold.apply(Reset(AT, "c.2", "pruned")) == {"reset"}
    assert fold.view().transcripts == {}


def test_older_messages_are_added_above() -> None:
    fold = opened(message(5, "user", Text("new")), older="5")
    fold.load_older("ses_1", [message(1, "user", Text("old"))], (), older=None)
    assert [block.id for block in blocks(fold)] == ["msg_1", "msg_5"]
    assert fold.view().transcripts["ses_1"].older is None


def test_only_the_changed_entry_is_made_again() -> None:
    fold = opened(*(message(seq, "assistant", Text(f"text {seq}")) for seq in range(1, 50)), message(50, "assistant"))
    transcript = fold.transcript("ses_1")
    assert transcript is not None
    before = [entry.blocks for entry in transcript.entries]
    transcript.take_changed()
    fold.apply(delta(50, 0, "more"))
    (changed,) = transcript.take_changed()
    assert changed is transcript.entries[-1]
    assert all(entry.blocks is old for entry, old in zip(transcript.entries[:-1], before[:-1], strict=True))


@pytest.mark.parametrize("repeats", [1, 2])
def test_events_may_be_applied_again(repeats: int) -> None:
    fold = opened()
    log = [
        RunStarted(AT, "ses_1", run()),
        MessageCreated(AT, "ses_1", message(1, "user", Text("hi"))),
        MessageFinished(AT, "ses_1", message(2, "assistant", Text("done"), model="a/b")),
        RunFinished(AT, "ses_1", run(state="completed", finished_at=AT)),
    ]
    for _ in range(repeats):
        for event in log:
            fold.apply(event)
    assert [block.id for block in blocks(fold)] == ["msg_1", "msg_2.0", "run_1.end"]


def test_a_message_that_is_read_while_it_is_written_is_shown_once() -> None:
    fold = opened(message(1, "assistant", Text("half of")))
    fold.apply(Snapshot(AT, "ses_1", "msg_1", (OpenPart(0, 1, "text", "half of the"),)))
    fold.apply(delta(1, 0, " answer", offset=11))
    assert [(block.id, getattr(block, "text", "")) for block in blocks(fold)] == [("msg_1.0", "half of the answer")]
