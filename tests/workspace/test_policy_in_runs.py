"""The managed policy holds for runs, whatever a request, a person or the user's settings say."""

import os
from pathlib import Path

import pytest

from holdfast.config import PolicyFile
from holdfast.errors import ConfigError, PolicyDenied
from holdfast.models.model_script import ScriptedCall
from holdfast.schema.messages import ToolResult
from holdfast.schema.runs import Limits
from tests.support.app_harness import open_app_harness, saying

POLICY = """
contact = "ask it@example.org"
[allow]
providers = ["anthropic"]
modes = ["plan", "ask", "accept_edits"]
[settings.approvals]
deny = ["bash: echo forbidden"]
[settings.limits]
max_steps = 2
"""


def policy_file(directory: Path, text: str = POLICY) -> PolicyFile:
    path = directory / "policy.toml"
    path.write_text(text)
    path.chmod(0o644)
    return PolicyFile(path, owner=os.getuid())


@pytest.mark.promise("W12")
async def test_a_request_cannot_choose_what_the_policy_forbids(tmp_path: Path) -> None:
    file = policy_file(tmp_path)
    async with open_app_harness(tmp_path, saying("done"), policy_file=file) as harness:
        with pytest.raises(PolicyDenied, match=f"mode 'auto' is not allowed by the managed policy {file.path}"):
            await harness.start("hello", mode="auto")
        with pytest.raises(PolicyDenied, match=f"provider 'openai' is not allowed by the managed policy {file.path}"):
            await harness.start("hello", model="openai/gpt-6-sol")
        assert (await harness.run("hello", mode="ask")).state == "completed"


@pytest.mark.promise("W12")
async def test_a_deny_rule_of_the_policy_names_the_policy(tmp_path: Path) -> None:
    file = policy_file(tmp_path)
    script = saying(ScriptedCall("bash", {"command": "echo forbidden"}), "done")
    config = '[approvals]\nallow = ["bash"]\n'
    async with open_app_harness(tmp_path, script, policy_file=file, config=config) as harness:
        run = await harness.run("try it", mode="accept_edits")
        parts = [part for message in await harness.messages(run.session_id) for part in message.parts]
        [result] = [part for part in parts if isinstance(part, ToolResult)]
        assert result.status == "denied"
        assert f"the rule 'bash: echo forbidden' of the managed policy {file.path}" in result.text


@pytest.mark.promise("W12")
async def test_a_run_cannot_raise_a_limit_of_the_policy(tmp_path: Path) -> None:
    calls = [ScriptedCall("bash", {"command": f"echo {number}"}) for number in range(4)]
    script = saying(*calls, "done")
    async with open_app_harness(tmp_path, script, policy_file=policy_file(tmp_path)) as harness:
        run = await harness.run("go", limits=Limits(max_steps=50))
        assert (run.state, run.reason, run.steps) == ("failed", "limit_steps", 2)


@pytest.mark.promise("W12")
async def test_settings_show_the_policy_and_refuse_to_change_what_it_sets(tmp_path: Path) -> None:
    file = policy_file(tmp_path)
    async with open_app_harness(tmp_path, policy_file=file) as harness:
        settings = harness.app.services.settings
        view = await settings.config_view(harness.workspace_id)
        assert view.origins["limits.max_steps"] == f"policy ({file.path}:9)"
        assert (view.policy_file, view.policy[0]) == (str(file.path), "providers: anthropic")
        with pytest.raises(PolicyDenied, match=r"changing limits\.max_steps is not allowed by the managed policy"):
            await settings.change({"limits.max_steps": 9})
        await settings.change({"approvals.deny": ["fetch"]})
        view = await settings.config_view(harness.workspace_id)
        assert view.values["approvals"]["deny"] == ["bash: echo forbidden", "fetch"]


@pytest.mark.promise("W12")
async def test_a_policy_that_becomes_invalid_stops_everything(tmp_path: Path) -> None:
    file = policy_file(tmp_path)
    async with open_app_harness(tmp_path, saying("done"), policy_file=file) as harness:
        assert (await harness.run("hello")).state == "completed"
        file.path.chmod(0o666)
        (await harness.app.open_workspaces.live(harness.workspace_id)).forget_setup()
        with pytest.raises(ConfigError, match="so nothing runs"):
            await harness.start("hello again")


@pytest.mark.promise("W12")
async def test_a_server_does_not_start_with_an_invalid_policy(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the managed policy cannot be used, so nothing runs"):
        async with open_app_harness(tmp_path, policy_file=policy_file(tmp_path, "[allow")):
            raise AssertionError("it started")
