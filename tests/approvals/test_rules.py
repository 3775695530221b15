"""Parsing of rules."""

import pytest

from holdfast.approvals.rules import parse_rule
from holdfast.errors import ConfigError


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("", "'' is not a tool name; write 'tool' or 'tool: pattern'"),
        (": x", "'' is not a tool name; write 'tool' or 'tool: pattern'"),
        ("rm -rf x", "'rm -rf x' is not a tool name; write 'tool' or 'tool: pattern'"),
        ("bash:", "the pattern is empty; write 'bash' alone for a rule about every call"),
        ("bash: ls; rm x", "';' cannot be part of a command; quote it, or write one rule per command"),
        ("bash: ls | wc", "'|' cannot be part of a command; quote it, or write one rule per command"),
        ("bash: ls $X", "'$' cannot be part of a command; quote it, or write one rule per command"),
        ("bash: ls > x", "'>' cannot be part of a command; quote it, or write one rule per command"),
        ("bash: ls\nrm x", "'\\n' cannot be part of a command; quote it, or write one rule per command"),
        ("bash: ls 'x", "the quote ' is not closed"),
        ("bash: ls \\", "it ends with a backslash"),
        ("write: ../x", "a path pattern cannot contain '..'; write the path without it"),
        ("write: a\\", "it ends with a backslash"),
        ("fetch: docs.python.org", "it is not a plain http(s) URL; write it like 'https://docs.python.org/*'"),
        ("fetch: https://a*.org/", "'*' is allowed only in the path, and as '*.' at the start of the host"),
        ("fetch: https://me@a.org/", "it is not a plain http(s) URL; write it like 'https://docs.python.org/*'"),
    ],
)
def test_an_invalid_rule_is_refused_with_the_reason(rule: str, problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_rule(rule)
    assert refused.value.message == f"approval rule {rule!r}: {problem}"
    assert refused.value.error_code == "bad_rule"


def test_the_text_of_a_rule_is_normalised() -> None:
    assert parse_rule("  bash:git status *  ").text == "bash: git status *"
    assert parse_rule(" view ").text == "view"
