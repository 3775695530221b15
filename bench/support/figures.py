"""The figures of the benchmarks: each is printed beside its aim, and kept for the table at the end of `make bench`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

KEPT_IN = "HOLDFAST_BENCH_FIGURES"
"""The environment variable with the file to which figures are added, one JSON object per line."""


def show(
    name: str,
    value: float,
    unit: str,
    *,
    base: float | None = None,
    base_name: str = "bare",
    most: float | None = None,
    least: float | None = None,
    most_ratio: float | None = None,
    most_above: float | None = None,
    more_is_better: bool = False,
) -> None:
    """Print a figure.

    ``base`` is what the least code for the same job costs in the same run. The aim is an absolute ``most`` or
    ``least``, a ``most_ratio`` to the base or a ``most_above`` the base, or none.
    """
    aim, is_met = _aim(value, unit, base, most=most, least=least, most_ratio=most_ratio, most_above=most_above)
    ratio = value / base if base else None
    line = f"  {name:46} {value:10.2f} {unit:6}"
    if base is not None:
        line += f" {base_name} {base:9.2f}"
    if ratio is not None:
        line += f" {ratio:6.2f} ×"
    if aim:
        line += f"   aim {aim}: {'met' if is_met else 'MISSED'}"
    print(line, flush=True)
    if path := os.environ.get(KEPT_IN):
        figure = {
            "program": Path(sys.argv[0]).stem,
            "name": name,
            "value": value,
            "unit": unit,
            "base": base,
            "base_name": base_name if base is not None else "",
            "aim": aim,
            "met": is_met,
            "more_is_better": more_is_better,
        }
        with open(path, "a") as file:
            file.write(json.dumps(figure) + "\n")


def _aim(
    value: float,
    unit: str,
    base: float | None,
    *,
    most: float | None,
    least: float | None,
    most_ratio: float | None,
    most_above: float | None,
) -> tuple[str, bool | None]:
    if most is not None:
        return f"≤ {most:g} {unit}", value <= most
    if least is not None:
        return f"≥ {least:g} {unit}", value >= least
    if most_ratio is not None:
        assert base, "an aim that is a ratio needs a base"
        return f"≤ {most_ratio:g} ×", value <= most_ratio * base
    if most_above is not None:
        assert base is not None, "an aim above the base needs a base"
        return f"≤ + {most_above:g} {unit}", value <= base + most_above
    return "", None
