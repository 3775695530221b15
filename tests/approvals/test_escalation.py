"""Running outside the sandbox needs an approval or a rule of its own, in every mode."""

from pathlib import Path
from typing import Any

import pytest

from holdfast.approvals.decision import Allow, Approver, Ask, Deny, Verdict
from holdfast.approvals.rules import parse_rules
from holdfast.approvals.workspace_paths import WorkspacePaths
from holdfast.schema.approvals import Subject


def verdict(tmp_path: Path, command: str, *, allow: tuple[str, ...] = (), **given: Any) -> Verdict:
    options: dict[str, Any] = {"mode": "auto", "interactive": True, "escalation": "unconfined", **given}
    subject = Subject(
        tool="bash",
        effect="runs",
        title=command,
        command=command,
        cwd=str(tmp_path),
        escalation=options.pop("escalation"),
    )
    approver = Approver(WorkspacePaths(str(tmp_path), "/home/user"))
    return approver.decide(subject, rules=parse_rules(allow=allow), trusted=True, **options)


@pytest.mark.parametrize("mode", ["ask", "accept_edits", "auto"])
@pytest.mark.parametrize("escalation", ["network", "unconfined"])
def test_every_mode_asks_also_for_a_command_that_only_reads(tmp_path: Path, mode: str, escalation: str) -> None:
    assert isinstance(verdict(tmp_path, "ls", mode=mode, escalation=escalation), Ask)
    assert isinstance(verdict(tmp_path, "ls", mode=mode, escalation=None), Allow)


def test_a_run_that_cannot_ask_is_denied_unless_a_rule_allows_it(tmp_path: Path) -> None:
    assert isinstance(verdict(tmp_path, "make install", interactive=False), Deny)
    assert isinstance(verdict(tmp_path, "make install", interactive=False, allow=("bash",)), Deny)
    allow = ("unconfined: make *",)
    assert isinstance(verdict(tmp_path, "make install", interactive=False, allow=allow), Allow)
    assert isinstance(verdict(tmp_path, "make a; ./evil", interactive=False, allow=allow), Deny)
    assert isinstance(verdict(tmp_path, "make $(./evil)", interactive=False, allow=allow), Deny)


def test_a_rule_for_the_network_does_not_give_up_the_sandbox(tmp_path: Path) -> None:
    allow = ("network: npm install *",)
    assert isinstance(verdict(tmp_path, "npm install x", escalation="network", allow=allow), Allow)
    assert isinstance(verdict(tmp_path, "npm install x", escalation="unconfined", allow=allow), Ask)
