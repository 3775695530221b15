"""The error tree: stable codes and statuses, and a docstring that matches the classes."""

from __future__ import annotations

import re

import pytest

from holdfast import errors


def _leaves(cls: type[errors.HoldfastError]) -> list[type[errors.HoldfastError]]:
    children = cls.__subclasses__()
    return [leaf for child in children for leaf in _leaves(child)] if children else [cls]


_LEAVES = [leaf for leaf in _leaves(errors.HoldfastError) if leaf.__module__ == errors.__name__]
_DRAWN = {
    name: (int(status), code)
    for name, status, code in re.findall(r"── (\w+) +(\d{3}) +([a-z_]+)", errors.__doc__ or "")
}


def test_the_docstring_lists_every_leaf_with_its_status_and_code() -> None:
    made = {leaf.__name__: (leaf.status, leaf.code) for leaf in _LEAVES if leaf is not errors.ToolError}
    assert made == _DRAWN


@pytest.mark.parametrize("leaf", _LEAVES)
def test_the_status_of_a_leaf_fits_its_branch(leaf: type[errors.HoldfastError]) -> None:
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", leaf.code)
    is_callers = issubclass(leaf, errors.CallerError | errors.ToolError | errors.StoreConflict)
    assert (400 <= leaf.status < 500) == is_callers


def test_codes_are_unique() -> None:
    codes = [leaf.code for leaf in _LEAVES]
    assert len(codes) == len(set(codes))


def test_an_error_can_have_a_more_specific_code() -> None:
    error = errors.NotFound("session 'ses_1' does not exist", code="session_not_found", detail={"session_id": "ses_1"})
    assert (error.error_code, error.status, error.detail) == ("session_not_found", 404, {"session_id": "ses_1"})
    assert str(error) == error.message == "session 'ses_1' does not exist"
    assert errors.NotFound.code == "not_found"


def test_an_error_has_the_code_of_its_class_and_no_detail_by_default() -> None:
    error = errors.Gone("deleted")
    assert (error.error_code, error.detail) == ("session_deleted", {})


def test_a_model_error_has_retryable_and_retry_after() -> None:
    retryable = {leaf.__name__ for leaf in _leaves(errors.ModelError) if leaf.retryable}
    assert retryable == {"ModelRateLimit", "ModelOverloaded", "ModelNetwork", "ModelStall", "ModelMalformed"}
    assert errors.ModelRateLimit("slow down", retry_after=2.5).retry_after == 2.5
    assert errors.ModelAuth("no key").retry_after is None
