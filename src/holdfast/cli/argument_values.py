"""The values of arguments: times, numbers, ids. An invalid one is refused with a message for the user.

It does not import `argparse`: a plain command line is read without it.
"""

from __future__ import annotations


def invalid_argument(message: str) -> Exception:
    """The error that argparse prints as it is."""
    from argparse import ArgumentTypeError

    return ArgumentTypeError(message)


def time_span(text: str) -> float:
    """Parse ``90``, ``90s``, ``5m`` or ``1h``."""
    units = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
    number, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1.0)
    try:
        value = float(number) * unit
    except ValueError:
        value = 0.0
    if not 0 < value < 31_536_000:
        raise invalid_argument(f"{text!r} is not a time; write 90, 90s, 5m or 1h")
    return value


def count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not int(text):
        raise invalid_argument(f"{text!r} is not a whole number above 0")
    return int(text)


def identifier(text: str) -> str:
    """An id, or the beginning of one, in the form that the server accepts; others are refused without a request."""
    allowed = set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:-")
    if not 0 < len(text) <= 128 or not set(text) <= allowed or text[0] in "_.:-":
        raise invalid_argument(f"{text!r} is not an id; ids consist of letters, digits and _ . : -")
    return text


def queue_position(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not int(text):
        raise invalid_argument(f"{text!r} is not a position in a queue; 1 starts next, 2 after it, and so on")
    return int(text)


def dollars(text: str) -> float:
    try:
        value = float(text.removeprefix("$"))
    except ValueError:
        value = -1.0
    if not 0 < value < 1_000_000:
        raise invalid_argument(f"{text!r} is not an amount of dollars; write 0.50")
    return value
