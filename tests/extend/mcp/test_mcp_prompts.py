"""Prompts of MCP servers as commands."""

import pytest

from holdfast.errors import BadRequest
from holdfast.extend.mcp.mcp_prompts import arguments_of

WANTED = [{"name": "topic", "required": True}, {"name": "style"}]


def test_words_are_arguments_in_order_and_the_last_takes_the_rest() -> None:
    assert arguments_of(WANTED, "cats", name="x") == {"topic": "cats"}
    assert arguments_of(WANTED, "'big cats' short and plain", name="x") == {
        "topic": "big cats",
        "style": "short and plain",
    }
    assert arguments_of(WANTED, "it's", name="x") == {"topic": "it's"}
    assert arguments_of([], "ignored", name="x") == {}


def test_a_missing_argument_is_named_with_the_form_of_the_command() -> None:
    with pytest.raises(BadRequest, match=r"/x needs topic; write /x <topic> \[style\]"):
        arguments_of(WANTED, "", name="x")
