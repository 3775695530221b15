"""Decides by the rules of a workspace whether a tool call may run, and asks the user where the rules say so."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, assert_never

from msgspec.structs import replace

from holdfast.agent.protocol import TurnHandle
from holdfast.agent.turn_dependencies import CallDenied, CallPermitted, DenialCause
from holdfast.approvals.decision import Allow, Ask, Deny, Verdict
from holdfast.approvals.rules import Rules, parse_rules
from holdfast.schema.approvals import Approval, Subject
from holdfast.schema.hooks import HookDecision, HookRecord
from holdfast.schema.messages import ToolCall
from holdfast.schema.runs import Mode
from holdfast.tools.process.sandbox_limits import extra_directories
from holdfast.tools.protocol import ToolPlan
from holdfast.workspace.open_workspace import OpenWorkspace
from holdfast.workspace.workspace_setup import Setup

if TYPE_CHECKING:
    from holdfast.workspace.run_hooks import RunHooks


class WorkspaceCallApprover:
    """The `CallApprover` of one run. Rules and grants are read for each call, so a new grant counts at once."""

    def __init__(
        self,
        workspace: OpenWorkspace,
        setup: Setup,
        *,
        mode: Mode,
        root_session_id: str,
        hooks: RunHooks | None = None,
    ) -> None:
        self._workspace = workspace
        self._setup = setup
        self._mode = mode
        self._root_session_id = root_session_id
        self._hooks = hooks

    async def permit(
        self,
        handle: TurnHandle,
        call: ToolCall,
        plan: ToolPlan,
        *,
        on_wait: Callable[[], None],
        hook: HookDecision | None = None,
    ) -> CallPermitted | CallDenied:
        policy = self._setup.config.policy
        if refusal := policy.escalation_refusal(plan.subject.escalation):
            return CallDenied(f"Denied: {refusal}. Do not try to get around it; go another way.", "rule", refusal)
        interactive = handle.run.interactive
        decision = await self._decide(plan, mode=self._mode_with(hook), interactive=interactive)
        if hook == "ask" and isinstance(decision, Allow):
            why = "a hook wants it to be approved"
            decision = Ask(why) if interactive else Deny(f"{why}, and this run cannot ask for it", unasked=True)
        match decision:
            case Allow(read_only=read_only):
                await self._workspace.mask_files_of(plan.subject)
                return CallPermitted(read_only)
            case Deny(why):
                if decision.rule is not None and decision.rule in policy.deny_rules:
                    why = f"{why} of the managed policy {policy.source}"
                text = f"Denied: {why}. Do not try to get around it; go another way or say what you need."
                cause: DenialCause = "rule" if decision.rule else "unasked" if decision.unasked else "plan"
                return CallDenied(text, cause, self._workspace.shared.redact(why))
            case Ask():
                on_wait()
                return await self._ask_hooks_and_user(handle, call, plan, decision, may_allow=hook != "ask")
            case _:
                assert_never(decision)

    async def _decide(self, plan: ToolPlan, *, mode: Mode, interactive: bool) -> Verdict:
        return await self._workspace.approver.consider(
            plan.subject,
            mode=mode,
            rules=await self._rules(),
            trusted=self._setup.trusted,
            interactive=interactive,
            readable=(str(self._workspace.shared.locations.session_outputs(self._root_session_id)),),
            writable=tuple(map(str, extra_directories(self._setup.settings.server.sandbox_writable))),
            read_only=self._setup.settings.server.sandbox == "read-only",
            protected=self._workspace.hooks.programs,
        )

    def _mode_with(self, hook: HookDecision | None) -> Mode:
        """A hook's "allow" is the mode auto for one call. It changes nothing in plan mode, or against the policy."""
        may_be_auto = self._mode != "plan" and self._setup.config.policy.mode_refusal("auto") is None
        return "auto" if hook == "allow" and may_be_auto else self._mode

    async def _ask_hooks_and_user(
        self, handle: TurnHandle, call: ToolCall, plan: ToolPlan, decision: Ask, *, may_allow: bool
    ) -> CallPermitted | CallDenied:
        """Let hooks answer an approval, and then the user. ``may_allow``: whether hooks may answer for the user."""
        hooks = self._hooks
        if hooks is None:
            return await self._ask(handle, call, plan, decision)
        records: tuple[HookRecord, ...] = ()
        if hooks.listens("approval"):
            subject = plan.subject
            verdict = await hooks.run(
                "approval",
                tool=subject.tool,
                input=call.arguments,
                call_id=call.id,
                title=subject.title,
                why=decision.why,
            )
            records = verdict.records
            if verdict.decision == "deny":
                return CallDenied(
                    f"Denied by a hook of the user: {verdict.reason}.", "hook", verdict.reason, hooks=records
                )
            if verdict.decision == "allow" and may_allow:
                again = await self._decide(plan, mode=self._mode_with("allow"), interactive=True)
                if isinstance(again, Allow):
                    await self._workspace.mask_files_of(plan.subject)
                    return CallPermitted(again.read_only, hooks=records)
        async with hooks.notifying("approval", plan.subject.title, call_id=call.id):
            permission = await self._ask(handle, call, plan, decision)
        return replace(permission, hooks=records)

    async def permits_url(self, tool: str, url: str) -> bool:
        """Whether the rules and the mode allow this address without approval."""
        decision = await self._workspace.approver.consider(
            Subject(tool=tool, effect="network", title=url, url=url),
            mode=self._mode,
            rules=await self._rules(),
            trusted=self._setup.trusted,
            interactive=False,
        )
        return isinstance(decision, Allow)

    async def _ask(
        self, handle: TurnHandle, call: ToolCall, plan: ToolPlan, decision: Ask
    ) -> CallPermitted | CallDenied:
        shared = self._workspace.shared
        answered = await shared.approvals.request(
            Approval(
                id="",
                workspace_id=self._workspace.workspace.id,
                session_id=handle.run.session_id,
                root_session_id=self._root_session_id,
                run_id=handle.run.id,
                call_id=call.id,
                tool=plan.subject.tool,
                title=shared.redact(plan.subject.title),
                why=shared.redact(decision.why),
                patterns=_without_secrets(decision.patterns, shared.redact),
                display=plan.display,
            ),
            deadline=self._setup.settings.approvals.deadline_in(self._mode),
        )
        if answered.decision in ("once", "session", "always"):
            await self._workspace.mask_files_of(plan.subject)
            return CallPermitted(approval=answered)
        if answered.state == "expired":
            why = f"nobody answered in time whether {shared.redact(plan.subject.title)!r} may run"
            return CallDenied(
                "Denied: nobody answered in time. Go another way or say what you need.",
                cause="unasked",
                why=why,
                approval=answered,
            )
        feedback = f" The user said: {answered.feedback}" if answered.feedback else ""
        return CallDenied(f"Denied by the user.{feedback}", approval=answered)

    async def _rules(self) -> Rules:
        workspace = self._workspace
        configured = (await workspace.setup()).settings.approvals
        grants = await workspace.shared.store.grants(workspace.workspace.id, session_id=self._root_session_id)
        return parse_rules(deny=configured.deny, allow=configured.allow, grants=tuple(grant.rule for grant in grants))


def _without_secrets(patterns: tuple[str, ...], redact: Callable[[str], str]) -> tuple[str, ...]:
    """Offer no rules if one contains a secret, because a rule is saved. The call can then only be allowed once."""
    return patterns if all(redact(pattern) == pattern for pattern in patterns) else ()
