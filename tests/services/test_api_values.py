"""Checks of API values."""

import pytest

from holdfast.errors import BadRequest
from holdfast.schema.base import MAX_DEPTH
from holdfast.services.api_values import check_depth


def test_a_value_that_is_nested_too_deeply_is_refused() -> None:
    deep: object = 1
    for level in range(MAX_DEPTH):
        deep = {"a": deep} if level % 2 else [deep]
    check_depth(deep, name="free")
    with pytest.raises(BadRequest, match="free"):
        check_depth([deep], name="free")
