"""`holdfast memory`."""

from tests.cli.cli_shell import CliShell


def test_entries_are_listed_added_and_removed(sh: CliShell) -> None:
    assert "nothing is remembered yet" in sh.ok("memory")
    sh.ok("memory", "add", "the tests", "need a database")
    assert sh.ok("memory", "add", "--user", "be brief").splitlines() == [
        *("this project:", "  1  the tests need a database"),
        *("all projects (--user):", "  1  be brief"),
    ]
    project, user = sh.ok("memory", "path").splitlines()
    assert project != user
    refused = sh("memory", "remove", "7")
    assert refused.status == 2
    assert "there is no entry 7; there are 1" in refused.err
    assert sh("memory", "remove", "1", "--json").json["items"] == [{"scope": "user", "number": 1, "text": "be brief"}]
    sh.ok("memory", "remove", "--user", "1")
