"""Text is repaired where it enters, so that everything inside can be encoded."""

from hypothesis import example, given

from holdfast.schema.base import encode, repair_text
from holdfast.schema.messages import Text, read_parts
from tests.schema.strategies import texts, texts_as_they_come


@given(text=texts_as_they_come)
@example("\ud800")
@example("\udc00\ud800")
@example("\ud83d\ud83d\ude00")
def test_repaired_text_can_be_stored_sent_and_read_again(text: str) -> None:
    clean = repair_text(text)
    assert read_parts(encode((Text(clean),))) == (Text(clean),)
    assert repair_text(clean) == clean


@given(text=texts)
def test_sound_text_is_left_alone(text: str) -> None:
    assert repair_text(text) is text


def test_a_pair_that_arrived_split_is_joined() -> None:
    assert repair_text("a" + "\ud83d" + "\ude00" + "b") == "a😀b"


def test_each_lone_half_is_replaced_and_nothing_else_is_lost() -> None:
    assert repair_text("a\ud83db\ude00c") == "a\ufffdb\ufffdc"


@given(head=texts, tail=texts)
def test_what_stands_around_a_lone_half_stays(head: str, tail: str) -> None:
    assert repair_text(f"{head}\ud83d{tail}") == f"{head}\ufffd{tail}"
