"""`holdfast doctor`."""

from tests.cli.cli_shell import CliShell, open_shell


def test_doctor_checks_every_area(sh: CliShell) -> None:
    output = sh.ok("doctor")
    for words in ("version", "database: ", "running at unix:", "default model: test/test-model", "bash: "):
        assert words in output
    areas = {finding["area"] for finding in sh("doctor", "--json").json}
    assert areas == {"holdfast", "places", "server", "configuration", "models", "tools", "sandbox", "terminal"}


def test_doctor_finds_a_broken_configuration() -> None:
    with open_shell() as sh:
        sh.locations.config_file.write_text("[limits]\nmax_stepz = 3\n")
        done = sh("doctor")
        assert done.status == 1
        assert "max_stepz" in done.out
        sh.locations.config_file.write_text("")
