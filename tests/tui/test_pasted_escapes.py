"""Escape characters in a paste are text, however the paste arrives."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.tui.pasted_escapes import MARK, PastedEscapes, with_escapes
from holdfast.tui.terminal_driver import _TerminalParser

BEGIN, END = "\x1b[200~", "\x1b[201~"


@given(
    pasted=st.lists(st.sampled_from(["\x1b", "[", "2", "0", "1", "~x", "\x1b[20", "\x1b[31m", "words"])).map("".join),
    size=st.integers(1, 9),
)
def test_keys_stay_keys_and_pasted_escapes_become_marks_in_any_pieces(pasted: str, size: int) -> None:
    if END in pasted or BEGIN in pasted:
        return
    sent = f"a\x1b[A{BEGIN}{pasted}{END}\x1bb"
    escapes = PastedEscapes()
    found = "".join(escapes.replace(sent[start : start + size]) for start in range(0, len(sent), size))
    assert found == f"a\x1b[A{BEGIN}{pasted.replace(chr(27), MARK)}{END}\x1bb"
    assert with_escapes(found[len(f"a\x1b[A{BEGIN}") : -len(f"{END}\x1bb")]) == pasted


def test_the_parser_of_the_terminal_finds_one_paste_and_no_keys_in_it() -> None:
    parser = _TerminalParser()
    found = [
        *parser.feed(f"{BEGIN}one \x1b[31mred\x1b[0m \x1b"),
        *parser.feed("[2"),
        *parser.feed("01~"),
        *parser.feed("q"),
    ]
    assert [type(event).__name__ for event in found] == ["Paste", "Key"]
    assert with_escapes(found[0].text) == "one \x1b[31mred\x1b[0m "  # type: ignore[attr-defined]
