"""How rules are written and what they match."""

import pytest

from holdfast.approvals.rule_patterns import CommandPattern, PathPattern
from holdfast.approvals.rules import read_rule
from holdfast.approvals.shell.shell_words import Arg
from holdfast.errors import ConfigError


def _match(pattern: str, *words: str | Arg) -> str:
    return CommandPattern.read(pattern).compare(tuple(Arg(word) if isinstance(word, str) else word for word in words))


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("", "'' is not a tool's name; write 'tool' or 'tool: pattern'"),
        (": x", "'' is not a tool's name; write 'tool' or 'tool: pattern'"),
        ("rm -rf x", "'rm -rf x' is not a tool's name; write 'tool' or 'tool: pattern'"),
        ("bash:", "the pattern is empty; write 'bash' alone to speak of every use"),
        ("bash: ls; rm x", "';' is not part of one command; quote it, or write one rule per command"),
        ("bash: ls | wc", "'|' is not part of one command; quote it, or write one rule per command"),
        ("bash: ls $X", "'$' is not part of one command; quote it, or write one rule per command"),
        ("bash: ls > x", "'>' is not part of one command; quote it, or write one rule per command"),
        ("bash: ls\nrm x", "'\\n' is not part of one command; quote it, or write one rule per command"),
        ("bash: ls 'x", "the quote ' is not closed"),
        ("bash: ls \\", "it ends in a backslash"),
        ("write: ../x", "'..' is not followed in a path pattern; write the path it leads to"),
        ("write: a\\", "it ends in a backslash"),
        ("fetch: docs.python.org", "it is not a plain http(s) URL; write for example 'https://docs.python.org/*'"),
        ("fetch: https://a*.org/", "only the path may hold '*', and the host start with '*.'"),
        ("fetch: https://me@a.org/", "it is not a plain http(s) URL; write for example 'https://docs.python.org/*'"),
    ],
)
def test_a_bad_rule_is_refused_with_what_is_wrong(rule: str, problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_rule(rule)
    assert refused.value.message == f"approval rule {rule!r}: {problem}"
    assert refused.value.error_code == "bad_rule"


def test_a_last_star_matches_none_or_more_further_words() -> None:
    assert _match("git status *", "git", "status") == "yes"
    assert _match("git status *", "git", "status", "-s", "src") == "yes"
    assert _match("git status *", "git", "stash") == "no"
    assert _match("git status", "git", "status", "-s") == "no"
    assert _match("git *", "git") == "yes"
    assert _match("*", "anything", "at all") == "yes"


def test_a_star_within_a_word_stays_within_it() -> None:
    assert _match("npm run test:*", "npm", "run", "test:unit") == "yes"
    assert _match("npm run test:*", "npm", "run", "test:unit", "x") == "no"
    assert _match("cp * b", "cp", "a", "b") == "yes"
    assert _match("cp * b", "cp", "a", "c", "b") == "no"
    assert _match("a?c", "abc") == "yes"


def test_quoted_and_escaped_stars_are_plain_characters() -> None:
    assert _match("grep 'a*' x", "grep", "a*", "x") == "yes"
    assert _match("grep 'a*' x", "grep", "aab", "x") == "no"
    assert _match("grep '*'", "grep", "anything") == "no"
    assert _match("grep \\*", "grep", "*") == "yes"
    assert _match("git commit -m 'two words'", "git", "commit", "-m", "two words") == "yes"


def test_words_that_are_only_known_later_may_match_but_never_for_certain() -> None:
    unknown = Arg("$X", "dynamic")
    assert _match("git push *", "git", unknown) == "maybe"
    assert _match("git push *", unknown) == "maybe"
    assert _match("git push *", "git", "pull", unknown) == "no"
    assert _match("git push *", "git", "push", unknown) == "yes"
    assert _match("git push", "git", "push", unknown) == "maybe"
    assert _match("cp a b", "cp", unknown, "b") == "maybe"
    assert _match("cp a b", "cp", unknown, "c") == "no"
    assert _match("git push *", "git", Arg("pus*", "glob")) == "maybe"
    assert _match("git push *", "git", Arg("*.py", "glob")) == "no"
    assert _match("cp a b", "cp", Arg("?", "glob")) == "maybe"


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        (".env", "/w/.env", True),
        (".env", "/w/a/b/.env", True),
        (".env", "/w/.env.example", False),
        ("./.env", "/w/a/.env", False),
        ("./.env", "/w/.env", True),
        ("docs", "/w/docs/a.md", True),
        ("docs/*", "/w/docs/a/b.md", True),
        ("docs/*", "/w/a/docs/b.md", False),
        ("docs/", "/w/docs/b.md", True),
        ("*.md", "/w/a/b.md", True),
        ("*", "/w/a", True),
        ("*", "/x/a", False),
        ("src/*.py", "/x/src/a.py", False),
        ("/etc/*", "/etc/hosts", True),
        ("/etc", "/etc/a/b", True),
        ("/etc", "/etcetera", False),
        ("~/notes/*", "/h/notes/a", True),
        ("~/notes/*", "/w/notes/a", False),
        ("a\\*b", "/w/a*b", True),
        ("a\\*b", "/w/axb", False),
    ],
)
def test_paths(pattern: str, path: str, matches: bool) -> None:
    assert PathPattern.read(pattern).matches(path, workspace="/w", home="/h") is matches


def test_a_deny_rule_takes_upper_and_lower_case_for_the_same() -> None:
    assert PathPattern.read(".env").matches("/w/.ENV", workspace="/w", home="/h", folded=True)


def test_a_rule_is_kept_as_it_will_be_shown() -> None:
    assert read_rule("  bash:git status *  ").text == "bash: git status *"
    assert read_rule(" view ").text == "view"
