"""Broken JSON is repaired if only one reading is possible; what may be cut off is never used."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import ToolError
from holdfast.tools.dialects.argument_repair import repair_arguments


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ('{"a": "one\ntwo\tthree"}', {"a": "one\ntwo\tthree"}),
        ('{"a": [1, 2,], "b": {"c": 1,},}', {"a": [1, 2], "b": {"c": 1}}),
        (r'{"a": "\d+\s*\."}', {"a": r"\d+\s*\."}),
        (r'{"a": "it\'s \`x\`"}', {"a": "it's `x`"}),
        (r'{"a": "C:\\dir \u00e9 \n"}', {"a": "C:\\dir é \n"}),
        ('{"a": "text, }"  ,}', {"a": "text, }"}),
        ("{'a': True, 'b': None, 'c': 'it\\'s'}", {"a": True, "b": None, "c": "it's"}),
        ('```\n{"a": 1}\n```', {"a": 1}),
        (json.dumps(json.dumps({"a": "é\n"})), {"a": "é\n"}),
    ],
)
def test_slips_with_one_reading_are_repaired(text: str, meant: object) -> None:
    assert repair_arguments("t", text).arguments == meant


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=20), min_size=1, max_size=3), st.data())
def test_a_text_that_ends_early_is_never_used(arguments: dict[str, str], data: st.DataObject) -> None:
    whole = json.dumps(arguments)
    cut = whole[: data.draw(st.integers(1, len(whole) - 1))]
    with pytest.raises(ToolError, match=r"not valid JSON|not a JSON object"):
        repair_arguments("t", cut)


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=20) | st.lists(st.text(max_size=5)), max_size=4))
def test_valid_json_keeps_its_meaning(arguments: dict[str, object]) -> None:
    assert repair_arguments("t", json.dumps(arguments)).arguments == arguments


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"a": "x" "b": 1}', "line 1, column 11: expecting ',' delimiter"),
        ('{\n "a": b}', "line 2, column 7: expecting value"),
        ("[1]", "not a JSON object but a list"),
        ("[" * 100_000, "not valid JSON"),
        ('{"a": "x', r"inside a string \(it begins at line 1, column 7\)"),
    ],
)
def test_a_refusal_names_the_place(text: str, place: str) -> None:
    with pytest.raises(ToolError, match=place):
        repair_arguments("t", text)


def test_a_long_text_that_is_cut_off_is_refused_quickly() -> None:
    """A search from each quote to the end would take minutes."""
    with pytest.raises(ToolError, match="may be cut off"):
        repair_arguments("write", '{"path": "a", "content": "' + 'say(\\"x\\") ' * 200_000)


def test_python_with_escapes_that_python_does_not_have_is_refused_without_a_warning() -> None:
    with pytest.raises(ToolError, match="not valid JSON"):
        repair_arguments("t", r"{'a': '\d'}")
