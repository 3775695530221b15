"""The audit: entries ride with commits, and are kept while the store cannot be written."""

from holdfast.errors import StoreConflict
from holdfast.store import AuditFilter, Batch, Store
from holdfast.store import writes as w
from tests.store.batches import new_session, new_workspace
from tests.store.conftest import Reopen

EVERYTHING = AuditFilter()


def entry(
    number: int, *, at: str = "2026-01-02T00:00:00.000Z", person: str | None = None, target: str = ""
) -> w.AddAudit:
    return w.AddAudit(
        id=f"aud_{number}",
        at=at,
        person=person,
        device_id=f"dev_{person}" if person else None,
        client="cli/1 a",
        action="POST /v1/x",
        target=target or f"/v1/x/{number}",
    )


async def ids(
    store: Store, *, limit: int = 100, before: int | None = None, after: int | None = None, **wanted: object
) -> list[str]:
    found = await store.audit(limit=limit, before=before, after=after, wanted=AuditFilter(**wanted))  # type: ignore[arg-type]
    return [one.id for one in found]


async def test_an_entry_is_stored_with_the_next_commit_also_if_that_conflicts(reopen: Reopen) -> None:
    store = await reopen()
    store.append_audit(entry(1))
    await store.commit(new_workspace())
    assert await ids(store) == ["aud_1"]
    store.append_audit(w.EndAudit(id="aud_1", status=201, made="run_1"))
    store.append_audit(entry(2))
    refused = Batch((w.PutSession(new_session().writes[0].session), *new_session().writes))  # type: ignore[union-attr]
    try:
        await store.commit(refused)
    except StoreConflict:
        pass
    else:
        raise AssertionError("the session exists twice")
    await store.commit(Batch())
    first, second = reversed(await store.audit(limit=9, wanted=EVERYTHING))
    assert (first.status, first.made, second.status) == (201, "run_1", None)
    store = await reopen()
    assert await ids(store) == ["aud_2", "aud_1"]


async def test_an_entry_without_a_commit_is_stored_by_itself_and_at_the_end(reopen: Reopen) -> None:
    store = await reopen()
    store.append_audit(entry(1))
    while not await ids(store):
        pass
    store.append_audit(entry(2))
    store = await reopen()
    assert await ids(store) == ["aud_2", "aud_1"]


async def test_entries_are_filtered_paged_and_pruned(store: Store) -> None:
    old, new = "2026-01-01T00:00:00.000Z", "2026-01-03T00:00:00.000Z"
    for write in (
        entry(1, at=old, person="anna", target="/v1/sessions/ses_1/runs"),
        entry(2, at=old, target="/v1/sessions/ses%1/runs"),
        entry(3, at=new, person="anna", target="/v1/people"),
        entry(4, at=new),
        w.EndAudit(id="aud_1", status=202, made="run_9"),
        w.EndAudit(id="aud_3", status=403, code="scope_too_narrow"),
    ):
        store.append_audit(write)
    await store.commit(Batch())
    assert await ids(store, limit=2) == ["aud_4", "aud_3"]
    assert await ids(store, limit=2, before=3) == ["aud_2", "aud_1"]
    assert await ids(store, after=2) == ["aud_3", "aud_4"]
    assert await ids(store, person="anna") == ["aud_3", "aud_1"]
    assert await ids(store, device_id="dev_anna", since="2026-01-02") == ["aud_3"]
    assert await ids(store, target="ses_1") == ["aud_1"]
    assert await ids(store, target="ses%") == ["aud_2"]
    assert await ids(store, target="run_9") == ["aud_1"]
    assert await ids(store, failed=True) == ["aud_3"]
    (refused,) = await store.audit(limit=1, wanted=AuditFilter(failed=True))
    assert (refused.status, refused.code, refused.client) == (403, "scope_too_narrow", "cli/1 a")
    assert await store.prune_audit(before="2026-01-02T00:00:00.000Z") == 2
    assert await ids(store) == ["aud_4", "aud_3"]
    assert await store.prune_audit(before="2026-01-02T00:00:00.000Z") == 0
