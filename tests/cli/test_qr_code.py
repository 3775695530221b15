"""The QR code as text."""

import pytest

from holdfast.cli.qr_code import half_blocks, qr_lines


def test_two_rows_of_modules_become_one_line_with_a_border() -> None:
    assert half_blocks([[1, 0, 1], [0, 1, 1]]) == ["       ", "  ▀▄█  ", "       "]
    assert half_blocks([[1]]) == ["     ", "  ▀  ", "     "]


def test_an_address_becomes_a_square_with_the_finder_patterns() -> None:
    pytest.importorskip("segno")
    lines = qr_lines("https://192.168.1.7:41873/#pair=4K2M-9TXP-R3VD")
    assert lines is not None
    rows = [line.removeprefix("\x1b[30;107m").removesuffix("\x1b[0m") for line in lines]
    assert {len(row) for row in rows} == {33}
    assert rows[1].startswith("  █▀▀▀▀▀█ ")
    assert rows[1].endswith(" █▀▀▀▀▀█  ")
