"""Codes work once, for five minutes, and cannot be guessed."""

import pytest

from holdfast.errors import Forbidden, TooMany
from holdfast.services.pairing_codes import (
    CODE_SECONDS,
    FAILURE_SECONDS,
    MAX_FAILURES,
    MAX_FAILURES_PER_CODE,
    MAX_OPEN_CODES,
    PairingCodes,
)


class Time:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def codes(time: Time) -> PairingCodes:
    return PairingCodes(seconds_now=time)


def wrong(text: str) -> str:
    """A code with the public half of this one and another secret."""
    return text[:-1] + ("2" if text[-1] != "2" else "3")


def test_a_code_works_once_however_it_is_typed(codes: PairingCodes) -> None:
    code = codes.make("answer")
    typed = code.text.lower().replace("-", " ").replace("0", "o").replace("1", "l")
    assert codes.take(typed).scope == "answer"
    with pytest.raises(Forbidden, match="wrong, used or expired"):
        codes.take(code.text)


def test_a_code_expires(codes: PairingCodes, time: Time) -> None:
    first, second = codes.make("drive"), codes.make("drive")
    time.now += CODE_SECONDS - 1
    assert codes.take(first.text) == first
    time.now += 1
    with pytest.raises(Forbidden):
        codes.take(second.text)


def test_wrong_secrets_use_up_the_code_they_name_and_no_other(codes: PairingCodes) -> None:
    guessed, other = codes.make("drive"), codes.make("drive")
    for _ in range(MAX_FAILURES_PER_CODE):
        with pytest.raises(Forbidden):
            codes.take(wrong(guessed.text))
    with pytest.raises(Forbidden):
        codes.take(guessed.text)
    assert codes.take(other.text) == other


def test_after_too_many_failures_every_code_is_refused_for_a_while(codes: PairingCodes, time: Time) -> None:
    code = codes.make("drive")
    for guess in range(MAX_FAILURES):
        with pytest.raises(Forbidden):
            codes.take(f"AAAA-AAAA-{guess:04}")
    with pytest.raises(TooMany):
        codes.take(code.text)
    time.now += FAILURE_SECONDS
    assert codes.take(code.text) == code


def test_old_codes_make_room_and_one_that_was_given_back_works(codes: PairingCodes) -> None:
    first = codes.make("watch")
    made = [codes.make("watch") for _ in range(MAX_OPEN_CODES)]
    with pytest.raises(Forbidden):
        codes.take(first.text)
    taken = codes.take(made[-1].text)
    codes.give_back(taken)
    assert codes.take(made[-1].text) == taken
    assert len({one.text for one in made}) == MAX_OPEN_CODES
    assert all(len(one.text) == 14 for one in made)


@pytest.mark.parametrize("text", ["", "-", "ABCD", "ß" * 12, "\ud800" * 12, "A" * 64])
def test_nonsense_is_refused(codes: PairingCodes, text: str) -> None:
    codes.make("drive")
    with pytest.raises(Forbidden):
        codes.take(text)
