"""`holdfast doctor`."""

from typing import Any

import pytest

from holdfast.cli.commands.doctor import config_findings, extension_finding, sandbox_findings
from holdfast.client.server_address import ServerAddress
from holdfast.client.sync_client import SyncClient
from holdfast.schema.api.response_bodies import ConfigView, SandboxView
from holdfast.schema.extensions import ExtensionStatus
from holdfast.tools.process.sandbox import probe_sandboxes
from tests.cli.cli_shell import CliShell, open_shell


def test_doctor_checks_every_area(sh: CliShell) -> None:
    output = sh.ok("doctor")
    for words in ("version", "database: ", "running at unix:", "default model: test/test-model", "bash: "):
        assert words in output
    areas = {finding["area"] for finding in sh("doctor", "--json").json}
    assert areas == {"holdfast", "places", "server", "configuration", "models", "tools", "sandbox", "terminal"}


@pytest.mark.parametrize(
    ("settings", "found", "state", "words"),
    [
        ({}, SandboxView(backend="namespace"), "good", "a mount namespace confines commands; they write the workspace"),
        ({}, SandboxView(backend="bubblewrap"), "good", "bubblewrap confines commands; they write the workspace, /x,"),
        ({}, SandboxView(backend="landlock", bubblewrap="not installed"), "good", "Landlock confines commands"),
        ({"sandbox": "off"}, SandboxView(backend="landlock"), "hint", "'off'; Landlock works"),
        ({}, SandboxView(namespace="no", bubblewrap="no"), "hint", "not confined (namespaces: no; bubblewrap: no"),
        ({"sandbox": "read-only"}, SandboxView(bubblewrap="a", landlock="b"), "bad", "no command can run"),
        ({"sandbox": "read-only"}, SandboxView(backend="bubblewrap"), "good", "they write their temporary directory;"),
        ({"sandbox_network": "ask"}, SandboxView(backend="bubblewrap"), "good", "the network needs an approval"),
    ],
)
def test_doctor_tells_what_the_server_and_the_settings_make_of_the_sandbox(
    settings: dict[str, Any], found: SandboxView, state: str, words: str
) -> None:
    server = {"sandbox": "auto", "sandbox_network": "allow", "sandbox_caches": True, "sandbox_writable": ["/x"]}
    first = sandbox_findings(found, {**server, **settings})[0]
    assert (first.state, words in first.what) == (state, True), first


def test_doctor_shows_the_managed_policy() -> None:
    view = ConfigView(policy_file="/etc/holdfast/policy.toml", policy=("providers: anthropic", "modes: ask"))
    shown = [finding.what for finding in config_findings(view)]
    assert "managed policy /etc/holdfast/policy.toml: providers: anthropic; modes: ask" in shown


def test_doctor_names_what_landlock_does_not_cover() -> None:
    server = {"sandbox": "auto", "sandbox_network": "off", "sandbox_caches": True, "sandbox_writable": []}
    found = SandboxView(
        backend="landlock",
        namespace="forbidden",
        bubblewrap="not installed",
        not_covered=("chmod", "any network but TCP"),
    )
    _, second = sandbox_findings(found, server)
    assert second.what == "Landlock does not prevent: chmod, any network but TCP"
    assert "not installed" in second.advice
    assert "forbidden" in second.advice


def test_doctor_uses_the_probe_of_the_server(sh: CliShell) -> None:
    shown = [finding["what"] for finding in sh("doctor", "--json").json if finding["area"] == "sandbox"]
    with SyncClient(ServerAddress(path=str(sh.locations.socket))) as client:  # the command has started the server
        found = client.sandbox()
    probed = probe_sandboxes()
    assert (found.backend, found.namespace) == (probed.backend, probed.namespace)
    assert (found.bubblewrap, found.landlock) == (probed.bubblewrap, probed.landlock)
    assert found.not_covered == probed.not_covered
    names = {"namespace": "a mount namespace", "bubblewrap": "bubblewrap", "landlock": "Landlock", None: "not confined"}
    assert any(names[found.backend] in what for what in shown)


def test_doctor_finds_a_broken_configuration() -> None:
    with open_shell() as sh:
        sh.locations.config_file.write_text("[limits]\nmax_stepz = 3\n")
        done = sh("doctor")
        assert done.status == 1
        assert "max_stepz" in done.out
        sh.locations.config_file.write_text("")


def test_doctor_tells_what_is_wrong_with_an_extension_and_where_it_is_configured() -> None:
    failed = extension_finding(
        ExtensionStatus("mcp", "docs", "failed", "it exited with status 3", "/home/me/config.toml:4")
    )
    assert failed == ("extensions", "hint", "mcp docs: failed, it exited with status 3", "see /home/me/config.toml:4")
    assert extension_finding(ExtensionStatus("mcp", "docs", "ready")) == ("extensions", "good", "mcp docs: ready", "")
