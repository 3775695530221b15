"""Search-and-replace blocks become edits; an incomplete block makes none."""

from holdfast.tools.dialects.search_blocks import parse_search_blocks

ONE = "<<<<<<< SEARCH\nold\n=======\nnew\n>>>>>>> REPLACE\n"


def test_each_block_is_an_edit_and_text_around_them_is_skipped() -> None:
    found = parse_search_blocks(f"I change this:\n```\n{ONE}```\n{ONE.replace('old', 'other')}")
    assert found == [{"old_text": "old\n", "new_text": "new\n"}, {"old_text": "other\n", "new_text": "new\n"}]


def test_empty_parts_and_other_spellings_are_read() -> None:
    assert parse_search_blocks("------- SEARCH\na\n=======\n+++++++ REPLACE") == [{"old_text": "a\n", "new_text": ""}]
    header = "<<<<<<< SEARCH\r\n:start_line:3\r\n-------\r\na\r\n=======\r\nb\r\n>>>>>>> REPLACE"
    assert parse_search_blocks(header) == [{"old_text": "a\n", "new_text": "b\n"}]


def test_a_block_that_is_not_complete_makes_no_edit() -> None:
    assert parse_search_blocks("no block") is None
    assert parse_search_blocks(ONE + "<<<<<<< SEARCH\nold\n=======\nhalf of the n") is None
    assert parse_search_blocks("<<<<<<< SEARCH\n" * 20_000 + "=======\n" * 20_000) is None
