"""`holdfast selftest`."""

import io
import json

import pytest

from holdfast.cli import main
from holdfast.cli.commands.selftest import LiveTable, verdict
from holdfast.cli.screen import Style
from holdfast.selftest.check_result import CheckResult
from holdfast.selftest.trial import TrialResult
from tests.cli.cli_shell import open_shell, processes_of


@pytest.mark.timeout(180)
@pytest.mark.promise("R1", "C1", "E2", "W6", "R7")
def test_the_promises_hold_on_this_machine() -> None:
    with open_shell(provider=False) as sh:
        found = json.loads(sh.ok("selftest", "--quick", "--json"))
        states = {check["name"]: check["state"] for check in found["result"]["checks"]}
        assert found["held"] is True
        assert {name for name, state in states.items() if state not in ("held", "skipped")} == set(), found
        assert {name for name, state in states.items() if state == "skipped"} <= {"full-disk"}  # needs a mount
        assert found["report"] is None
        assert list((sh.base / "tmp").iterdir()) == []
        assert not sh.locations.data_dir.exists()
        assert processes_of(sh.base) == []


def test_a_wrong_server_address_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["selftest", "--server", "nowhere"]) == 2
    assert "--server must be unix:/PATH or http://host:port, got 'nowhere'" in capsys.readouterr().err


def test_quick_and_long_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["selftest", "--quick", "--long"]) == 2
    assert "--long: not allowed with argument --quick" in capsys.readouterr().err


def test_without_a_terminal_a_line_is_printed_when_a_check_ends() -> None:
    stream = io.StringIO()
    table = LiveTable(stream)
    waiting = CheckResult("a", "first", ("R1",)), CheckResult("b", "second", ("R2",))
    table.show([CheckResult("a", "first", ("R1",), "running", {"prompts": 1200}), waiting[1]])
    assert stream.getvalue() == ""
    held = CheckResult("a", "first", ("R1",), "held", {"prompts": 1200}, 1.0)
    table.show([held, waiting[1]])
    table.show([held, CheckResult("b", "second", ("R2",), "skipped", {}, 0.1, "not here")])
    table.finish()
    lines = [line.split() for line in stream.getvalue().splitlines()]
    assert [line[1:] for line in lines] == [["first", "1,200", "prompts"], ["second", "not", "here"]]


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (("held", "held"), "All promises held: 2 checks. 7 prompts; 12 s, seed 5"),
        (("held", "skipped"), "All promises held: 1 checks, 1 left out. 7 prompts; 12 s, seed 5"),
        (("broken", "held"), "BROKEN: 1 of 2 checks failed. 7 prompts; 12 s, seed 5"),
    ],
)
def test_the_verdict_is_one_line(states: tuple[str, ...], expected: str) -> None:
    counts = ({"prompts": 3}, {"prompts": 4, "letters": 9})
    checks = tuple(
        CheckResult("a", "title", ("R1",), state, counts[number])  # type: ignore[arg-type]
        for number, state in enumerate(states)
    )
    assert verdict(TrialResult(checks, 12.2, 5), Style(io.StringIO())) == expected
