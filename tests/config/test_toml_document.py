"""TOML with places."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.config.toml_document import KeyLines, TomlError, format_key, parse_key, parse_toml

DOCUMENT = '''# a comment with x = 1
[models]
large = "a"   # = not a key
"quoted key" = 1

[providers.local] # [not.this]
wire = "x"
models.qwen.images = true
headers = { "X-Team" = "a", other = "b" }
[providers."we.ird".models."a=b"]
text = """
[limits]
max_steps = 3
"""
other = \'\'\'
one\'\'\'
last = 1
[[list]]
item = 1
'''


@pytest.mark.parametrize(
    ("key", "line"),
    [
        (("models", "large"), 3),
        (("models", "quoted key"), 4),
        (("models", "nowhere"), 2),
        (("providers", "local", "wire"), 7),
        (("providers", "local", "models", "qwen", "images"), 8),
        (("providers", "local", "headers", "X-Team"), 9),
        (("providers", "we.ird", "models", "a=b", "text"), 11),
        (("providers", "we.ird", "models", "a=b", "last"), 17),
        (("limits", "max_steps"), None),
        (("list", "item"), 19),
        (("x",), None),
    ],
)
def test_the_line_of_a_key_is_found(key: tuple[str, ...], line: int | None) -> None:
    assert KeyLines(DOCUMENT).of(key) == line


@given(st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=5).map(tuple))
def test_a_formatted_key_parses_to_the_same_path(path: tuple[str, ...]) -> None:
    if any(0xD800 <= ord(character) <= 0xDFFF for part in path for character in part):
        return
    assert parse_key(format_key(path)) == path


@pytest.mark.parametrize("text", ["", ".", "a.", "a..b", "a b", "[a]", "a = 1\nb", "#", "a." * 40 + "a"])
def test_an_invalid_key_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a key"):
        parse_key(text)


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("a = 1\nb = = 2", "is not valid TOML", 2),
        ("a = 1\na = 2", "is not valid TOML", 2),
        ("a = " + "[" * 5_000, "nested too deeply", None),
        ("x = " + "9" * 5_000, "out of range", None),
        ("\n" + "a." * 20_000 + "a = 1", "more than 32 parts", 2),
        ("\n" + '"a".' * 20_000 + "a = 1", "more than 32 parts", 2),
        ("a = 1979-13-41", "", 1),
        ("secret = 'sk-planted-012345", "", 1),
    ],
)
def test_a_hostile_text_gets_a_clear_error(text: str, message: str, line: int | None) -> None:
    with pytest.raises(TomlError) as caught:
        parse_toml(text)
    assert message in str(caught.value)
    assert caught.value.line == line
    assert "sk-planted" not in str(caught.value)


@given(st.text(max_size=200))
def test_the_parser_and_the_line_search_accept_any_text(text: str) -> None:
    KeyLines(text).of(("a", "b"))
    with suppress(TomlError):
        assert isinstance(parse_toml(text), dict)


def test_prose_with_many_full_stops_is_not_a_deep_key() -> None:
    prose = "One thing. " * 200 + "." * 200
    assert parse_toml(f'prompt = "{prose}"')["prompt"] == prose
