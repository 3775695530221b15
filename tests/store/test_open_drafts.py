"""The text of open messages: pieces in order make the text; pieces with a gap before them are left out."""

from holdfast.schema.messages import Reasoning, Text
from holdfast.store.open_drafts import DraftPiece, OpenDrafts
from tests.store.batches import a_message


def piece(text: str, offset: int, *, part: int = 0, attempt: int = 1, is_reasoning: bool = False) -> DraftPiece:
    return DraftPiece("ses_1", "msg_1", attempt, part, offset, text, is_reasoning)


def text_after(*pieces: DraftPiece) -> tuple[object, ...]:
    drafts = OpenDrafts()
    drafts.restore(pieces)
    return drafts.all()["msg_1"].add_to(a_message("msg_1")).parts


def test_pieces_are_joined_by_part() -> None:
    thought = piece("hm", 0, is_reasoning=True)
    assert text_after(thought, piece("a", 0, part=1), piece("b", 1, part=1)) == (Reasoning("hm"), Text("ab"))


def test_a_piece_after_a_gap_is_left_out() -> None:
    assert text_after(piece("a", 0), piece("c", 2), piece("b", 1)) == (Text("ab"),)


def test_only_the_last_attempt_counts() -> None:
    assert text_after(piece("old", 0), piece("new", 0, attempt=2), piece("er", 3)) == (Text("new"),)


def test_a_draft_adds_only_parts_that_the_message_does_not_have() -> None:
    drafts = OpenDrafts()
    drafts.restore([piece("first", 0), piece("third", 0, part=2)])
    message = a_message("msg_1", Text("first, complete"))
    assert drafts.all()["msg_1"].add_to(message).parts == (Text("first, complete"), Text("third"))
