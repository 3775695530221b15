"""`holdfast jobs`."""

from tests.cli.cli_shell import CliShell


def test_jobs_are_listed_shown_and_killed(sh: CliShell) -> None:
    assert sh.ok("jobs") == "this directory has no background jobs"
    sh.ok("run", "--mode", "auto", "!job echo started; sleep 1000")
    listed = sh("jobs", "list", "--running", "--json").json["items"]
    assert [job["command"] for job in listed] == ["echo started; sleep 1000"]
    job_id = listed[0]["id"]
    assert "running" in sh.ok("jobs").splitlines()[1]
    shown = sh("jobs", "show", job_id[:-1])
    assert (shown.status, shown.out) == (0, "started\n")
    assert sh("jobs", "show", job_id, "--json").json["id"] == job_id
    assert "killed" in sh.ok("jobs", "kill", job_id[:-1])
    assert sh.ok("jobs", "list", "--running") == "no background jobs are running"
    assert sh("jobs", "show", "job_nobody").status == 1
