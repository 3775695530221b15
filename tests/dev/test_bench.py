"""`make bench`: the table, the page, and the comparison with recorded ratios."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dev import bench
from dev.bench import Figure, page, programs, read_figures, recorded_ratios, regressions, table
from tests.support.stress import StressShare

_SHOWN = """
from support.figures import show
show("fast enough", 2.0, "ms", base=1.0, most_ratio=3)
show("too slow", 9.0, "ms", base=1.0, base_name="relay", most_above=2)
show("a rate", 50.0, "/s", base=100.0, more_is_better=True)
show("alone", 7.0, "MB", most=8)
"""


@pytest.fixture
def figures(tmp_path: Path) -> list[Figure]:
    program, kept = tmp_path / "probe.py", tmp_path / "figures"
    program.write_text(f"import sys; sys.path.insert(0, {str(bench.ROOT / 'bench')!r})\n{_SHOWN}")
    done = subprocess.run(
        [sys.executable, program],
        env={"HOLDFAST_BENCH_FIGURES": str(kept)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "too slow" in done.stdout
    assert done.stdout.count("MISSED") == 1
    return read_figures(kept.read_text().splitlines())


def test_each_figure_is_kept_with_its_base_and_its_aim(figures: list[Figure]) -> None:
    assert [(figure.key, figure.ratio, figure.aim, figure.met) for figure in figures] == [
        ("probe: fast enough", 2.0, "≤ 3 ×", True),
        ("probe: too slow", 9.0, "≤ + 2 ms", False),
        ("probe: a rate", 0.5, "", None),
        ("probe: alone", None, "≤ 8 MB", True),
    ]


def test_the_table_and_the_page_name_every_figure_and_what_is_missed(figures: list[Figure]) -> None:
    lines = table(figures)
    assert len(lines) == 2 + len(figures)
    assert len({len(line) for line in lines}) == 1
    assert "relay 1.00 ms" in lines[3]
    assert "**missed**" in lines[3]
    text = page(figures)
    assert "4 figures, 1 of them miss their aim" in text
    assert f"Python {sys.version.split()[0]}" in text


def test_only_a_ratio_that_is_clearly_worse_is_a_regression(figures: list[Figure]) -> None:
    recorded = recorded_ratios(figures)
    assert recorded == {"probe: fast enough": 2.0, "probe: too slow": 9.0, "probe: a rate": 0.5}
    assert regressions(figures, recorded) == {}
    assert regressions(figures, {"probe: fast enough": 1.8, "probe: a rate": 0.55, "probe: gone": 1.0}) == {}
    found = regressions(figures, {"probe: fast enough": 1.7, "probe: a rate": 0.6, "probe: too slow": 90.0})
    assert list(found) == ["probe: fast enough", "probe: a rate"]
    assert found["probe: fast enough"] == "2.00 × instead of 1.70 × (+18 %)"


def test_a_regression_is_measured_again_before_it_counts(
    figures: list[Figure], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = [Figure("probe", "fast enough", 4.0, "ms", base=1.0)]
    measured = iter([slow, figures, slow, slow, slow])
    monkeypatch.setattr(bench, "run", lambda path: next(measured))
    assert bench.check([Path("probe.py")], {"probe: fast enough": 2.0}) == 0
    assert bench.check([Path("probe.py")], {"probe: fast enough": 2.0}) == 1
    assert "worse in 3 runs: probe: fast enough: 4.00 × instead of 2.00 ×" in capsys.readouterr().out


def test_unknown_programs_are_named() -> None:
    assert [path.stem for path in programs(["server", "cli"])] == ["cli", "server"]
    with pytest.raises(SystemExit, match="no such benchmark: x; there are: cli"):
        programs(["x"])


def test_the_recorded_ratios_belong_to_the_programs() -> None:
    if bench.RECORDED.exists():
        names = {path.stem for path in programs()}
        assert {key.partition(":")[0] for key in json.loads(bench.RECORDED.read_text())} <= names


@pytest.mark.stress(weight=1)
def test_the_programs_run(share: StressShare) -> None:
    for words in share.sample(
        [("store", "--rounds", "1"), ("files", "--rounds", "2"), ("engine", "--quick")], what="programs"
    ):
        program = bench.ROOT / "bench" / f"{words[0]}.py"
        subprocess.run([sys.executable, program, *words[1:]], check=True, capture_output=True, timeout=300)


def test_the_comparison_with_other_agents_names_those_that_are_not_installed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, bench.ROOT / "bench" / "peers.py", "crush", "codex"],
        env={"PATH": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == "  not installed: crush, codex\n"
