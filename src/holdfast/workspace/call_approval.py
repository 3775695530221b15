"""Decides about a run's calls by its workspace's rules, and asks a person where they say so."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from holdfast.agent.protocol import TurnHandle
from holdfast.agent.turn_dependencies import Denied, Permitted
from holdfast.approvals.decision import Allow, Ask, Deny
from holdfast.approvals.rules import Rules, read_rules
from holdfast.schema.approvals import Approval
from holdfast.schema.messages import ToolCall
from holdfast.schema.runs import Mode
from holdfast.tools.protocol import ToolPlan
from holdfast.workspace.open_workspace import OpenWorkspace, Setup


class WorkspaceCallApprover:
    """Of one run. Rules and grants are read for each call: an answer given meanwhile counts at once."""

    def __init__(self, room: OpenWorkspace, setup: Setup, *, mode: Mode, root_session_id: str) -> None:
        self._room = room
        self._setup = setup
        self._mode = mode
        self._root_session_id = root_session_id

    async def permit(
        self, handle: TurnHandle, call: ToolCall, plan: ToolPlan, *, waiting: Callable[[], None]
    ) -> Permitted | Denied:
        verdict = await self._room.approver.consider(
            plan.subject,
            mode=self._mode,
            rules=await self._rules(),
            trusted=self._setup.trusted,
            interactive=handle.run.interactive,
        )
        match verdict:
            case Allow():
                return Permitted()
            case Deny(why):
                return Denied(f"Denied: {why}. Do not try to get around it; go another way or say what you need.")
            case Ask():
                waiting()
                return await self._ask(handle, call, plan, verdict)
            case _:
                assert_never(verdict)

    async def _ask(self, handle: TurnHandle, call: ToolCall, plan: ToolPlan, verdict: Ask) -> Permitted | Denied:
        shared = self._room.shared
        answered = await shared.approvals.request(
            Approval(
                id="",
                workspace_id=self._room.workspace.id,
                session_id=handle.run.session_id,
                root_session_id=self._root_session_id,
                run_id=handle.run.id,
                call_id=call.id,
                tool=call.name,
                title=shared.redact(plan.subject.title),
                why=shared.redact(verdict.why),
                patterns=_without_secrets(verdict.patterns, shared.redact),
                display=plan.display,
            ),
            deadline=self._setup.settings.approvals.deadline,
        )
        if answered.decision in ("once", "session", "always"):
            return Permitted()
        if answered.state == "expired":
            return Denied("Denied: nobody answered in time. Go another way or say what you need.")
        said = f" They said: {answered.feedback}" if answered.feedback else ""
        return Denied(f"Denied by the person.{said}")

    async def _rules(self) -> Rules:
        room = self._room
        configured = (await room.setup()).settings.approvals
        grants = await room.shared.store.grants(room.workspace.id, session_id=self._root_session_id)
        return read_rules(deny=configured.deny, allow=configured.allow, grants=tuple(grant.rule for grant in grants))


def _without_secrets(patterns: tuple[str, ...], redact: Callable[[str], str]) -> tuple[str, ...]:
    """A rule with a secret in it is never offered to be saved: then the call can only be allowed once."""
    return patterns if all(redact(pattern) == pattern for pattern in patterns) else ()
