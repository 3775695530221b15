"""`holdfast config` and `trust`."""

import shutil

from tests.cli.cli_shell import CliShell


def test_configuration_is_read_changed_and_edited(sh: CliShell) -> None:
    assert sh.ok("config", "path") == str(sh.locations.config_file)
    assert sh.ok("config", "get", "limits.max_steps") == "200"
    assert sh.ok("config", "set", "limits.max_steps", "50") == "limits.max_steps = 50"
    assert "limits.max_steps" in sh.ok("config", "get")
    sh.ok("config", "set", "approvals.allow", '["bash: true"]')
    assert sh("config", "get", "approvals.allow", "--json").json == ["bash: true"]
    sh.ok("config", "set", "approvals.allow", "--unset")
    sh.ok("config", "set", "limits.max_steps", "--unset")
    assert sh("config", "get", "--json").json["values"]["limits"]["max_steps"] == 200
    assert "did you mean 'limits.max_steps'" in sh("config", "get", "limits.max_stepz").err
    assert sh("config", "set", "limits.max_steps", "many").status == 3
    assert sh("config", "set", "limits.max_steps").status == 2
    assert sh("config", "schema").json["type"] == "object"
    assert sh.ok("config", "edit", env={"EDITOR": "true"}) == "the settings are valid"
    before = sh.locations.config_file.read_text()
    try:
        spoiled = sh("config", "edit", env={"EDITOR": "sh -c 'echo nonsense = 1 >> \"$0\"'"})
        assert spoiled.status == 3
        assert "nonsense" in spoiled.err
    finally:
        sh.locations.config_file.write_text(before)


def test_trust_can_be_revoked(sh: CliShell) -> None:
    assert sh.ok("trust") == f"{sh.work} is trusted"
    assert not sh("trust", "--revoke", "--json").json["trusted"]
    command = sh.work / ".claude" / "commands" / "deploy.md"
    command.parent.mkdir(parents=True)
    command.write_text("Deploy it.")
    try:
        assert f"used from now on: command deploy ({command})" in sh.ok("trust")
        assert "deploy" not in sh.ok("trust", "--revoke")
    finally:
        shutil.rmtree(sh.work / ".claude")


def test_a_known_setting_without_a_value_is_printed_as_not_set(sh: CliShell) -> None:
    assert sh.ok("config", "get", "models.small") == "(not set)"
    assert sh.ok("config", "get", "models.small", "--json") == "null"
    assert sh.ok("config", "get", "providers.openai.base_url") == "(not set)"
    done = sh("config", "get", "limits.max_costs")
    assert (done.status, "unknown setting" in done.err) == (3, True)


def test_the_origin_of_a_setting_is_printed(sh: CliShell) -> None:
    assert sh.ok("config", "get", "limits.max_steps", "--origin").split()[:2] == ["limits.max_steps", "200"]
    rows = [line.split() for line in sh.ok("config", "get", "models", "--origin").splitlines()]
    assert ["models.large", "test/test-model"] in [row[:2] for row in rows]
    found = sh("config", "get", "models.large", "--origin", "--json").json
    assert found["models.large"]["value"] == "test/test-model"
    assert found["models.large"]["origin"].endswith("config.toml:3)")
    assert sh("config", "get", "models.nothing", "--origin").status == 3
