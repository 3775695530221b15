"""Approvals and questions as durable records: the first answer wins, and every way of closing one is told (`W4`)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.agent.protocol import Ending
from holdfast.approvals.pending import Approvals
from holdfast.errors import BadRequest, ConfigError, Conflict, NotFound
from holdfast.ids import Ids
from holdfast.schema.approvals import Approval, ApprovalDecision, QuestionItem
from holdfast.schema.events import ApprovalRequested, ApprovalResolved, QuestionAsked, QuestionResolved
from holdfast.store import Store, open_store
from tests.approvals.asking import Office, Rulebook, approval
from tests.store.building import new_session, new_workspace
from tests.support.house import WORKSPACE, crashed, opened
from tests.support.scripted import Actor, ScriptedTurns


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    store = await open_store(tmp_path / "holdfast.db")
    for batch in (new_workspace(), new_session("ses_1"), new_session("ses_2")):
        await store.commit(batch)
    yield Office(store)
    await store.close()


@pytest.mark.promise("W4", "R14")
async def test_a_request_is_a_record_and_an_event_before_anyone_can_answer_it(office: Office) -> None:
    office.doors.hold("commit")
    waiting = office.request("make")
    await office.doors.arrived("commit")
    assert (await office.store.open_approvals(workspace_id="wsp_1")).items == ()
    office.doors.open("commit")
    (opened,) = await office.opened()
    assert (opened.title, opened.state, opened.patterns) == ("make", "open", ("bash: make", "write: ./log"))
    assert await office.events(ApprovalRequested) == [ApprovalRequested(opened.created_at, "ses_1", opened)]
    answered = await office.approvals.answer(opened.id, "once", client="tui/1 a")
    assert await waiting == answered
    assert await office.events(ApprovalResolved) == [ApprovalResolved(answered.resolved_at or "", "ses_1", answered)]
    assert (answered.decision, answered.answered_by, answered.state) == ("once", "tui/1 a", "answered")


@pytest.mark.promise("W4")
async def test_a_late_joiner_finds_what_is_open_and_can_answer_it(office: Office) -> None:
    waiting = office.request("make")
    (listed,) = await office.opened()
    assert (
        await office.approvals.answer(listed.id, "deny", client="web", feedback="use ninja")
    ).feedback == "use ninja"
    assert (await waiting).decision == "deny"
    assert (await office.store.open_approvals(workspace_id="wsp_1")).items == ()


@pytest.mark.promise("W4")
@pytest.mark.parametrize(("first", "second"), [("deny", "always"), ("always", "deny"), ("session", "once")])
async def test_of_two_clients_that_answer_at_once_one_wins_and_the_other_is_told_who(
    office: Office, first: ApprovalDecision, second: ApprovalDecision
) -> None:
    waiting = office.request("make")
    (opened,) = await office.opened()
    office.doors.hold("approval")
    answers = [
        asyncio.create_task(office.approvals.answer(opened.id, decision, client=decision))
        for decision in (first, second)
    ]
    await office.doors.arrived("approval", count=2)
    office.doors.open("approval")
    results = await asyncio.gather(*answers, return_exceptions=True)
    (won,) = [result for result in results if isinstance(result, Approval)]
    (lost,) = [result for result in results if isinstance(result, Conflict)]
    assert lost.error_code == "approval_closed"
    assert lost.detail["approval"]["answered_by"] == won.answered_by
    assert await waiting == won
    assert len(await office.events(ApprovalResolved)) == 1
    assert office.rulebook.saved == ([won.pattern] if won.decision == "always" else [])
    grants = await office.store.grants("wsp_1", session_id="ses_1")
    assert [grant.rule for grant in grants] == (list(won.pattern) if won.decision == "session" else [])


@pytest.mark.promise("W4")
async def test_answers_that_reach_the_ledger_at_once_are_decided_by_the_ledger(office: Office) -> None:
    """Two servers on one ledger share no lock."""
    waiting = office.request("make")
    (opened,) = await office.opened()
    other = office.second()
    office.doors.hold("commit")
    answers = [
        asyncio.create_task(server.answer(opened.id, "once", client=name))
        for server, name in ((office.approvals, "a"), (other, "b"))
    ]
    await office.doors.arrived("commit", count=2)
    office.doors.open("commit")
    results = await asyncio.gather(*answers, return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["Approval", "Conflict"]
    assert (await waiting).answered_by == (await office.store.approval(opened.id)).answered_by
    assert len(await office.events(ApprovalResolved)) == 1


@pytest.mark.promise("W4")
async def test_the_winner_repeating_its_answer_gets_it_again_and_nothing_happens(office: Office) -> None:
    waiting = office.request("make")
    (opened,) = await office.opened()
    first = await office.approvals.answer(opened.id, "always", client="a")
    await waiting
    office.time.now += 60
    assert await office.approvals.answer(opened.id, "always", client="a") == first
    assert len(await office.events(ApprovalResolved)) == 1
    assert office.rulebook.saved == [opened.patterns]
    for client, decision in (("b", "always"), ("a", "once"), ("a", "deny")):
        with pytest.raises(Conflict, match="is answered already by 'a'"):
            await office.approvals.answer(opened.id, decision, client=client)  # type: ignore[arg-type]
    with pytest.raises(Conflict):
        await office.approvals.answer(opened.id, "always", client="a", patterns=("bash: make",))


@pytest.mark.promise("W4")
async def test_an_unknown_approval_is_not_found(office: Office) -> None:
    with pytest.raises(NotFound) as refused:
        await office.approvals.answer("apr_x", "once", client="a")
    assert refused.value.error_code == "approval_not_found"


async def test_what_always_saves_is_exactly_what_was_shown(office: Office) -> None:
    waiting = office.request("make")
    (shown,) = await office.opened()
    with pytest.raises(BadRequest, match=r"'bash: \*' was not offered; offered: 'bash: make', 'write: ./log'"):
        await office.approvals.answer(shown.id, "always", client="a", patterns=("bash: *",))
    with pytest.raises(BadRequest, match="saves at least one pattern"):
        await office.approvals.answer(shown.id, "always", client="a", patterns=())
    assert (office.rulebook.saved, waiting.done()) == ([], False)
    answered = await office.approvals.answer(shown.id, "always", client="a")
    assert office.rulebook.saved == [shown.patterns]
    assert (await waiting).pattern == answered.pattern == shown.patterns


async def test_some_of_what_was_shown_can_be_chosen(office: Office) -> None:
    waiting = office.request("make")
    (shown,) = await office.opened()
    await office.approvals.answer(shown.id, "session", client="a", patterns=("bash: make",))
    assert (await waiting).pattern == ("bash: make",)
    (grant,) = await office.store.grants("wsp_1", session_id="ses_1")
    assert (grant.rule, grant.session_id, grant.created_by) == ("bash: make", "ses_1", "a")
    assert await office.store.grants("wsp_1", session_id="ses_2") == ()


async def test_what_offers_no_pattern_can_only_be_allowed_once(office: Office) -> None:
    waiting = office.request("eval x", patterns=())
    (shown,) = await office.opened()
    for decision in ("session", "always"):
        with pytest.raises(BadRequest, match="'eval x' can only be allowed once; answer 'once' or 'deny'"):
            await office.approvals.answer(shown.id, decision, client="a")  # type: ignore[arg-type]
    await office.approvals.answer(shown.id, "once", client="a")
    assert (await waiting).decision == "once"


async def test_if_the_rules_cannot_be_saved_nothing_was_answered(office: Office) -> None:
    waiting = office.request("make")
    (shown,) = await office.opened()
    office.rulebook.problem = ConfigError("the file is read-only")
    with pytest.raises(ConfigError):
        await office.approvals.answer(shown.id, "always", client="a")
    assert (await office.store.approval(shown.id)).state == "open"
    assert not waiting.done()
    office.rulebook.problem = None
    await office.approvals.answer(shown.id, "once", client="b")
    assert (await waiting).answered_by == "b"


@pytest.mark.promise("W4")
async def test_sessions_do_not_wait_for_each_others_approvals(office: Office) -> None:
    first, second = office.request("one"), office.request("two", session_id="ses_2", run_id="run_2")
    opened = {found.title: found for found in await office.opened(count=2)}
    await office.approvals.answer(opened["two"].id, "once", client="a")
    assert (await second).title == "two"
    assert not first.done()
    await office.approvals.answer(opened["one"].id, "deny", client="a")
    assert (await first).decision == "deny"


@pytest.mark.promise("W4")
async def test_a_deadline_that_passes_is_a_deny_and_an_event(office: Office) -> None:
    waiting = office.request("make", deadline=8)
    (opened,) = await office.opened()
    assert opened.deadline_at == "2027-01-15T08:00:08.000Z"
    await office.time.pass_by(5)
    assert not waiting.done()
    await office.time.pass_by(3)
    expired = await waiting
    assert (expired.state, expired.decision, expired.answered_by) == ("expired", "deny", None)
    assert await office.events(ApprovalResolved) == [ApprovalResolved(expired.resolved_at or "", "ses_1", expired)]
    with pytest.raises(Conflict, match="is expired already"):
        await office.approvals.answer(opened.id, "once", client="a")


@pytest.mark.promise("W4")
async def test_an_answer_before_the_deadline_ends_the_wait_and_the_timer(office: Office) -> None:
    waiting = office.request("make", deadline=8)
    (opened,) = await office.opened()
    await office.time.started()
    await office.approvals.answer(opened.id, "once", client="a")
    assert (await waiting).decision == "once"
    assert all(timer.done() for _, timer in office.time.timers)


@pytest.mark.promise("W4")
async def test_the_deadline_is_the_wall_clocks_also_for_a_machine_that_slept(office: Office) -> None:
    """No timer has ended, yet the time is over: the answer comes too late."""
    waiting = office.request("make", deadline=3600)
    (opened,) = await office.opened()
    await office.time.started()
    office.time.now += 4000
    with pytest.raises(Conflict, match="is expired already"):
        await office.approvals.answer(opened.id, "always", client="a")
    assert (await waiting).state == "expired"
    assert office.rulebook.saved == []
    assert max(seconds for seconds, _ in office.time.timers) <= 5


@pytest.mark.promise("W4")
async def test_an_answer_and_a_deadline_at_once_give_one_end(office: Office) -> None:
    waiting = office.request("make", deadline=1)
    (opened,) = await office.opened()
    office.doors.hold("commit")
    answer = asyncio.create_task(office.approvals.answer(opened.id, "once", client="a"))
    await office.doors.arrived("commit")
    await office.time.pass_by(1)
    office.doors.open("commit")
    assert await waiting == await answer
    assert (await waiting).decision == "once"
    assert len(await office.events(ApprovalResolved)) == 1


@pytest.mark.promise("W4")
async def test_a_client_that_hangs_up_in_the_middle_of_its_answer_has_answered(office: Office) -> None:
    waiting = office.request("make")
    (opened,) = await office.opened()
    office.doors.hold("commit")
    answer = asyncio.create_task(office.approvals.answer(opened.id, "once", client="a"))
    await office.doors.arrived("commit")
    answer.cancel()
    await asyncio.sleep(0)
    office.doors.open("commit")
    with pytest.raises(asyncio.CancelledError):
        await answer
    assert (await waiting).answered_by == "a"


@pytest.mark.promise("C8", "R8")
async def test_a_cancel_while_the_record_is_written_leaves_nothing_that_appears_later(office: Office) -> None:
    """When the wait has ended, the record is in the ledger, where the run's end finds and closes it."""
    office.doors.hold("commit")
    waiting = office.request("make")
    await office.doors.arrived("commit")
    waiting.cancel()
    await asyncio.sleep(0)
    assert not waiting.done()
    office.doors.open("commit")
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert [found.title for found in (await office.store.open_approvals(run_id="run_1")).items] == ["make"]


@pytest.mark.promise("W4")
async def test_a_question_is_answered_once_by_the_first(office: Office) -> None:
    items = (QuestionItem("which?", "single", ("a", "b")), QuestionItem("why?"))
    waiting = office.ask(*items)
    opened = await office.opened_question()
    assert await office.events(QuestionAsked) == [QuestionAsked(opened.created_at, "ses_1", opened)]
    answered = await office.approvals.answer_question(opened.id, (("a",), ("because",)), client="x")
    assert (await waiting) == answered
    assert await office.approvals.answer_question(opened.id, (("a",), ("because",)), client="x") == answered
    for client, answers in (("y", (("a",), ("because",))), ("x", (("b",), ("because",))), ("x", None)):
        with pytest.raises(Conflict, match="is answered already by 'x'") as refused:
            await office.approvals.answer_question(opened.id, answers, client=client)
        assert refused.value.error_code == "question_closed"
    assert len(await office.events(QuestionResolved)) == 1


async def test_a_question_can_be_dismissed_and_can_expire(office: Office) -> None:
    waiting = office.ask()
    opened = await office.opened_question()
    await office.approvals.answer_question(opened.id, None, client="x")
    assert ((await waiting).dismissed, (await waiting).answers) == (True, None)
    late = office.ask(deadline=2)
    await office.opened_question()
    await office.time.pass_by(2)
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
async def test_an_answer_must_fit_its_question(
    office: Office, item: QuestionItem, wrong: tuple[str, ...], right: tuple[str, ...]
) -> None:
    waiting = office.ask(item)
    opened = await office.opened_question()
    with pytest.raises(BadRequest, match="is no answer to"):
        await office.approvals.answer_question(opened.id, (wrong,), client="x")
    with pytest.raises(BadRequest, match="there are 1 questions, but 2 answers"):
        await office.approvals.answer_question(opened.id, (right, right), client="x")
    await office.approvals.answer_question(opened.id, (right,), client="x")
    assert (await waiting).answers == (right,)


def _asking(turns: ScriptedTurns, asked: list[asyncio.Task[Approval]], desks: list[Approvals]) -> None:
    """A turn that waits for a person."""

    @turns.on("ask")
    async def ask(actor: Actor) -> Ending | None:
        request = desks[0].request(approval("make", run_id=actor.run.id, workspace_id=WORKSPACE))
        asked.append(asyncio.create_task(request))
        actor.gates._arrived["asking"].set()
        await asked[0]
        return None


def _desk(store: object) -> Approvals:
    return Approvals(store, ids=Ids(), clock=lambda: 0.0, save_rules=Rulebook().save)  # type: ignore[arg-type]


async def _open(store: Store) -> Approval:
    for _ in range(10_000):
        if found := (await store.open_approvals()).items:
            return found[0]
    raise AssertionError("the approval that was waited for did not come")


@pytest.mark.promise("C8", "W4", "R8")
async def test_a_cancelled_run_closes_its_approval_with_an_event(tmp_path: Path) -> None:
    turns, asked = ScriptedTurns(), list[asyncio.Task[Approval]]()
    desks: list[Approvals] = []
    _asking(turns, asked, desks)
    async with opened(tmp_path / "holdfast.db", turns=turns) as house:
        await house.session()
        desks.append(_desk(house.store))
        run = await house.accept("ask")
        await house.gates.arrived("asking")
        found = await _open(house.store)
        await house.engine.cancel_session("ses_1")
        assert (await house.ended(run)).state == "cancelled"
        (closed,) = [event for event in await house.events() if isinstance(event, ApprovalResolved)]
        assert (closed.approval.id, closed.approval.state, closed.approval.answered_by) == (
            found.id,
            "cancelled",
            None,
        )
        with pytest.raises(Conflict, match="is cancelled already"):
            await desks[0].answer(found.id, "once", client="a")


@pytest.mark.promise("W4", "W6", "C8")
async def test_a_restart_in_mid_wait_closes_the_approval_and_says_so_to_whoever_answers(tmp_path: Path) -> None:
    turns, asked = ScriptedTurns(), list[asyncio.Task[Approval]]()
    desks: list[Approvals] = []
    _asking(turns, asked, desks)
    async with crashed(tmp_path / "left.db", turns) as house:
        desks.append(_desk(house.store))
        run = await house.accept("ask")
        await house.gates.arrived("asking")
        found = await _open(house.store)
    async with opened(tmp_path / "left.db") as house:
        ended = await house.ended(run.run.id)
        assert (ended.state, ended.reason) == ("interrupted", "server_crash")
        assert (await house.store.open_approvals()).items == ()
        (closed,) = [event for event in await house.events() if isinstance(event, ApprovalResolved)]
        assert (closed.approval.id, closed.approval.state) == (found.id, "cancelled")
        with pytest.raises(Conflict, match="is cancelled already"):
            await _desk(house.store).answer(found.id, "once", client="a")
