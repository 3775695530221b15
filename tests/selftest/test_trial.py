"""The self-test finds broken promises: checks are run on servers that break what they check."""

import asyncio
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast.client.async_client import AsyncClient
from holdfast.client.own_server import OwnServer
from holdfast.selftest import fault_checks
from holdfast.selftest.check_context import CheckContext
from holdfast.selftest.check_result import CheckResult, CheckSkipped, PromiseBroken
from holdfast.selftest.check_table import CHECKS, Check
from holdfast.selftest.fault_checks import SmallDisk
from holdfast.selftest.trial import Trial, TrialResult
from tests.support.environment import isolated_environment

_PROMISES = Path(__file__).parents[2] / "docs" / "promises.md"
_START = "import sys; from holdfast.cli import main; sys.exit(main(['serve']))"

MUTATIONS = {
    "cancel-races": """
import holdfast.runs.lane.decisions as lane
lane._cancel_session = lane._cancel_active
""",
    "queue-order": """
import holdfast.runs.lane.decisions as lane
lane._move = lambda draft, run, *, position: None
""",
    "replay-after-cuts": """
from holdfast.events.recent_events import RecentEvents
index_after = RecentEvents.index_after
RecentEvents.index_after = lambda self, number: min(index_after(self, number) + 1, self.end)
""",
    "approvals": """
import holdfast.approvals.pending_approvals as pending
pending._winner_or_conflict = lambda found, wanted: found
""",
    "crash-in-answer": """
import holdfast.store.sqlite.draft_log as draft_log
draft_log.DraftLog.append = lambda self, piece: None
""",
    "secrets": """
import holdfast.config.redaction as redaction
redaction._Finder.spans = lambda self, text, *, before='': []
redaction._Finder.first_open = lambda self, text: len(text)
redaction.Redactor.redact_bytes = lambda self, data: data
""",
}


def checks(*names: str) -> list[Check]:
    return [check for check in CHECKS if check.name in names]


def trial(found: Sequence[Check], *, seconds: float = 0.0) -> Trial:
    return Trial(found, seconds=seconds, seed=1, on_change=lambda results: None)


def states(result: TrialResult) -> dict[str, str]:
    return {check.name: check.state for check in result.checks}


@pytest.mark.parametrize("name", MUTATIONS)
async def test_a_check_reports_a_server_that_breaks_its_promise(name: str) -> None:
    result = await trial(checks(name)).run(command=("-P", "-c", MUTATIONS[name] + _START))
    assert states(result) == {name: "broken"}, result.checks[0].detail
    assert result.checks[0].detail
    assert not result.held


async def test_one_round_tries_all_wires_and_prompts_on_both_sides_of_a_cancel() -> None:
    result = await trial(checks("cancel-races", "exact-text")).run()
    races, texts = result.checks
    assert (races.state, texts.state) == ("held", "held"), (races.detail, texts.detail)
    assert races.counts["covered"] >= 1
    assert races.counts["not covered"] >= 1
    assert texts.counts["prompts"] >= 4


async def test_a_check_that_is_surprised_is_broken_and_the_others_go_on() -> None:
    async def surprised(context: CheckContext) -> None:
        raise KeyError("tool_calls")

    async def late(context: CheckContext) -> None:
        raise TimeoutError

    found = [
        Check("surprised", "a check", ("R1",), surprised),
        Check("late", "a check", ("R1",), late),
        *checks("queue-order"),
    ]
    result = await trial(found).run()
    assert states(result) == {"surprised": "broken", "late": "broken", "queue-order": "held"}
    assert result.checks[0].detail == "KeyError: 'tool_calls'"
    assert result.checks[1].detail == "something that must happen did not, within 60 s"


ROOM_IN_THE_LOG = """
from holdfast.store.sqlite.database_threads import WriterThread
start = WriterThread.start
def start_with_room(self):
    self._sql.execute("CREATE TABLE room (bytes)")
    self._sql.execute("INSERT INTO room VALUES (zeroblob(3000000))")
    self._sql.execute("DROP TABLE room")
    self._sql.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    start(self)
WriterThread.start = start_with_room
"""


async def test_a_prompt_that_still_fits_into_the_log_of_a_full_disk_breaks_no_promise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class DiskWithRoomInTheLog(SmallDisk):
        def __init__(self, directory: Path) -> None:
            super().__init__(directory)
            mount = "from pathlib import Path; from holdfast.selftest import small_disk\n"
            mount += f"small_disk.mount_small_disk(Path({str(directory)!r}), megabytes=24)\n"
            mount += f"small_disk.send_directory(Path({str(directory)!r}), {self.inherited[0]})\n"
            self.command = ("-P", "-c", mount + ROOM_IN_THE_LOG + _START)

    monkeypatch.setattr(fault_checks, "SmallDisk", DiskWithRoomInTheLog)
    result = await trial(checks("full-disk")).run()
    [check] = result.checks
    if check.state != "skipped":  # where no namespace is permitted
        assert check.state == "held", check.detail
        assert check.counts["accepted on a full disk"] >= 1
        assert check.counts["refused on a full disk"] == 1


async def test_many_rounds_on_a_full_disk_do_not_fill_it_with_their_own_prompts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(CheckContext, "rounds", lambda self: range(3))
    made: list[Path] = []
    monkeypatch.setattr(fault_checks, "SmallDisk", lambda where: made.append(where) or SmallDisk(where))
    [check] = (await trial(checks("full-disk")).run()).checks
    if check.state != "skipped":  # where no namespace is permitted
        assert check.state == "held", check.detail
        assert len(set(made)) == 3


async def test_the_report_has_the_log_of_the_server_that_a_check_started(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_arguments: Any, **_names: Any) -> None:
        raise PromiseBroken("as if")

    monkeypatch.setattr(CheckContext, "events_until_end", fail)
    result = await trial(checks("clock-jumps")).run()
    assert [check.state for check in result.checks] == ["broken"]
    main, other = result.server_log.split("The server of the check clock-jumps:")
    assert all("listening" in log for log in (main, other))


async def test_text_that_was_shown_before_the_stream_was_opened_breaks_no_promise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    until_shown = fault_checks._until_shown

    async def until_shown_to_a_late_stream(*arguments: Any) -> None:
        await until_shown(*arguments)
        await until_shown(*arguments)

    monkeypatch.setattr(fault_checks, "_until_shown", until_shown_to_a_late_stream)
    result = await trial(checks("crash-in-answer")).run()
    assert states(result) == {"crash-in-answer": "held"}, result.checks[0].detail


async def test_on_a_running_server_only_the_checks_run_that_leave_it_alone(tmp_path: Path) -> None:
    env = {"PATH": "/usr/bin:/bin", **isolated_environment(tmp_path)}
    server = await asyncio.to_thread(OwnServer, tmp_path, env=env)
    await asyncio.to_thread(server.start)
    try:
        found = checks("durable-accept", "cancel-races", "exact-text")
        result = await trial(found).run_on(server.address, token=None)
        async with AsyncClient(server.address) as client:
            pages = [await client.sessions(workspace.id) for workspace in (await client.workspaces()).items]
    finally:
        await asyncio.to_thread(server.stop)
    assert states(result) == {"durable-accept": "skipped", "cancel-races": "held", "exact-text": "held"}, result.checks
    assert [page.items for page in pages] == [()]


async def test_one_broken_or_impossible_check_does_not_end_the_trial() -> None:
    async def skip(context: CheckContext) -> None:
        raise CheckSkipped("not possible here")

    async def break_connection(context: CheckContext) -> None:
        context.count("tries")
        raise ConnectionResetError("gone")

    async def hold(context: CheckContext) -> None:
        context.expect(holds=True, broken="")

    shown: list[tuple[CheckResult, ...]] = []
    made = [Check(run.__name__, "title", ("R1",), run) for run in (skip, break_connection, hold)]
    whole = Trial(made, seconds=0.0, seed=1, on_change=lambda results: shown.append(tuple(results)))
    result = await whole.run()
    assert states(result) == {"skip": "skipped", "break_connection": "broken", "hold": "held"}
    assert result.checks[1].detail == "ConnectionResetError: gone"
    assert result.checks[1].counts == {"tries": 1}
    assert any(results[0].state == "running" for results in shown)


def test_every_check_names_promises_that_exist() -> None:
    known = set(re.findall(r"^\| ([A-Z]\d+) \|", _PROMISES.read_text(), flags=re.MULTILINE))
    named = {promise for check in CHECKS for promise in check.promises}
    assert named <= known
    assert len({check.name for check in CHECKS}) == len(CHECKS)


def test_the_trial_leaves_no_files_and_no_processes(tmp_path: Path) -> None:
    env = {**isolated_environment(tmp_path), "PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path / "t")}
    (tmp_path / "t").mkdir()
    program = (
        "import asyncio, sys; from holdfast.selftest.check_table import CHECKS; "
        "from holdfast.selftest.trial import Trial; "
        "trial = Trial([c for c in CHECKS if c.name == 'undo'], seconds=0, seed=1, on_change=lambda r: None); "
        "sys.exit(not asyncio.run(trial.run()).held)"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert list((tmp_path / "t").iterdir()) == []
