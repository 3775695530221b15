"""Durations, keys, addresses and headers are parsed exactly, and secrets in them are never shown."""

import copy
import pickle
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.config.setting_types import (
    Duration,
    Headers,
    KeySource,
    ProxyUrl,
    Secret,
    StoreUrl,
    Url,
    Variables,
    format_duration,
)

PLANTED = "sk-planted-0123456789abcdef"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0s", 0), ("120s", 120), ("10m", 600), ("7d", 604_800), ("1h30m", 5_400), ("250ms", 0.25), ("1.5s", 1.5)],
)
def test_a_duration_is_a_number_with_a_unit(text: str, seconds: float) -> None:
    assert Duration.from_config(text) == seconds


@pytest.mark.parametrize(
    "value",
    ["", "5", "s", "-1s", "1 s", "1y", "1e3s", "١s", "1s ", "1.s", ".5s", 5, 1.5, True, None, ["1s"], "9" * 400],
)
def test_an_invalid_duration_is_refused_with_an_example(value: object) -> None:
    with pytest.raises(ValueError, match="expected a duration such as '90s'"):
        Duration.from_config(value)


def test_a_duration_of_centuries_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 100 years"):
        Duration.from_config("999999999999d")


@given(st.integers(min_value=0, max_value=86_400_000 * 3_650))
def test_a_formatted_duration_parses_to_the_same_seconds(milliseconds: int) -> None:
    seconds = milliseconds / 1_000
    assert Duration.from_config(format_duration(seconds)) == pytest.approx(seconds, abs=1e-9)


@given(st.text(max_size=20))
def test_any_text_is_a_duration_or_a_value_error(text: str) -> None:
    with suppress(ValueError):
        assert Duration.from_config(text) >= 0


def test_a_secret_is_shown_only_by_reveal() -> None:
    secret = Secret(PLANTED)
    shown = [repr(secret), str(secret), f"{secret}", f"{secret:>80}", "{} {!r}".format(*[secret] * 2), repr([secret])]
    assert not any(PLANTED in text for text in shown)
    assert secret.reveal() == PLANTED
    assert secret == Secret(PLANTED) != Secret("other")
    assert len({secret, Secret(PLANTED)}) == 1


@pytest.mark.parametrize("leave", [pickle.dumps, copy.deepcopy])
def test_a_secret_cannot_be_pickled_or_copied(leave: object) -> None:
    with pytest.raises(TypeError, match="cannot be pickled"):
        leave(Secret(PLANTED))  # type: ignore[operator]


@pytest.mark.parametrize(
    ("text", "kind", "argument"),
    [
        ("env:MY_KEY", "env", "MY_KEY"),
        ("file:/run/key", "file", "/run/key"),
        ("file:~/key", "file", "~/key"),
        ("cmd: pass show api ", "cmd", "pass show api"),
        (PLANTED, "literal", "(hidden)"),
        ("weird:thing", "literal", "(hidden)"),
    ],
)
def test_a_key_source_says_where_the_key_is(text: str, kind: str, argument: str) -> None:
    source = KeySource.from_config(text)
    assert (source.kind, source.argument) == (kind, argument)


def test_a_literal_key_is_hidden_in_its_source() -> None:
    source = KeySource.from_config(f" {PLANTED} ")
    assert source.literal == Secret(PLANTED)
    assert PLANTED not in f"{source!r} {source} {source.to_config()} {source.argument}"


@pytest.mark.parametrize(
    "value", ["", "  ", "env:", "env:A-B", "env:$(x)", "file:", "file:key", "cmd:", "cmd:  ", 5, None]
)
def test_an_incomplete_key_source_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="expected"):
        KeySource.from_config(value)


def test_an_address_hides_its_password() -> None:
    url = Url.from_config(f"https://me:{PLANTED}@example.test/v1/")
    assert url == f"https://me:{PLANTED}@example.test/v1"
    assert PLANTED not in repr(url)
    assert repr(url) == "'https://(hidden)@example.test/v1'"
    assert url.password == Secret(PLANTED)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "example.test",
        "ftp://x",
        "http://",
        "http://a b",
        "http://x:port",
        "http://x:99999",
        "http://[",
        5,
        "socks5://x",
    ],
)
def test_an_invalid_address_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="http:// or https://"):
        Url.from_config(value)


def test_a_proxy_may_use_socks() -> None:
    assert ProxyUrl.from_config("socks5://127.0.0.1:1080") == "socks5://127.0.0.1:1080"


def test_headers_show_only_their_names_and_read_values_from_the_environment() -> None:
    headers = Headers.from_config({"Authorization": f"Bearer {PLANTED}", "X-Team": "env:TEAM", "X-None": "env:NONE"})
    assert PLANTED not in repr(headers)
    assert headers.to_config() == {"Authorization": "(hidden)", "X-Team": "env:TEAM", "X-None": "env:NONE"}
    assert headers.expand({"TEAM": "tools"}) == {"Authorization": f"Bearer {PLANTED}", "X-Team": "tools"}


@pytest.mark.parametrize("value", [{"a b": "x"}, {"": "x"}, {"A": "x\r\nB: y"}, {"A": 5}, {"é": "x"}, "A: b", ["A"]])
def test_headers_that_would_break_a_request_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"header name|one line|expected a table"):
        Headers.from_config(value)


@pytest.mark.parametrize("value", [{"A-B": "x"}, {"A": "x\0"}, {"A": 1}, "A=b"])
def test_invalid_environment_variables_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"variable name|must be text|expected a table"):
        Variables.from_config(value)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        (f"postgresql://me:{PLANTED}@db.test/holdfast", "postgresql://me:(hidden)@db.test/holdfast"),
        (f"postgres://db1,db2/holdfast?password={PLANTED}&sslmode=require", None),
    ],
)
def test_the_password_of_a_database_is_found_and_never_shown(address: str, shown: str | None) -> None:
    url = StoreUrl.from_config(address)
    assert url.password == Secret(PLANTED)
    assert PLANTED not in f"{url!r} {url.to_config()}"
    assert shown in (None, url.to_config())


def test_a_database_is_named_by_an_address_of_libpq() -> None:
    assert StoreUrl.from_config("postgresql:///holdfast?host=/run/postgresql").password is None
    with pytest.raises(ValueError, match="postgresql://"):
        StoreUrl.from_config("mysql://db.test/holdfast")
