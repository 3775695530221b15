"""Runs and run requests: JSON and comparison of settings."""

from typing import Any, get_args

import msgspec
import pytest

from holdfast.schema.base import encode, to_builtins
from holdfast.schema.runs import (
    END_STATES,
    Accepted,
    EndReason,
    EndState,
    Limits,
    Outcome,
    Run,
    RunRequest,
    RunSettings,
    UnfinishedState,
    settings_of,
)

_SETTINGS: dict[str, Any] = {
    "model": "p/m",
    "mode": "plan",
    "interactive": False,
    "limits": Limits(max_steps=3),
    "effort": "high",
    "output_schema": {"type": "object"},
    "agent": "reader",
}


def test_a_run_request_is_decoded_from_the_documented_json() -> None:
    body = b'{"prompt": "hi", "delivery": "steer", "after": "success", "model": "p/m", "limits": {"max_steps": 3}}'
    request = msgspec.json.decode(body, type=RunRequest)
    assert request == RunRequest(
        prompt="hi", delivery="steer", after="success", model="p/m", limits=Limits(max_steps=3)
    )
    assert to_builtins(request) == msgspec.json.decode(body)


@pytest.mark.parametrize(
    "body", ['{"delivery": "later"}', '{"after": 1}', '{"mode": "yolo"}', '{"limits": {"max_steps": "3"}}']
)
def test_a_run_request_with_an_invalid_value_is_rejected(body: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(body, type=RunRequest)


def test_a_run_has_the_settings_of_its_request_whatever_its_prompt() -> None:
    request = RunRequest(prompt="one", run_id="run_1", delivery="steer", **_SETTINGS)
    run = Run(id="run_2", session_id="ses_1", seq=7, prompt="another", **_SETTINGS)
    assert settings_of(request) == settings_of(run) == RunSettings(**_SETTINGS)
    assert type(settings_of(run)) is RunSettings


@pytest.mark.parametrize("name", RunSettings.__struct_fields__)
def test_runs_with_one_different_setting_have_different_settings(name: str) -> None:
    assert set(_SETTINGS) == set(RunSettings.__struct_fields__)
    assert settings_of(RunRequest(**{name: _SETTINGS[name]})) != settings_of(RunRequest())


def test_a_run_is_encoded_with_all_fields_and_decoded() -> None:
    run = Run(id="run_1", session_id="ses_1", seq=41, rank=41, prompt="hi", client="tui/0.1 c_1", **_SETTINGS)
    assert set(to_builtins(run)) == set(Run.__struct_fields__)
    assert msgspec.json.decode(encode(run), type=Run) == run
    answer = Accepted(run=run, decision="queued", position=2)
    assert msgspec.json.decode(encode(answer), type=Accepted) == answer


def test_a_run_of_a_newer_version_with_more_fields_is_decoded() -> None:
    run = Run(id="run_1", session_id="ses_1", seq=1)
    assert msgspec.json.decode(encode({**to_builtins(run), "mood": "good"}), type=Run) == run


def test_a_run_state_is_unfinished_or_an_end() -> None:
    assert set(get_args(EndState)) == END_STATES
    assert not END_STATES & set(get_args(UnfinishedState))


@pytest.mark.parametrize("reason", get_args(EndReason))
def test_every_end_reason_is_encoded_and_decoded(reason: EndReason) -> None:
    outcome = Outcome("failed", reason)
    assert msgspec.json.decode(encode(outcome), type=Outcome) == outcome
