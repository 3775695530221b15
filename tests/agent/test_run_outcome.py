"""Errors that end a turn, as the outcome of its run."""

import pytest

from holdfast import errors
from holdfast.agent.run_outcome import outcome_of
from holdfast.errors import HoldfastError


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (errors.ModelAuth("x"), "auth"),
        (errors.ModelRateLimit("x"), "rate_limit"),
        (errors.ModelOverloaded("x"), "provider"),
        (errors.ModelContext("x"), "context"),
        (errors.ModelRefused("x"), "refused"),
        (errors.ModelInvalid("x"), "rejected"),
        (errors.ModelNetwork("x"), "network"),
        (errors.ModelStall("x"), "stall"),
        (errors.ModelMalformed("x"), "provider"),
        (errors.StoreUnwritable("x"), "store"),
        (errors.StoreConflict("x"), "store"),
        (errors.NoModel("x"), "no_model"),
        (errors.ToolError("x"), "tool"),
        (errors.BadRequest("x"), "internal"),
        (KeyError("x"), "internal"),
    ],
)
def test_each_error_ends_a_run_with_its_own_reason(error: Exception, reason: str) -> None:
    outcome = outcome_of(error)
    assert (outcome.state, outcome.reason) == ("failed", reason)
    assert outcome.error is not None
    if isinstance(error, HoldfastError):
        assert (outcome.error.code, outcome.error.message) == (error.error_code, "x")
    else:
        assert outcome.error.code == "internal"
