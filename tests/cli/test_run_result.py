"""What `holdfast cancel` shows of a receipt."""

import pytest

from holdfast.cli.run_result import receipt_lines
from holdfast.schema.runs import CoveredRun, Now, Receipt, RunError

_DOING = Now(phase="tool", since="2026-01-01T00:00:00.000Z", what="bash: make\nall")
_FULL = RunError(code="store_unwritable", message="the disk is full")


@pytest.mark.promise("C3")
@pytest.mark.parametrize(
    ("durable", "said"),
    [
        (True, "the end is not stored yet, and the cancel survives a crash: the disk is full"),
        (False, "the end is not stored yet, and the cancel would be lost in a crash: the disk is full"),
    ],
)
def test_a_receipt_says_what_was_stopped_and_what_is_not_stored_yet(*, durable: bool, said: str) -> None:
    run = CoveredRun("run_1", "ses_1", "active", doing=_DOING, prompt="build it", killed=("7 make all",), stopped=True)
    assert receipt_lines(Receipt(1, (run,), durable=durable, error=_FULL)) == [
        "run_1  was active (bash: make all), is stopped  build it",
        "  killed: 7 make all",
        said,
    ]
