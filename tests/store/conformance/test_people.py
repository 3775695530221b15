"""People, their tokens, and the workspace that something belongs to."""

from msgspec.structs import replace

from holdfast.schema.approvals import Question
from holdfast.schema.devices import Device
from holdfast.schema.people import Person
from holdfast.schema.sessions import Job
from holdfast.store import Batch, CallOutput, OwnedKind, Store, TokenRecord
from holdfast.store import writes as w
from tests.store.batches import AT, a_run, accept, an_approval, end
from tests.store.conftest import Reopen


async def test_a_person_is_inserted_and_replaced_by_name(reopen: Reopen) -> None:
    store = await reopen()
    anna = Person("anna", "drive", ("/srv/api", '/srv/"quoted"'), AT)
    bob = Person("bob", "admin", None, AT)
    nobody = Person("nil", "watch", (), AT)
    await store.commit(Batch(tuple(w.PutPerson(one) for one in (bob, anna, nobody))))
    assert await store.people() == (anna, bob, nobody)
    removed = replace(anna, role="watch", removed_at=AT)
    await store.commit(Batch((w.PutPerson(removed),)))
    assert await (await reopen()).people() == (removed, bob, nobody)


async def test_a_token_keeps_its_person_and_a_revocation_is_final(store: Store) -> None:
    record = TokenRecord("digest", Device("dev_1", "laptop", "drive", AT, AT, person="anna"))
    await store.commit(Batch((w.PutToken(record),)))
    revoked = TokenRecord("digest", replace(record.device, revoked_at=AT))
    await store.commit(Batch((w.PutToken(revoked),)))
    await store.commit(Batch((w.PutToken(record),)))  # a use of the token that was noted late
    assert await store.tokens() == (revoked,)


async def test_everything_belongs_to_a_workspace_also_when_its_session_was_deleted(ledger: Store) -> None:
    run = a_run()
    await ledger.commit(accept(run))
    place = ("wsp_1", "ses_1", "ses_1", "run_1", "call_1")
    await ledger.commit(
        Batch(
            (
                w.OpenApproval(an_approval("apr_1")),
                w.OpenQuestion(Question("qst_1", *place, items=())),
                w.PutJob(Job("job_1", "wsp_1", "ses_1", "run_1", "sleep 9")),
                w.PutCallOutput(CallOutput("call_1", "ses_1", "/out", 1)),
            )
        )
    )
    known: dict[OwnedKind, str] = {
        "session": "ses_1",
        "run": "run_1",
        "approval": "apr_1",
        "question": "qst_1",
        "job": "job_1",
        "call": "call_1",
    }
    assert {await ledger.workspace_of(kind, one) for kind, one in known.items()} == {"wsp_1"}
    assert {await ledger.workspace_of(kind, "none_1") for kind in known} == {None}
    await ledger.commit(end(run))
    await ledger.commit(Batch((w.DeleteSession("ses_1", AT),)))
    assert [await ledger.workspace_of(kind, known[kind]) for kind in ("session", "run")] == ["wsp_1", "wsp_1"]
