"""Space of removed rows goes back to the disk, while readers and commits continue."""

import asyncio
from pathlib import Path

from holdfast.store import open_store
from tests.store.batches import new_session, new_workspace, says


async def test_removed_text_frees_space_and_the_rest_is_unharmed(tmp_path: Path) -> None:
    store = await open_store(tmp_path / "holdfast.db")
    await store.commit(new_workspace())
    await store.commit(new_session())
    for number in range(60):
        await store.commit(says(f"msg_{number}", f"{number} " + "lorem ipsum " * 2000))
    last = store.last_number
    removed = await store.prune_events(before="9999")
    assert removed == last
    before = await store.size()
    reads = [store.messages("ses_1", limit=10) for _ in range(20)]
    commits = [store.commit(new_session(f"ses_{number}")) for number in range(2, 12)]
    _, *results = await asyncio.gather(store.give_back_space(), *reads, *commits)
    assert len(results) == 30
    assert await store.size() < before
    found = await store.messages("ses_1", limit=100)
    assert [message.id for message in found.items] == [f"msg_{number}" for number in range(60)]
    assert (await store.session("ses_11")).id == "ses_11"
    assert store.last_number == last + len(commits)
    await store.close()
    again = await open_store(tmp_path / "holdfast.db")
    assert again.last_number == last + len(commits)
    await again.close()
