"""What must hold at the end of a fault schedule."""

from collections import Counter
from dataclasses import dataclass, field

from holdfast.agent.unfinished_messages import unanswered
from holdfast.schema.messages import Finish, Message, ToolCall, text_of
from holdfast.schema.runs import END_STATES, Accepted, Receipt, RunRequest
from holdfast.store import Store
from tests.events.stream_readers import Reader
from tests.support.log_consistency import LoggedState, check_log_matches_tables

_WHOLE = ("end_turn", "tool_use")


@dataclass(slots=True)
class ClientKnowledge:
    """What the clients of a server know, and what its tools did."""

    texts: frozenset[str]
    """Everything that the model may say."""
    sessions: list[str] = field(default_factory=list)
    accepted: dict[str, tuple[Accepted, RunRequest]] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    """Ids of runs whose only answer was that they could not be written."""
    receipts: list[tuple[Receipt, bool]] = field(default_factory=list)
    """The receipts of cancels, and whether the cancel was one of everything in its session."""
    unanswered_cancels: Counter[str] = field(default_factory=Counter)
    """Cancels by session whose receipt was lost in a crash."""
    may_be_covered: set[str] = field(default_factory=set)
    """Prompts whose acceptance was under way when a cancel came whose receipt says that it is not complete."""
    effects: Counter[str] = field(default_factory=Counter)
    """How often the tool of each call ran."""
    decisions: dict[str, str] = field(default_factory=dict)
    """The decisions of approvals, by call."""
    first_number: int = 0
    """The number of the last event before the reader began."""
    counts: Counter[str] = field(default_factory=Counter)


async def check_promises(store: Store, known: ClientKnowledge, reader: Reader) -> None:
    story = await check_log_matches_tables(store)
    messages = [one for session_id in known.sessions for one in (await store.messages(session_id, limit=10_000)).items]
    _check_ends(known, story)
    _check_cancels(known, story)
    _check_messages(known, story, messages)
    _check_tools(known, messages)
    for run_id in known.refused:
        assert run_id not in story.runs, f"R14: {run_id} could not be written and is there"
    assert not (await store.open_approvals()).items, "R8: an approval of an ended run is open"
    await _check_reader(store, known, reader, messages)


def _check_ends(known: ClientKnowledge, story: LoggedState) -> None:
    for run_id in known.accepted:
        assert run_id in story.runs, f"R1: {run_id} was accepted and is lost"
        assert story.runs[run_id].state in END_STATES, f"R5: {run_id} has not ended"
        assert story.ended[run_id] == 1, f"R7: {run_id} has {story.ended[run_id]} ends"
    for run in story.runs.values():
        assert run.reason != "internal", f"{run.id} failed by a bug of ours: {run.error}"
    known.counts["runs ended"] += len(story.runs)


def _check_cancels(known: ClientKnowledge, story: LoggedState) -> None:
    listed = set()
    for receipt, is_of_everything in known.receipts:
        for line in receipt.runs:
            run = story.runs[line.run_id]
            listed.add(line.run_id)
            if is_of_everything:
                assert run.seq <= receipt.mark, f"C1: {run.id} came after the cancel that covers it"
            if receipt.durable and line.was in ("queued", "waiting"):
                assert story.started[line.run_id] == 0, f"C1: {run.id} was covered by a cancel and started"
            if line.ended_as is not None:
                assert run.state == line.ended_as, f"C3: a receipt says {line.ended_as} of {run.id}, it is {run.state}"
            elif receipt.durable:
                assert run.state == "cancelled", f"C1: {run.id} was covered and ended {run.state}"
    for run in story.runs.values():
        if run.reason == "user_cancel" and not known.unanswered_cancels[run.session_id]:
            is_known = run.id in listed or run.prompt in known.may_be_covered
            assert is_known, f"C1: {run.id} is cancelled, but no cancel covered it"


def _check_messages(known: ClientKnowledge, story: LoggedState, messages: list[Message]) -> None:
    prompts = Counter(
        message.run_id
        for message in messages
        if message.role == "user" and story.runs[message.run_id].prompt in text_of(message.parts)
    )
    assert prompts == Counter(story.runs.keys()), "C5: a prompt is not there exactly once"
    for session_id in known.sessions:
        assert unanswered(message for message in messages if message.session_id == session_id) == [], "C6"
    for message in messages:
        if message.role != "assistant":
            continue
        said = text_of(message.parts)
        finish = next((part.reason for part in message.parts if isinstance(part, Finish)), None)
        assert finish is not None, f"R8: {message.id} is open"
        if finish in _WHOLE and said:
            assert said in known.texts, f"E3: {said!r} is not what the model said"
        assert any(text.startswith(said) for text in known.texts), f"E3: {said!r} was never said"
        known.counts["texts compared"] += 1
    for run in story.runs.values():
        if run.state == "completed" and run.message_id is not None:
            (last,) = [message for message in messages if message.id == run.message_id]
            assert run.text.endswith(text_of(last.parts)), f"R8: {run.id} says {run.text!r}, its message {last.parts}"


def _check_tools(known: ClientKnowledge, messages: list[Message]) -> None:
    calls = {part.id for message in messages for part in message.parts if isinstance(part, ToolCall)}
    for call_id, times in known.effects.items():
        assert times == 1, f"W6: {call_id} ran {times} times"
        assert call_id in calls, f"R14: {call_id} ran and is not stored"
        assert known.decisions.get(call_id) != "deny", f"W4: {call_id} ran and was denied"


async def _check_reader(store: Store, known: ClientKnowledge, reader: Reader, messages: list[Message]) -> None:
    """A client that read irregularly, was cut off, and survived the crashes, has seen everything once, in order."""
    await reader.read()
    assert "reset" not in reader.order, "E2: a cursor became invalid"
    page = await store.events_after(known.first_number, upto=store.last_number, limit=1_000_000)
    logged = {event.number: event.kind for event in page.events}
    assert reader.numbers == list(logged), f"E2: read {reader.numbers}, but the log has {logged}"
    for message in messages:
        if message.role == "assistant" and message.id in reader.transcript.messages:
            assert reader.transcript.text(message.id) == text_of(message.parts), f"E3: {message.id} differs"
    known.counts["events read"] += len(reader.numbers)
