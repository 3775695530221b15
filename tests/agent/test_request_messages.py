"""The next request is valid for any stored session (C6)."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.agent.request_messages import NO_RESULT, request_messages
from holdfast.schema.base import Unknown
from holdfast.schema.messages import (
    Context,
    File,
    Finish,
    FinishReason,
    Message,
    Notice,
    Part,
    Reasoning,
    Role,
    Shell,
    Summary,
    Text,
    ToolCall,
    ToolResult,
)


def message(seq: int, role: Role, *parts: Part, unsent: bool = False) -> Message:
    return Message(f"m{seq}", "ses_1", "run_1", role, seq, "", parts, unsent)


def shape(messages: tuple[Message, ...]) -> list[tuple[str, tuple[Part, ...]]]:
    return [(sent.role, sent.parts) for sent in messages]


@pytest.mark.promise("C6")
def test_a_call_without_a_result_gets_an_unknown_result() -> None:
    sent = request_messages(
        [
            message(1, "user", Text("go")),
            message(2, "assistant", ToolCall("c1", "bash")),
            message(3, "user", Text("?")),
        ],
        images=False,
    )
    assert [role for role, _ in shape(sent)] == ["user", "assistant", "tool", "user"]
    assert sent[2].parts == (ToolResult("c1", "bash", "unknown", NO_RESULT),)


@pytest.mark.promise("C6")
def test_results_follow_their_calls_in_order_and_results_without_a_call_are_dropped() -> None:
    sent = request_messages(
        [
            message(1, "user", Text("go")),
            message(2, "assistant", ToolCall("c1", "a"), ToolCall("c2", "b")),
            message(3, "tool", ToolResult("c2", "b", text="2"), ToolResult("stray", "x")),
            message(4, "tool", ToolResult("c1", "a", text="1"), ToolResult("c1", "a", text="again")),
        ],
        images=False,
    )
    assert [role for role, _ in shape(sent)] == ["user", "assistant", "tool"]
    assert [part.text for part in sent[2].parts if isinstance(part, ToolResult)] == ["1", "2"]


@pytest.mark.promise("C5")
def test_messages_of_runs_that_never_started_are_left_out() -> None:
    sent = request_messages([message(1, "user", Text("a")), message(2, "user", Text("b"), unsent=True)], images=False)
    assert shape(sent) == [("user", (Text("a"),))]


def test_messages_are_ordered_by_seq() -> None:
    sent = request_messages([message(2, "user", Text("b")), message(1, "user", Text("a"))], images=False)
    assert [m.seq for m in sent] == [1, 2]


def test_a_summary_replaces_everything_before_it() -> None:
    sent = request_messages(
        [
            message(1, "user", Text("old")),
            message(2, "assistant", ToolCall("c1", "a")),
            message(3, "user", Context(blocks=("head",)), Summary("the story")),
            message(4, "user", Text("new")),
        ],
        images=False,
    )
    (first, second) = sent
    assert isinstance(first.parts[0], Text)
    assert first.parts[0].text.endswith("the story")
    assert second.parts == (Text("new"),)


def test_a_message_that_was_cut_off_keeps_its_text_and_drops_trailing_reasoning() -> None:
    thought = Reasoning("hm", wire="anthropic", opaque={"signature": "s"})
    for reason in ("cancelled", "interrupted", "error"):
        sent = request_messages(
            [message(1, "user", Text("q")), message(2, "assistant", thought, Text("half"), Finish(reason))],
            images=False,
        )
        assert sent[1].parts == (Text("half"),)
    kept = request_messages(
        [message(1, "user", Text("q")), message(2, "assistant", thought, Text("x"), Finish("end_turn"))], images=False
    )
    assert kept[1].parts == (thought, Text("x"))


@pytest.mark.promise("C5")
@pytest.mark.parametrize(
    ("reason", "why"),
    [
        ("cancelled", "The user cancelled the request above."),
        ("interrupted", "The server stopped while you worked on the request above."),
        ("error", "An error ended the work on the request above."),
    ],
)
def test_the_model_is_told_what_was_cut_off_and_not_to_continue_it(reason: FinishReason, why: str) -> None:
    prompt, call, result = Text("delete it"), ToolCall("c", "bash"), ToolResult("c", "bash", "cancelled", "stopped")
    do_not = "Do not act on that request or continue it unless the user asks for it again.\n</reminder>"
    before = [message(1, "user", prompt), message(2, "assistant", Finish(reason)), message(3, "user", Text("hello"))]
    note = Text(f"<reminder>\n{why} It stops here: nothing more was answered or done. {do_not}")
    assert shape(request_messages(before, images=False)) == [
        ("user", (prompt,)),
        ("user", (note,)),
        ("user", (Text("hello"),)),
    ]
    inside = [message(1, "user", prompt), message(2, "assistant", Text("I will"), Finish(reason))]
    note = Text(f"<reminder>\n{why} Your answer ends where it was cut off. {do_not}")
    assert shape(request_messages(inside, images=False))[1:] == [("assistant", (Text("I will"),)), ("user", (note,))]
    calling = [*before[:1], message(2, "assistant", call, Finish(reason)), message(3, "tool", result)]
    note = Text(
        f"<reminder>\n{why} It stops here, after the tool calls above; their results say what was done. {do_not}"
    )
    assert shape(request_messages(calling, images=False))[1:] == [
        ("assistant", (call,)),
        ("tool", (result,)),
        ("user", (note,)),
    ]


def test_an_answer_with_only_reasoning_is_left_out() -> None:
    thought = Reasoning("hm", wire="anthropic", opaque={"signature": "s"})
    sent = request_messages([message(1, "user", Text("q")), message(2, "assistant", thought)], images=False)
    assert len(sent) == 1


def test_images_are_named_for_models_that_cannot_see() -> None:
    image = File("a.png", "image/png", data="aGk=")
    stored = [
        message(1, "user", Text("look"), image),
        message(2, "assistant", ToolCall("c", "view")),
        message(3, "tool", ToolResult("c", "view", text="here", files=(image,))),
    ]
    seeing = request_messages(stored, images=True)
    assert seeing[0].parts[1] == image
    assert isinstance(seeing[2].parts[0], ToolResult)
    assert seeing[2].parts[0].files == (image,)
    blind = request_messages(stored, images=False)
    assert isinstance(blind[0].parts[1], Text)
    assert "a.png" in blind[0].parts[1].text
    assert isinstance(blind[2].parts[0], ToolResult)
    assert blind[2].parts[0].files == ()
    assert "a.png" in blind[2].parts[0].text


def test_a_shell_command_and_context_changes_are_sent_as_text() -> None:
    sent = request_messages(
        [
            message(
                1, "user", Shell("ls", "a\nb", 0), Notice("n", "seen by people"), Unknown("new", b'{"type":"new"}')
            ),
            message(2, "user", Context(changed="the branch changed"), Notice("t", "told", for_model=True), Text("go")),
        ],
        images=False,
    )
    (command,) = sent[0].parts
    assert isinstance(command, Text)
    assert "$ ls" in command.text
    assert sent[1].parts == (Text("the branch changed"), Text("<reminder>\ntold\n</reminder>"), Text("go"))


call_ids = st.sampled_from(["c1", "c2", "c3", "c4"])
part = st.one_of(
    st.builds(Text, st.text(max_size=3)),
    st.builds(Reasoning, st.text(max_size=3), st.just("anthropic"), st.none() | st.just({"signature": "s"})),
    st.builds(ToolCall, call_ids, st.just("bash")),
    st.builds(ToolResult, call_ids, st.just("bash")),
    st.builds(Finish, st.sampled_from(["end_turn", "cancelled", "interrupted", "error"])),
    st.builds(Summary, st.text(max_size=3)),
    st.just(File("a.png", "image/png", data="aGk=")),
    st.just(Unknown("x", b'{"type":"x"}')),
)
stored_messages = st.lists(
    st.builds(
        lambda seq, role, parts, unsent: message(seq, role, *parts, unsent=unsent),
        st.integers(1, 30),
        st.sampled_from(["user", "assistant", "tool"]),
        st.lists(part, max_size=4),
        st.booleans(),
    ),
    max_size=14,
)


@pytest.mark.promise("C6")
@given(stored_messages, st.booleans())
def test_any_stored_history_gives_a_valid_request(stored: list[Message], images: bool) -> None:
    sent = request_messages(stored, images=images)
    for before, after in itertools.zip_longest(sent, sent[1:]):
        assert before.parts
        calls = [part.id for part in before.parts if isinstance(part, ToolCall)]
        if before.role == "assistant" and calls:
            assert after is not None
            assert [part.call_id for part in after.parts if isinstance(part, ToolResult)] == calls
        else:
            assert after is None or after.role != "tool"
        if before.role == "user":
            assert all(isinstance(part, Text | File) for part in before.parts)
    assert request_messages(stored, images=images) == sent
