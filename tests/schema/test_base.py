"""Encoding, unknown values and the repair of text."""

from hypothesis import example, given

from holdfast.schema.base import encode, repair_text
from holdfast.schema.messages import Text, read_parts
from tests.schema.strategies import any_texts, texts


@given(text=any_texts)
@example("\ud800")
@example("\udc00\ud800")
@example("\ud83d\ud83d\ude00")
def test_repaired_text_can_be_encoded_and_decoded(text: str) -> None:
    clean = repair_text(text)
    assert read_parts(encode((Text(clean),))) == (Text(clean),)
    assert repair_text(clean) == clean


@given(text=texts)
def test_valid_text_is_not_changed(text: str) -> None:
    assert repair_text(text) is text


def test_a_split_surrogate_pair_is_joined() -> None:
    assert repair_text("a" + "\ud83d" + "\ude00" + "b") == "a😀b"


def test_each_lone_surrogate_is_replaced_and_nothing_else_is_lost() -> None:
    assert repair_text("a\ud83db\ude00c") == "a\ufffdb\ufffdc"


@given(head=texts, tail=texts)
def test_the_text_around_a_lone_surrogate_is_kept(head: str, tail: str) -> None:
    assert repair_text(f"{head}\ud83d{tail}") == f"{head}\ufffd{tail}"
