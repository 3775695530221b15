"""Plans of undo and redo, for all orders of a few steps of the agent, the user, undo and redo."""

from itertools import product

import msgspec
import pytest

from holdfast.store.records import FileSnapshot, SnapshotState
from holdfast.workspace.undo.undo_plan import (
    PastRun,
    Restore,
    Settled,
    Skipped,
    affected_paths,
    effective_snapshots,
    plan_redo,
    plan_undo,
    redo_stack,
)
from tests.support.stress import StressShare

_PATH = "/ws/a"


def _record(
    seq: int,
    before: str | None,
    after: str | None,
    *,
    run: str = "run_1",
    call: str | None = None,
    state: SnapshotState = "applied",
    path: str = _PATH,
) -> FileSnapshot:
    call_id = f"call_{seq}" if call is None else call
    return FileSnapshot(
        f"snp_{seq}", "ses_1", run, path, before, after, call_id=call_id, state=state, seq=seq, mode=0o644
    )


def test_several_changes_of_a_file_are_undone_in_one_step() -> None:
    records = [_record(1, "a", "b"), _record(2, "b", "c")]
    assert plan_undo(records, ["run_1"], {_PATH: "c"}) == (
        Restore(_PATH, now="c", to="a", records=("snp_2", "snp_1"), mode=0o644),
    )


def test_a_file_that_was_changed_since_is_skipped() -> None:
    (step,) = plan_undo([_record(1, "a", "b")], ["run_1"], {_PATH: "by the user"})
    assert isinstance(step, Skipped)
    assert (step.why, step.message) == (
        "changed",
        "'/ws/a' was changed after the agent wrote it; that change was kept",
    )


def test_undo_goes_back_only_to_what_the_user_wrote_in_between() -> None:
    records = [_record(1, "a", "b"), _record(2, "by the user", "c")]
    (step,) = plan_undo(records, ["run_1"], {_PATH: "c"})
    assert isinstance(step, Restore)
    assert (step.to, step.records) == ("by the user", ("snp_2",))
    assert "that change was kept" in step.stopped


@pytest.mark.parametrize("now", ["a", None])
def test_a_change_that_is_already_reversed_only_updates_its_record(now: str | None) -> None:
    """After a crash between the record and the write, or between an undo's write and its record."""
    assert plan_undo([_record(1, now, "b")], ["run_1"], {_PATH: now}) == (Settled(_PATH, ("snp_1",)),)


def test_an_announced_write_that_did_not_happen_is_not_a_change() -> None:
    records = [_record(1, "a", "b"), _record(2, "b", "c", call="late"), _record(3, "c", "b", call="late")]
    assert effective_snapshots(records) == records[:1]
    assert plan_undo(records, ["run_1"], {_PATH: "c"}) != (), "another program wrote the announced content"
    (step,) = plan_undo(records, ["run_1"], {_PATH: "c"})
    assert isinstance(step, Skipped)
    (step,) = plan_undo(records, ["run_1"], {_PATH: "b"})
    assert step == Restore(_PATH, "b", "a", ("snp_1",), 0o644)


def test_records_without_a_call_are_all_changes() -> None:
    records = [_record(1, "a", "b", call=""), _record(2, "b", "a", call="")]
    assert effective_snapshots(records) == records


def test_only_the_chosen_runs_are_planned() -> None:
    records = [_record(1, "a", "b"), _record(2, "x", "y", run="run_2", path="/ws/other")]
    assert affected_paths(records, ["run_2"], undo=True) == ("/ws/other",)
    assert affected_paths(records, ["run_2"], undo=False) == ()
    assert [step.path for step in plan_undo(records, ["run_1"], {_PATH: "b"})] == [_PATH]


def test_redo_applies_undone_changes_in_order() -> None:
    records = [_record(1, "a", "b", state="undone"), _record(2, "b", None, state="undone")]
    assert plan_redo(records, ["run_1"], {_PATH: "a"}) == (Restore(_PATH, "a", None, ("snp_1", "snp_2"), 0o644),)
    (step,) = plan_redo(records, ["run_1"], {_PATH: "by the user"})
    assert isinstance(step, Skipped)
    assert "changed after the undo" in step.message


def test_a_file_that_a_later_run_changed_too_is_undone_only_in_order() -> None:
    records = [_record(1, "a", "b", run="one"), _record(2, "b", "a", run="two"), _record(3, "a", "c", run="one")]
    (step,) = plan_undo(records[:2], ["one"], {_PATH: "a"})
    assert step == Skipped(_PATH, "later", "'/ws/a' was changed by a later run as well; undo that one first")
    (step,) = plan_undo(records, ["one"], {_PATH: "c"})
    assert isinstance(step, Restore)
    assert (step.to, step.records) == ("a", ("snp_3",))
    assert "undo that one first" in step.stopped


def test_a_change_that_was_undone_before_a_later_change_stays_undone() -> None:
    records = [_record(1, "a", "b", state="undone"), _record(2, "a", "a2", run="run_2")]
    (step,) = plan_redo(records, ["run_1"], {_PATH: "a"})
    assert isinstance(step, Skipped)
    assert (step.why, "stays undone" in step.message) == ("later", True)


@pytest.mark.parametrize(
    ("past", "expected"),
    [
        ("", []),
        ("W", []),
        ("WU", [("1",)]),
        ("WWU", [("2",)]),
        ("WWUU", [("2",), ("1",)]),
        ("WWUUR", [("2",)]),
        ("WUW", []),
        ("WUWU", [("3",)]),
        ("WUWUR", []),
        ("WUR", []),
        ("UR", []),
        ("WURU", [("1",)]),
    ],
)
def test_the_last_undo_is_redone_first(past: str, expected: list[tuple[str, ...]]) -> None:
    kinds = {"W": "wrote", "U": "undo", "R": "redo"}
    history = [PastRun(seq, str(seq), kinds[kind]) for seq, kind in enumerate(past, start=1)]  # type: ignore[arg-type]
    assert redo_stack(reversed(history)) == expected


def test_an_undo_of_several_runs_is_redone_as_one() -> None:
    history = [
        PastRun(1, "1", "wrote"),
        PastRun(2, "2", "wrote"),
        PastRun(3, "3", "wrote"),
        PastRun(4, "4", "undo", since=2),
    ]
    assert redo_stack(history) == [("2", "3")]


class FileModel:
    """One file with its records."""

    def __init__(self) -> None:
        self.content: str | None = "0 by the user"
        self.by_user: str | None = self.content
        self.last_writer = "user"
        self.records: list[FileSnapshot] = []

    def user(self, step: int) -> None:
        self.content = self.by_user = f"{step} by the user"
        self.last_writer = "user"

    def agent(self, step: int) -> None:
        """The agent has read the file before."""
        new = f"{step} by the agent"
        self.records.append(_record(len(self.records) + 1, self.content, new, run=f"run_{step}"))
        self.content, self.last_writer = new, "agent"

    def delete(self, step: int) -> None:
        self.records.append(_record(len(self.records) + 1, self.content, None, run=f"run_{step}"))
        self.content, self.last_writer = None, "agent"

    def undo(self, step: int) -> None:
        applied = [record.run_id for record in effective_snapshots(self.records) if record.state == "applied"]
        self._apply(plan_undo(self.records, applied[-1:], {_PATH: self.content}), "undone")

    def undo_first(self, step: int) -> None:
        """Undo the first run, out of order."""
        runs = [record.run_id for record in self.records[:1]]
        self._apply(plan_undo(self.records, runs, {_PATH: self.content}), "undone")

    def undo_all(self, step: int) -> None:
        runs = [record.run_id for record in self.records]
        self._apply(plan_undo(self.records, runs, {_PATH: self.content}), "undone")

    def redo(self, step: int) -> None:
        runs = [record.run_id for record in self.records]
        self._apply(plan_redo(self.records, runs, {_PATH: self.content}), "applied")

    def _apply(self, steps: tuple[object, ...], state: SnapshotState) -> None:
        for step in steps:
            if isinstance(step, Skipped):
                continue
            assert isinstance(step, Restore | Settled)
            if isinstance(step, Restore):
                assert self.last_writer != "user" or self.content is None, "the user's edit would be lost"
                assert step.now == self.content
                self.content, self.last_writer = step.to, "undo"
                if step.to == self.by_user:
                    self.last_writer = "user's content, restored"
            self.records = [
                msgspec.structs.replace(record, state=state) if record.id in step.records else record
                for record in self.records
            ]


_ACTIONS = ["user", "agent", "delete", "undo", "undo_first", "undo_all", "redo"]


def _check_order(actions: tuple[str, ...]) -> None:
    """Undoing everything at the end always leaves what the user wrote last."""
    model = FileModel()
    for number, action in enumerate(actions, start=1):
        getattr(model, action)(number)
    model.undo_all(0)
    assert model.content == model.by_user, actions


def test_no_order_of_five_steps_loses_an_edit_of_the_user() -> None:
    for actions in product(_ACTIONS, repeat=5):
        _check_order(actions)


@pytest.mark.stress
def test_no_order_of_seven_steps_loses_an_edit_of_the_user(share: StressShare) -> None:
    for actions in share.sample(product(_ACTIONS, repeat=7), what="orders"):
        _check_order(actions)
