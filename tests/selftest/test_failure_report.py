"""What `holdfast selftest` prints and writes if a promise is broken."""

from pathlib import Path

import pytest

from holdfast.cli import main
from holdfast.selftest import check_table
from holdfast.selftest.check_context import CheckContext
from holdfast.selftest.check_table import Check


def test_a_broken_promise_exits_with_1_and_writes_a_report_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    secrets: list[str] = []

    async def break_promise(context: CheckContext) -> None:
        secrets.append(context.secret)
        context.count("prompts", 3)
        context.expect(False, "two ends for one run")

    broken = Check("one-end", "every run ends once", ("R7",), break_promise)
    monkeypatch.setattr(check_table, "CHECKS", (broken,))
    report = tmp_path / "report.md"
    assert main(["selftest", "--quick", "--report", str(report)]) == 1
    printed = capsys.readouterr().out
    assert "every run ends once" in printed
    assert "two ends for one run" in printed
    assert "BROKEN: 1 of 1 checks failed." in printed
    assert str(report) in printed
    text = report.read_text()
    assert "- broken: one-end (R7) {'prompts': 3}" in text
    assert "two ends for one run" in text
    assert secrets[0] not in text
