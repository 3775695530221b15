"""Which variables of a shell go with a prompt."""

import pytest

from holdfast.schema.client_variables import (
    MAX_LENGTH,
    MAX_VARIABLES,
    OWN_VARIABLES,
    SHELL_VARIABLES,
    is_secret,
    merge_variables,
    select_variables,
)

PATTERNS = (*OWN_VARIABLES, *SHELL_VARIABLES, "MY_*", "ONE")


def test_listed_variables_are_sent_and_no_others() -> None:
    sent = {"PATH": "/bin", "VIRTUAL_ENV": "/v", "CONDA_PREFIX": "/c", "LC_ALL": "C", "MY_X": "1", "ONE": "1"}
    others = {"HOME": "/h", "PROMPT_COMMAND": "x", "ONE_MORE": "2", "BASH_ENV": "x", "LD_PRELOAD": "x.so", "MYX": ""}
    assert select_variables({**sent, **others}, PATTERNS) == sent


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MY_API_KEY", "x"),
        ("CONDA_TOKEN", "x"),
        ("my_password", "x"),
        ("MY_SECRET_NAME", "x"),
        ("NPM_AUTH", "x"),
        ("MY_URL", "postgres://me:hunter2@db/x"),
        ("DOCKER_HOST", "tcp://me:hunter2@host"),
    ],
)
def test_what_may_hold_a_secret_is_never_sent(name: str, value: str) -> None:
    assert is_secret(name, value)
    assert select_variables({name: value}, ("*",)) == {}


def test_places_are_no_secrets() -> None:
    assert not is_secret("SSH_AUTH_SOCK", "/run/agent.sock")
    assert not is_secret("MY_URL", "https://host/path?x=a:b@c")


def test_what_cannot_be_sent_is_left_out() -> None:
    odd = {"MY_LONG": "x" * (MAX_LENGTH + 1), "MY_BYTES": "\udcff", "MY_NUL": "a\0b", "MY_LINES": "a\nb"}
    assert select_variables(odd, PATTERNS) == {"MY_LINES": "a\nb"}
    assert len(select_variables({f"MY_{number}": "" for number in range(1000)}, PATTERNS)) == MAX_VARIABLES


def test_the_client_replaces_what_matches_and_nothing_else() -> None:
    server = {"PATH": "/server", "VIRTUAL_ENV": "/server", "HOME": "/h", "MY_X": "server"}
    client = {"PATH": "/client", "LANG": "de", "BASH_ENV": "x", "HOLDFAST_MODEL": "a/b"}
    assert merge_variables(server, client, PATTERNS) == {"PATH": "/client", "LANG": "de", "HOME": "/h"}
