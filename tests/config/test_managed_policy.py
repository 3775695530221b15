"""The managed policy: who must own it, what it means, and that no layer loosens it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.config import Catalogue, Config, PolicyFile, load_config
from holdfast.config.config_layers import Origin
from holdfast.config.managed_policy import NO_POLICY, Policy, parse_policy, system_policy_path
from holdfast.errors import ConfigError, PolicyDenied
from holdfast.locations import Locations

KEYS = {"ANTHROPIC_API_KEY": "key-of-anthropic", "OPENAI_API_KEY": "key-of-openai"}


@pytest.fixture
def locations(holdfast_home: Path) -> Locations:
    found = Locations.from_env({"HOLDFAST_HOME": str(holdfast_home)})
    found.prepare()
    return found


def policy(text: str) -> Policy:
    return parse_policy(text, path=Path("/etc/holdfast/policy.toml"))


def file_with(directory: Path, text: str, *, mode: int = 0o644) -> PolicyFile:
    path = directory / "policy.toml"
    path.write_text(text)
    path.chmod(mode)
    return PolicyFile(path, owner=os.getuid())


def refused(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        policy(text)
    return caught.value.message


def load(locations: Locations, text: str, *, user: str = "") -> Config:
    locations.config_file.write_text(user)
    return load_config(locations, env={}, policy=policy(text))


def catalogue(config: Config) -> Catalogue:
    return Catalogue(config.settings, env=KEYS, policy=config.policy)


def test_the_path_is_fixed_per_platform() -> None:
    assert system_policy_path(platform="linux") == Path("/etc/holdfast/policy.toml")
    assert system_policy_path(platform="darwin") == Path("/Library/Application Support/Holdfast/policy.toml")
    assert PolicyFile().path == system_policy_path()


def test_without_a_file_nothing_is_restricted(tmp_path: Path) -> None:
    assert PolicyFile(tmp_path / "none" / "policy.toml", owner=os.getuid()).read() is NO_POLICY
    assert not NO_POLICY
    assert NO_POLICY.allows_mcp_server("any", command=("anything",))


@pytest.mark.promise("W12")
def test_a_policy_that_others_can_change_is_refused(tmp_path: Path) -> None:
    assert file_with(tmp_path, "", mode=0o644).read()
    for mode in (0o664, 0o646):
        with pytest.raises(ConfigError, match=r"so nothing runs.*can be changed by others") as caught:
            file_with(tmp_path, "", mode=mode).read()
        assert caught.value.error_code == "policy_invalid"


def test_a_policy_in_a_directory_that_others_can_change_is_refused(tmp_path: Path) -> None:
    directory = tmp_path / "holdfast"
    directory.mkdir(mode=0o755)
    found = file_with(directory, "")
    assert found.read()
    directory.chmod(0o777)
    with pytest.raises(ConfigError, match="can be changed by others"):
        found.read()


@pytest.mark.promise("W12")
def test_a_policy_of_another_user_is_refused(tmp_path: Path) -> None:
    file_with(tmp_path, "")
    with pytest.raises(ConfigError, match="does not belong to root"):
        PolicyFile(tmp_path / "policy.toml", owner=os.getuid() + 1).read()


@pytest.mark.parametrize("make", [lambda path: path.symlink_to("/etc/hostname"), lambda path: path.mkdir(), os.mkfifo])
def test_a_policy_that_is_no_regular_file_is_refused(tmp_path: Path, make: Callable[[Path], object]) -> None:
    make(tmp_path / "policy.toml")
    with pytest.raises(ConfigError, match="is not a regular file"):
        PolicyFile(tmp_path / "policy.toml", owner=os.getuid()).read()


@pytest.mark.promise("W12")
def test_every_mistake_makes_the_policy_invalid() -> None:
    assert "policy.toml:2" in refused("[allow]\nprovider = ['x']\n")
    assert "did you mean 'providers'" in refused("[allow]\nprovider = ['x']")
    assert "unknown mode 'yolo'" in refused("[allow]\nmodes = ['yolo']")
    assert "settings.server.sandbox" in refused("[settings.server]\nsandbox = 'maybe'")
    assert "use 'allow.models'" in refused("[settings.models]\nlarge = 'openai/x'")
    assert "use 'allow.modes'" in refused("[settings.approvals]\nmode = 'plan'")
    assert "a name alone can be chosen freely" in refused("[allow.mcp.github]")
    assert "write it like" in refused("[allow.mcp.github]\nurl = 'github.com'")
    assert "is not valid TOML" in refused("[allow")


@pytest.mark.promise("W12")
def test_settings_of_the_policy_override_every_layer_and_say_so(locations: Locations) -> None:
    config = load(locations, "[settings.limits]\nmax_steps = 5\n", user="[limits]\nmax_steps = 500\n")
    assert config.settings.limits.max_steps == 5
    assert config.origins["limits", "max_steps"] == Origin("policy", "/etc/holdfast/policy.toml", 2)
    assert config.warnings == (
        f"{locations.config_file}:2: limits.max_steps is not used: "
        "the managed policy /etc/holdfast/policy.toml sets it",
    )
    flags = load_config(locations, env={}, flags={"limits.max_steps": 7}, policy=config.policy)
    assert flags.settings.limits.max_steps == 5


def test_deny_rules_add_up(locations: Locations) -> None:
    text = "[settings.approvals]\ndeny = ['bash: curl *']"
    config = load(locations, text, user="[approvals]\ndeny = ['fetch']")
    assert config.settings.approvals.deny == ("bash: curl *", "fetch")
    assert load(locations, text).settings.approvals.deny == ("bash: curl *",)


def test_a_stricter_sandbox_of_the_user_stays(locations: Locations) -> None:
    text = "[settings.server]\nsandbox = 'workspace-write'\nsandbox_network = 'ask'"
    strict = load(locations, text, user="[server]\nsandbox = 'read-only'\nsandbox_network = 'off'").settings.server
    assert (strict.sandbox, strict.sandbox_network) == ("read-only", "off")
    loose = load(
        locations, text, user="[server]\nsandbox = 'off'\nsandbox_network = 'allow'\nsandbox_writable = ['/']"
    ).settings.server
    assert (loose.sandbox, loose.sandbox_network, loose.sandbox_writable) == ("workspace-write", "ask", ())


def test_a_mode_that_is_not_allowed_becomes_a_stricter_one(locations: Locations) -> None:
    config = load(locations, "[allow]\nmodes = ['plan', 'ask']", user="[approvals]\nmode = 'auto'")
    assert config.settings.approvals.mode == "ask"
    assert config.origins["approvals", "mode"].layer == "policy"
    with pytest.raises(PolicyDenied, match="mode 'auto' is not allowed by the managed policy /etc/holdfast"):
        config.policy.check_mode("auto")
    with pytest.raises(ConfigError, match="managed policy"):
        load(locations, "[allow]\nmodes = ['auto']", user="[approvals]\nmode = 'ask'")


def test_only_allowed_providers_and_models_are_offered(locations: Locations) -> None:
    config = load(locations, "contact = 'ask it@example.org'\n[allow]\nmodels = ['anthropic/*haiku*']")
    found = catalogue(config)
    assert {model.provider for model in found.models()} == {"anthropic", "offline"}
    assert all("haiku" in model.model for model in found.models() if model.provider == "anthropic")
    assert "haiku" in found.large().name
    with pytest.raises(PolicyDenied, match=r"the provider 'openai' is not allowed .*; ask it@example\.org$"):
        found.resolve("openai/gpt-6-sol")
    sonnet = next(model.name for model in Catalogue(config.settings, env=KEYS).models() if "sonnet" in model.name)
    with pytest.raises(PolicyDenied, match=r"the model 'anthropic/.*sonnet"):
        found.resolve(sonnet)
    assert found.resolve("offline/demo")


def test_an_allowed_provider_cannot_be_sent_elsewhere(locations: Locations) -> None:
    text = "[allow]\nproviders = ['anthropic', 'corp']"
    user = "[providers.anthropic]\nbase_url = 'https://elsewhere.example'\n"
    found = catalogue(load(locations, text, user=user))
    with pytest.raises(PolicyDenied, match=r"address of the provider 'anthropic'.*settings\.providers\.anthropic"):
        found.resolve("anthropic/claude-next")
    own = "[providers.corp]\nwire = 'openai-chat'\nbase_url = 'https://elsewhere.example/v1'\n"
    with pytest.raises(PolicyDenied, match="address of the provider 'corp'"):
        catalogue(load(locations, text, user=own)).resolve("corp/any")
    fixed = text + "\n[settings.providers.corp]\nwire = 'openai-chat'\nbase_url = 'https://models.corp.example/v1/'\n"
    assert catalogue(load(locations, fixed, user=own)).resolve("corp/any").base_url == "https://models.corp.example/v1"


def test_a_request_body_cannot_name_another_model(locations: Locations) -> None:
    user = "[providers.anthropic]\nbody = {model = 'claude-forbidden'}"
    found = catalogue(load(locations, "[allow]\nmodels = ['anthropic/claude-*']", user=user))
    with pytest.raises(PolicyDenied, match="'body' of anthropic/claude-next that names a model"):
        found.resolve("anthropic/claude-next")


@pytest.mark.parametrize(
    ("server", "allowed"),
    [
        ({"name": "github", "url": "https://mcp.example.org/v1"}, True),
        ({"name": "github", "url": "https://team.tools.example.org/x"}, True),
        ({"name": "other", "url": "https://mcp.example.org/v1"}, False),
        ({"name": "github", "url": "http://mcp.example.org/v1"}, False),
        ({"name": "github", "url": "https://mcp.example.org:8443/v1"}, False),
        ({"name": "github", "url": "https://mcp.example.org@evil.example/v1"}, False),
        ({"name": "github", "url": "https://evil.example/x.tools.example.org/"}, False),
        ({"name": "github", "url": "https://evil.example\\.tools.example.org/"}, False),
        ({"name": "github", "url": "https://mcp.example.org/../v1"}, False),
        ({"name": "docs", "command": ("npx", "-y", "@corp/docs")}, True),
        ({"name": "docs", "command": ("npx", "-y", "@corp/docs", "--root", ".")}, True),
        ({"name": "docs", "command": ("npx", "-y", "@evil/docs")}, False),
        ({"name": "docs", "command": ("npx", "-y")}, False),
        ({"name": "exact", "command": ("tool",)}, True),
        ({"name": "exact", "command": ("tool", "--more")}, False),
        ({"name": "docs", "command": ("sh",), "url": "https://mcp.example.org/v1"}, False),
    ],
)
def test_mcp_servers_are_allowed_by_name_and_command_or_address(server: dict[str, object], allowed: bool) -> None:
    found = policy(
        "[allow.mcp.github]\nurl = 'https://mcp.example.org/*'\n"
        "[allow.mcp.'g*']\nurl = 'https://*.tools.example.org/*'\n"
        "[allow.mcp.docs]\ncommand = ['npx', '-y', '@corp/docs', '*']\n"
        "[allow.mcp.exact]\ncommand = ['tool']\n"
    )
    assert found.allows_mcp_server(**server) is allowed  # type: ignore[arg-type]
    assert policy("[allow.mcp]").allows_mcp_server(**server) is False  # type: ignore[arg-type]
    assert policy("").allows_mcp_server(**server) is True  # type: ignore[arg-type]


def test_nobody_can_approve_a_way_out_of_a_required_sandbox() -> None:
    required = policy("[settings.server]\nsandbox = 'workspace-write'\nsandbox_network = 'off'")
    assert "managed policy" in (required.escalation_refusal("unconfined") or "")
    assert "managed policy" in (required.escalation_refusal("network") or "")
    assert required.escalation_refusal(None) is None
    assert policy("[settings.server]\nsandbox_network = 'ask'").escalation_refusal("network") is None
    assert NO_POLICY.escalation_refusal("unconfined") is None


def test_the_summary_names_everything_that_is_restricted() -> None:
    found = policy(
        "[allow]\nproviders = ['anthropic']\nmodes = []\n[allow.mcp]\n[settings.server]\nsandbox = 'read-only'"
    )
    assert found.summary() == (
        "providers: anthropic",
        "modes: none",
        "MCP servers: none",
        "settings: server.sandbox",
    )
    assert NO_POLICY.summary() == ()


def test_the_example_in_the_documentation_is_valid() -> None:
    text = (Path(__file__).parents[2] / "docs" / "extensions.md").read_text().partition("## Managed policy")[2]
    found = policy(text.partition("```toml\n")[2].partition("```")[0])
    assert found.mode_refusal("auto")
    assert not found.mode_refusal("ask")
    assert found.allows_mcp_server("github", url="https://mcp.example.org/github")
    assert not found.allows_mcp_server("github", url="https://elsewhere.example/github")
    assert found.escalation_refusal("unconfined")
    assert "it@example.org" in found.refusal("this")
