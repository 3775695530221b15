"""The rules of leases hold in every reachable state, and the exploration finds each of these mistakes."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from holdfast.fleet import lease_rules
from tests.fleet.lease_explorer import BrokenLeaseError, Faults, explore

_MUTATIONS: dict[str, tuple[tuple[str, str], ...]] = {
    "a commit is not checked": (("return lease.holder == server_id and lease.fence == fence", "return True"),),
    "a dead server renews": (
        ("    if server.dead:\n        return None\n    return replace(server, exp", "    return replace(server, exp"),
    ),
    "a renewal makes a dead server alive": (
        ("    if server.dead:\n        return None\n    return replace(server, exp", "    return replace(server, exp"),
        ("expires_at=now + times.lasts)", "expires_at=now + times.lasts, dead=False)"),
    ),
    "a server is declared dead before its time is over": (
        (" or server.expires_at > now:", ":"),
        ("return seen_for >= times.lasts", "return True"),
    ),
    "a lease is taken before its holder is dead": (
        ("holder is not None and not holder.dead", "holder is None and False"),
    ),
    "a dead server takes a lease": (("if taker.dead or (", "if ("),),
    "the fence does not grow": (("LeaseRow(taker.id, lease.fence + 1)", "LeaseRow(taker.id, lease.fence)"),),
    "the fence does not grow at a release": (("LeaseRow(None, lease.fence + 1)", "LeaseRow(None, lease.fence)"),),
    "an owner works until its lease ends": (("since_renewal >= times.stops_after", "since_renewal > times.lasts"),),
    "an owner never stops": (("since_renewal >= times.stops_after", "False"),),
}


@pytest.mark.promise("W16")
def test_the_rules_hold_in_every_reachable_state(capsys: pytest.CaptureFixture[str]) -> None:
    states, transitions, takeovers = explore()

    with capsys.disabled():
        print(f"\n  leases: {states} states, {transitions} transitions, {takeovers} takeovers")
    assert states > 40_000
    assert takeovers > 1_000


@pytest.mark.parametrize("mistake", _MUTATIONS)
def test_the_exploration_finds(mistake: str) -> None:
    with pytest.raises(BrokenLeaseError):
        explore(_mutant(_MUTATIONS[mistake]))


@pytest.mark.parametrize(
    "faults",
    [Faults(no_lock=True), Faults(servers_clock=True, impatient=True)],
    ids=["commits without a lock", "the servers' clocks"],
)
def test_the_exploration_finds_mistakes_around_the_rules(faults: Faults) -> None:
    with pytest.raises(BrokenLeaseError):
        explore(faults=faults)


def _mutant(changes: tuple[tuple[str, str], ...]) -> ModuleType:
    source = Path(lease_rules.__file__).read_text()
    for old, new in changes:
        assert source.count(old) == 1, f"{old!r} is not there once"
        source = source.replace(old, new)
    module = ModuleType("mutant_of_lease_rules")
    sys.modules[module.__name__] = module
    exec(compile(source, "mutant", "exec"), module.__dict__)
    return module
