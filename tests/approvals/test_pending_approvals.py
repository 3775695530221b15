"""Approvals and questions are durable records: the first answer wins, and closing one writes an event (`W4`)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.agent.protocol import Ending
from holdfast.approvals.pending_approvals import PendingApprovals
from holdfast.errors import BadRequest, ConfigError, Conflict, NotFound
from holdfast.ids import Ids
from holdfast.schema.approvals import Approval, ApprovalDecision, QuestionItem
from holdfast.schema.events import ApprovalRequested, ApprovalResolved, QuestionAsked, QuestionResolved
from holdfast.store import Store, open_store
from tests.approvals.approval_server import ApprovalServer, SavedRules, approval
from tests.store.batches import new_session, new_workspace
from tests.support.engine_harness import WORKSPACE, crashed_harness, open_harness
from tests.support.scripted_turns import ScriptedTurns, TurnActions


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApprovalServer]:
    store = await open_store(tmp_path / "holdfast.db")
    for batch in (new_workspace(), new_session("ses_1"), new_session("ses_2")):
        await store.commit(batch)
    yield ApprovalServer(store)
    await store.close()


@pytest.mark.promise("W4", "R14")
async def test_a_request_is_committed_with_its_event_before_it_can_be_answered(server: ApprovalServer) -> None:
    server.held_store.hold("commit")
    waiting = server.request("make")
    await server.held_store.arrived("commit")
    assert (await server.store.open_approvals(workspace_id="wsp_1")).items == ()
    server.held_store.release("commit")
    (opened,) = await server.opened()
    assert (opened.title, opened.state, opened.patterns) == ("make", "open", ("bash: make", "write: ./log"))
    assert await server.events(ApprovalRequested) == [ApprovalRequested(opened.created_at, "ses_1", opened)]
    answered = await server.approvals.answer(opened.id, "once", client="tui/1 a")
    assert await waiting == answered
    assert await server.events(ApprovalResolved) == [ApprovalResolved(answered.resolved_at or "", "ses_1", answered)]
    assert (answered.decision, answered.answered_by, answered.state) == ("once", "tui/1 a", "answered")


@pytest.mark.promise("W4")
async def test_a_client_that_connects_later_can_list_and_answer_an_open_approval(server: ApprovalServer) -> None:
    waiting = server.request("make")
    (listed,) = await server.opened()
    assert (
        await server.approvals.answer(listed.id, "deny", client="web", feedback="use ninja")
    ).feedback == "use ninja"
    assert (await waiting).decision == "deny"
    assert (await server.store.open_approvals(workspace_id="wsp_1")).items == ()


@pytest.mark.promise("W4")
@pytest.mark.parametrize(("first", "second"), [("deny", "always"), ("always", "deny"), ("session", "once")])
async def test_of_two_simultaneous_answers_one_wins_and_the_other_gets_the_winner(
    server: ApprovalServer, first: ApprovalDecision, second: ApprovalDecision
) -> None:
    waiting = server.request("make")
    (opened,) = await server.opened()
    server.held_store.hold("approval")
    answers = [
        asyncio.create_task(server.approvals.answer(opened.id, decision, client=decision, scope="all"))
        for decision in (first, second)
    ]
    await server.held_store.arrived("approval", count=2)
    server.held_store.release("approval")
    results = await asyncio.gather(*answers, return_exceptions=True)
    (won,) = [result for result in results if isinstance(result, Approval)]
    (lost,) = [result for result in results if isinstance(result, Conflict)]
    assert lost.error_code == "approval_closed"
    assert lost.detail["approval"]["answered_by"] == won.answered_by
    assert await waiting == won
    assert len(await server.events(ApprovalResolved)) == 1
    assert server.rules.saved == ([won.pattern] if won.decision == "always" else [])
    grants = await server.store.grants("wsp_1", session_id="ses_1")
    assert [grant.rule for grant in grants] == (list(won.pattern) if won.decision == "session" else [])


@pytest.mark.promise("W4")
async def test_the_store_decides_between_simultaneous_answers_of_two_servers(server: ApprovalServer) -> None:
    """Two servers share the store but no lock."""
    waiting = server.request("make")
    (opened,) = await server.opened()
    other = server.another()
    server.held_store.hold("commit")
    answers = [
        asyncio.create_task(server.answer(opened.id, "once", client=name))
        for server, name in ((server.approvals, "a"), (other, "b"))
    ]
    await server.held_store.arrived("commit", count=2)
    server.held_store.release("commit")
    results = await asyncio.gather(*answers, return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["Approval", "Conflict"]
    assert (await waiting).answered_by == (await server.store.approval(opened.id)).answered_by
    assert len(await server.events(ApprovalResolved)) == 1


@pytest.mark.promise("W4")
async def test_the_winner_can_repeat_its_answer_and_nothing_changes(
    server: ApprovalServer,
) -> None:
    waiting = server.request("make")
    (opened,) = await server.opened()
    first = await server.approvals.answer(opened.id, "always", client="a", scope="all")
    await waiting
    server.clock.now += 60
    assert await server.approvals.answer(opened.id, "always", client="a", scope="all") == first
    assert len(await server.events(ApprovalResolved)) == 1
    assert server.rules.saved == [opened.patterns]
    for client, decision in (("b", "always"), ("a", "once"), ("a", "deny")):
        with pytest.raises(Conflict, match="is already answered by 'a'"):
            await server.approvals.answer(opened.id, decision, client=client)  # type: ignore[arg-type]
    with pytest.raises(Conflict):
        await server.approvals.answer(opened.id, "always", client="a", patterns=("bash: make",))


@pytest.mark.promise("W4")
async def test_an_unknown_approval_is_not_found(server: ApprovalServer) -> None:
    with pytest.raises(NotFound) as refused:
        await server.approvals.answer("apr_x", "once", client="a")
    assert refused.value.error_code == "approval_not_found"


@pytest.mark.parametrize(
    ("edited", "problem"),
    [
        ("bash: make *", ""),
        ("write: ./log*", ""),
        ("bash: rm *", "it is for another program"),
        ("fetch: https://example.org/*", "it is for another tool"),
        ("bash: make; rm", "approval rule"),
        ("write: **", "it allows everything"),
    ],
)
async def test_an_edited_rule_is_saved_if_it_is_for_the_same_tool_and_program(
    server: ApprovalServer, edited: str, problem: str
) -> None:
    waiting = server.request("make")
    (shown,) = await server.opened()
    if problem:
        with pytest.raises(BadRequest, match=f"was not offered, and {problem}"):
            await server.approvals.answer(shown.id, "always", client="a", patterns=(edited,))
        await server.approvals.answer(shown.id, "once", client="a")
    else:
        await server.approvals.answer(shown.id, "always", client="a", patterns=(edited,), scope="all")
        assert server.rules.saved == [(edited,)]
    await waiting


async def test_always_saves_exactly_the_offered_rules(server: ApprovalServer) -> None:
    waiting = server.request("make")
    (shown,) = await server.opened()
    with pytest.raises(
        BadRequest, match=r"'bash: \*' was not offered, and it allows everything; offered: 'bash: make', "
    ):
        await server.approvals.answer(shown.id, "always", client="a", patterns=("bash: *",))
    with pytest.raises(BadRequest, match="needs at least one pattern to save"):
        await server.approvals.answer(shown.id, "always", client="a", patterns=())
    assert (server.rules.saved, waiting.done()) == ([], False)
    answered = await server.approvals.answer(shown.id, "always", client="a", scope="all")
    assert server.rules.saved == [shown.patterns]
    assert (await waiting).pattern == answered.pattern == shown.patterns
    assert await server.store.grants("wsp_1", session_id="ses_1") == ()


async def test_always_is_saved_for_this_project_by_default(server: ApprovalServer) -> None:
    waiting = server.request("make")
    (shown,) = await server.opened()
    answered = await server.approvals.answer(shown.id, "always", client="a")
    assert (await waiting, answered.scope, server.rules.saved) == (answered, "project", [])
    for session_id in ("ses_1", "ses_2", None):
        grants = await server.store.grants("wsp_1", session_id=session_id)
        assert [(grant.rule, grant.session_id) for grant in grants] == [(rule, None) for rule in shown.patterns]
    assert await server.store.grants("wsp_2", session_id=None) == ()


async def test_an_answer_can_choose_some_of_the_offered_rules(server: ApprovalServer) -> None:
    waiting = server.request("make")
    (shown,) = await server.opened()
    await server.approvals.answer(shown.id, "session", client="a", patterns=("bash: make",))
    assert (await waiting).pattern == ("bash: make",)
    (grant,) = await server.store.grants("wsp_1", session_id="ses_1")
    assert (grant.rule, grant.session_id, grant.created_by) == ("bash: make", "ses_1", "a")
    assert await server.store.grants("wsp_1", session_id="ses_2") == ()


async def test_an_approval_without_offered_rules_can_only_be_allowed_once(server: ApprovalServer) -> None:
    waiting = server.request("eval x", patterns=())
    (shown,) = await server.opened()
    for decision in ("session", "always"):
        with pytest.raises(BadRequest, match="'eval x' can only be allowed once; answer 'once' or 'deny'"):
            await server.approvals.answer(shown.id, decision, client="a")  # type: ignore[arg-type]
    await server.approvals.answer(shown.id, "once", client="a")
    assert (await waiting).decision == "once"


async def test_an_approval_stays_open_if_its_rules_cannot_be_saved(server: ApprovalServer) -> None:
    waiting = server.request("make")
    (shown,) = await server.opened()
    server.rules.problem = ConfigError("the file is read-only")
    with pytest.raises(ConfigError):
        await server.approvals.answer(shown.id, "always", client="a", scope="all")
    assert (await server.store.approval(shown.id)).state == "open"
    assert not waiting.done()
    server.rules.problem = None
    await server.approvals.answer(shown.id, "once", client="b")
    assert (await waiting).answered_by == "b"


@pytest.mark.promise("W4")
async def test_sessions_do_not_wait_for_each_others_approvals(server: ApprovalServer) -> None:
    first, second = server.request("one"), server.request("two", session_id="ses_2", run_id="run_2")
    opened = {found.title: found for found in await server.opened(count=2)}
    await server.approvals.answer(opened["two"].id, "once", client="a")
    assert (await second).title == "two"
    assert not first.done()
    await server.approvals.answer(opened["one"].id, "deny", client="a")
    assert (await first).decision == "deny"


@pytest.mark.promise("W4")
async def test_an_expired_deadline_denies_and_writes_an_event(server: ApprovalServer) -> None:
    waiting = server.request("make", deadline=8)
    (opened,) = await server.opened()
    assert opened.deadline_at == "2027-01-15T08:00:08.000Z"
    await server.clock.advance(5)
    assert not waiting.done()
    await server.clock.advance(3)
    expired = await waiting
    assert (expired.state, expired.decision, expired.answered_by) == ("expired", "deny", None)
    assert await server.events(ApprovalResolved) == [ApprovalResolved(expired.resolved_at or "", "ses_1", expired)]
    with pytest.raises(Conflict, match="is already expired"):
        await server.approvals.answer(opened.id, "once", client="a")


@pytest.mark.promise("W4")
async def test_an_answer_before_the_deadline_ends_the_wait_and_the_timer(server: ApprovalServer) -> None:
    waiting = server.request("make", deadline=8)
    (opened,) = await server.opened()
    await server.clock.timer_started()
    await server.approvals.answer(opened.id, "once", client="a")
    assert (await waiting).decision == "once"
    assert all(timer.done() for _, timer in server.clock.timers)


@pytest.mark.promise("W4")
async def test_a_deadline_follows_the_wall_clock_while_the_machine_sleeps(server: ApprovalServer) -> None:
    """The deadline has passed although no timer has ended, so the answer is too late."""
    waiting = server.request("make", deadline=3600)
    (opened,) = await server.opened()
    await server.clock.timer_started()
    server.clock.now += 4000
    with pytest.raises(Conflict, match="is already expired"):
        await server.approvals.answer(opened.id, "always", client="a")
    assert (await waiting).state == "expired"
    assert server.rules.saved == []
    assert max(seconds for seconds, _ in server.clock.timers) <= 5


@pytest.mark.promise("W4")
async def test_a_simultaneous_answer_and_deadline_close_the_approval_once(server: ApprovalServer) -> None:
    waiting = server.request("make", deadline=1)
    (opened,) = await server.opened()
    server.held_store.hold("commit")
    answer = asyncio.create_task(server.approvals.answer(opened.id, "once", client="a"))
    await server.held_store.arrived("commit")
    await server.clock.advance(1)
    server.held_store.release("commit")
    assert await waiting == await answer
    assert (await waiting).decision == "once"
    assert len(await server.events(ApprovalResolved)) == 1


@pytest.mark.promise("W4")
async def test_an_answer_counts_if_its_client_disconnects_before_the_commit(server: ApprovalServer) -> None:
    waiting = server.request("make")
    (opened,) = await server.opened()
    server.held_store.hold("commit")
    answer = asyncio.create_task(server.approvals.answer(opened.id, "once", client="a"))
    await server.held_store.arrived("commit")
    answer.cancel()
    await asyncio.sleep(0)
    server.held_store.release("commit")
    with pytest.raises(asyncio.CancelledError):
        await answer
    assert (await waiting).answered_by == "a"


@pytest.mark.promise("C8", "R8")
async def test_a_cancel_during_the_commit_of_a_request_waits_for_the_commit(server: ApprovalServer) -> None:
    """When the wait has ended, the record is in the store, so the end of the run can close it."""
    server.held_store.hold("commit")
    waiting = server.request("make")
    await server.held_store.arrived("commit")
    waiting.cancel()
    await asyncio.sleep(0)
    assert not waiting.done()
    server.held_store.release("commit")
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert [found.title for found in (await server.store.open_approvals(run_id="run_1")).items] == ["make"]


@pytest.mark.promise("W4")
async def test_the_first_answer_to_a_question_wins(server: ApprovalServer) -> None:
    items = (QuestionItem("which?", "single", ("a", "b")), QuestionItem("why?"))
    waiting = server.ask(*items)
    opened = await server.opened_question()
    assert await server.events(QuestionAsked) == [QuestionAsked(opened.created_at, "ses_1", opened)]
    answered = await server.approvals.answer_question(opened.id, (("a",), ("because",)), client="x")
    assert (await waiting) == answered
    assert await server.approvals.answer_question(opened.id, (("a",), ("because",)), client="x") == answered
    for client, answers in (("y", (("a",), ("because",))), ("x", (("b",), ("because",))), ("x", None)):
        with pytest.raises(Conflict, match="is already answered by 'x'") as refused:
            await server.approvals.answer_question(opened.id, answers, client=client)
        assert refused.value.error_code == "question_closed"
    assert len(await server.events(QuestionResolved)) == 1


async def test_a_question_can_be_dismissed_and_can_expire(server: ApprovalServer) -> None:
    waiting = server.ask()
    opened = await server.opened_question()
    await server.approvals.answer_question(opened.id, None, client="x")
    assert ((await waiting).dismissed, (await waiting).answers) == (True, None)
    late = server.ask(deadline=2)
    await server.opened_question()
    await server.clock.advance(2)
    assert ((await late).state, (await late).answers) == ("expired", None)


@pytest.mark.parametrize(
    ("item", "wrong", "right"),
    [
        (QuestionItem("ok?", "yes_no"), ("maybe",), ("yes",)),
        (QuestionItem("ok?", "yes_no"), (), ("no",)),
        (QuestionItem("one", "single", ("a", "b")), ("a", "b"), ("b",)),
        (QuestionItem("some", "multiple", ("a", "b")), ("a", "c"), ("a", "b")),
        (QuestionItem("some", "multiple", ("a", "b")), ("c",), ()),
        (QuestionItem("say", "text"), ("a", "b"), ("anything",)),
    ],
)
async def test_an_answer_must_be_valid_for_its_question(
    server: ApprovalServer, item: QuestionItem, wrong: tuple[str, ...], right: tuple[str, ...]
) -> None:
    waiting = server.ask(item)
    opened = await server.opened_question()
    with pytest.raises(BadRequest, match="is not a valid answer to"):
        await server.approvals.answer_question(opened.id, (wrong,), client="x")
    with pytest.raises(BadRequest, match="expected 1 answers, one per question, got 2"):
        await server.approvals.answer_question(opened.id, (right, right), client="x")
    await server.approvals.answer_question(opened.id, (right,), client="x")
    assert (await waiting).answers == (right,)


def _ask_in_turn(turns: ScriptedTurns, asked: list[asyncio.Task[Approval]], pending: list[PendingApprovals]) -> None:
    """Script a turn that waits for an approval."""

    @turns.on("ask")
    async def ask(actor: TurnActions) -> Ending | None:
        request = pending[0].request(approval("make", run_id=actor.run.id, workspace_id=WORKSPACE))
        asked.append(asyncio.create_task(request))
        actor.gates._arrived["asking"].set()
        await asked[0]
        return None


def _pending(store: object) -> PendingApprovals:
    return PendingApprovals(store, ids=Ids(), clock=lambda: 0.0, save_rules=SavedRules().save)  # type: ignore[arg-type]


async def _open(store: Store) -> Approval:
    while not (found := (await store.open_approvals()).items):
        pass
    return found[0]


@pytest.mark.promise("C8", "W4", "R8")
async def test_a_cancelled_run_closes_its_approval_with_an_event(tmp_path: Path) -> None:
    turns, asked = ScriptedTurns(), list[asyncio.Task[Approval]]()
    pending: list[PendingApprovals] = []
    _ask_in_turn(turns, asked, pending)
    async with open_harness(tmp_path / "holdfast.db", turns=turns) as harness:
        await harness.session()
        pending.append(_pending(harness.store))
        run = await harness.accept("ask")
        await harness.gates.arrived("asking")
        found = await _open(harness.store)
        await harness.engine.cancel_session("ses_1")
        assert (await harness.ended(run)).state == "cancelled"
        (closed,) = [event for event in await harness.events() if isinstance(event, ApprovalResolved)]
        assert (closed.approval.id, closed.approval.state, closed.approval.answered_by) == (
            found.id,
            "cancelled",
            None,
        )
        with pytest.raises(Conflict, match="is already cancelled"):
            await pending[0].answer(found.id, "once", client="a")


@pytest.mark.promise("W4", "W6", "C8")
async def test_a_restart_closes_an_open_approval_and_refuses_later_answers(tmp_path: Path) -> None:
    turns, asked = ScriptedTurns(), list[asyncio.Task[Approval]]()
    pending: list[PendingApprovals] = []
    _ask_in_turn(turns, asked, pending)
    async with crashed_harness(tmp_path / "left.db", turns) as harness:
        pending.append(_pending(harness.store))
        run = await harness.accept("ask")
        await harness.gates.arrived("asking")
        found = await _open(harness.store)
    async with open_harness(tmp_path / "left.db") as harness:
        ended = await harness.ended(run.run.id)
        assert (ended.state, ended.reason) == ("interrupted", "server_crash")
        assert (await harness.store.open_approvals()).items == ()
        (closed,) = [event for event in await harness.events() if isinstance(event, ApprovalResolved)]
        assert (closed.approval.id, closed.approval.state) == (found.id, "cancelled")
        with pytest.raises(Conflict, match="is already cancelled"):
            await _pending(harness.store).answer(found.id, "once", client="a")
