"""Tools of a server as models see them: safe names, usable schemas, plain descriptions."""

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.extend.mcp.tool_definitions import (
    MAX_NAME,
    MAX_TOOLS,
    ServerTools,
    clean_text,
    read_tools,
    shown_name,
    tool_name,
    usable_schema,
)

ON_EVERY_WIRE = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


def listed(*tools: Any, server: str = "docs", **options: Any) -> ServerTools:
    items = [tool if isinstance(tool, dict) else {"name": tool} for tool in tools]
    return read_tools(server, items, **{"allowed": ("*",), "disabled": (), **options})


def names(found: ServerTools) -> list[str]:
    return [definition.name for definition in found.definitions]


@given(st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,80}\Z"), st.text(min_size=1), st.text(min_size=1))
def test_names_are_valid_on_every_wire_and_differ_for_different_tools(server: str, one: str, other: str) -> None:
    first, second = tool_name(server, one), tool_name(server, other)
    assert ON_EVERY_WIRE.fullmatch(first)
    assert len(first) <= MAX_NAME
    assert (first == second) == (one == other)


def test_a_usual_name_stays_readable() -> None:
    assert tool_name("github", "create_issue") == "github__create_issue"
    assert tool_name("7zip", "pack").startswith("mcp_7zip__pack_")


def test_collisions_between_servers_are_told_and_both_tools_can_be_called() -> None:
    found = listed("b__c", server="a", taken={"a__b__c"})
    assert names(found)[0] != "a__b__c"
    assert "b__c is offered as" in found.notes[0]


def test_tools_are_chosen_by_patterns_and_doubles_are_left_out() -> None:
    found = listed("get_a", "get_b", "del_a", "get_a", "", {"name": 7}, allowed=("get_*", "del_*"), disabled=("del_*",))
    assert names(found) == ["docs__get_a", "docs__get_b"]
    assert found.notes == ("named twice: get_a",)


def test_too_many_tools_are_cut_and_told() -> None:
    found = listed(*(f"t{number}" for number in range(MAX_TOOLS + 1)))
    assert len(found.definitions) == MAX_TOOLS
    assert "only the first 500 of 501" in found.notes[0]


def test_the_digest_changes_with_everything_that_a_server_says() -> None:
    base = {"name": "a", "description": "A", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
    changed = [{**base, "description": "B"}, {**base, "inputSchema": {}}, {**base, "annotations": {}}]
    digests = {listed(tool).definitions[0].digest for tool in (base, *changed)}
    assert len(digests) == 4
    assert listed(base).definitions[0].digest in digests


def test_a_hint_to_read_only_counts_unless_the_server_contradicts_itself() -> None:
    def is_reading(**hints: bool) -> bool:
        return listed({"name": "a", "annotations": hints}).definitions[0].is_reading

    assert is_reading(readOnlyHint=True)
    assert not is_reading(readOnlyHint=True, destructiveHint=True)
    assert not is_reading()


def test_invisible_and_control_characters_are_removed() -> None:
    assert clean_text("a\u202eb\u200bc\x1b[31md\x00\ne", limit=50) == "abc[31md\ne"
    assert clean_text("x" * 60, limit=50) == "x" * 50 + " …"
    assert shown_name("a\nb\u202e") == "a b"


def test_schemas_have_no_references_and_are_objects() -> None:
    schema = {
        "$schema": "x",
        "title": "T",
        "$defs": {"P": {"type": "object", "properties": {"x": {"$ref": "#/$defs/Q"}}}, "Q": {"type": "integer"}},
        "properties": {"p": {"$ref": "#/$defs/P", "description": "a point"}, "title": {"type": "string"}},
        "required": ["p", "absent"],
        "anyOf": [{"required": ["p"]}],
    }
    assert usable_schema(schema) == {
        "type": "object",
        "properties": {
            "p": {"type": "object", "properties": {"x": {"type": "integer"}}, "description": "a point"},
            "title": {"type": "string"},
        },
        "required": ["p"],
    }


def test_rubbish_recursion_and_giants_become_a_free_object() -> None:
    free = {"type": "object", "properties": {}}
    deep: dict[str, Any] = {}
    for _ in range(100):
        deep = {"items": deep}
    recursive = {
        "properties": {"a": {"$ref": "#/$defs/A"}},
        "$defs": {"A": {"properties": {"a": {"$ref": "#/$defs/A"}}}},
    }
    bomb: dict[str, Any] = {"$defs": {f"d{n}": {"items": [{"$ref": f"#/$defs/d{n + 1}"}] * 10} for n in range(8)}}
    bomb["properties"] = {"a": {"$ref": "#/$defs/d0"}}
    assert usable_schema("rubbish") == usable_schema(None) == usable_schema(deep) == free
    assert usable_schema({"properties": {"a": {"enum": ["x" * 50_000]}}}) == free
    assert usable_schema(recursive)["properties"] == {"a": {"properties": {"a": {}}}}
    assert usable_schema(bomb) == free


def test_a_tool_that_needs_a_task_is_left_out_and_named() -> None:
    listed = [{"name": "research", "execution": {"taskSupport": "required"}}, {"name": "add", "execution": {}}]
    found = read_tools("docs", listed, allowed=("*",), disabled=())
    assert [one.tool for one in found.definitions] == ["add"]
    assert found.notes == ("left out, because they need tasks of the protocol: research",)
