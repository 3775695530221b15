"""Glob patterns mean what people expect, and none takes for ever."""

import pytest

from holdfast.errors import ToolError
from holdfast.tools.search.glob_pattern import compile_glob, expand_braces


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("*.py", "a.py", True),
        ("*.py", "deep/er/a.py", True),
        ("*.py", "a.pyc", False),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/x/a.py", False),
        ("src/**/*.py", "src/a.py", True),
        ("src/**/*.py", "src/x/y/a.py", True),
        ("src/**/*.py", "lib/src/a.py", False),
        ("**/test/**", "a/test/b/c", True),
        ("**/test/**", "a/test", False),
        ("**/a/**/b/**/c", "x/a/y/b/b/z/c", True),
        ("**/a/**/b/**/c", "x/a/y/c/z/b", False),
        ("**", "any/thing", True),
        ("*.{ts,tsx}", "x/App.tsx", True),
        ("*.{ts,tsx}", "x/App.js", False),
        ("{a,b/{c,d}}/*.md", "b/d/x.md", True),
        ("{a,b/{c,d}}/*.md", "d/x.md", False),
        ("a?c", "abc", True),
        ("a?c", "a/c", False),
        ("[a-c]x", "bx", True),
        ("[!a-c]x", "bx", False),
        ("[!a-c]x", "dx", True),
        ("x[!a]y", "x/y", False),
        ("[]]x", "]x", True),
        ("[x", "[x", True),
        ("a{b", "a{b", True),
        ("a{b}", "a{b}", True),
        (r"\*.py", "*.py", True),
        (r"\*.py", "a.py", False),
        (".*", ".env", True),
        ("*", ".env", True),
        ("a**b", "axxb", True),
        ("a**b", "a/b", False),
        ("./src/*.py", "src/a.py", True),
        ("*a*b*c", "xaxbxc", True),
        ("*a*b*c", "xaxcxb", False),
        ("*ab*ab", "abab", True),
        ("*ab*ab", "ab", False),
        ("new\nline*", "new\nline.txt", True),
    ],
)
def test_patterns_match_as_documented(pattern: str, path: str, matches: bool) -> None:
    assert (compile_glob(pattern).fullmatch(path) is not None) == matches


def test_alternatives_are_expanded_in_order() -> None:
    assert expand_braces("{a,b}{1,2}") == ["a1", "a2", "b1", "b2"]
    assert expand_braces("x{,.bak}") == ["x", "x.bak"]


@pytest.mark.parametrize("pattern", ["{1,2}" * 12, "", "./", "[z-a]"])
def test_invalid_patterns_raise_errors(pattern: str) -> None:
    with pytest.raises(ToolError, match="pattern"):
        compile_glob(pattern)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 60 + "b", "a" * 4_000),
        ("**/a/" * 40 + "b", "a/" * 1_000 + "c"),
        ("**/*a*a*a/" * 20 + "b", "aaaa/" * 500 + "c"),
        ("?*" * 50 + "b", "a" * 2_000),
    ],
)
def test_hostile_patterns_end(pattern: str, path: str) -> None:
    """With back-tracking these take longer than the universe; the test's time-out would end them."""
    assert compile_glob(pattern).fullmatch(path) is None
