"""Metrics as plain numbers, and their text in the OpenMetrics format. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Literal

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0, 600.0)
"""The upper bounds of the buckets of a time."""

MEDIA_TYPE = b"application/openmetrics-text; version=1.0.0; charset=utf-8"

Labels = tuple[str, ...]


class Histogram:
    """How often a time was in each bucket."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(SECONDS) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(SECONDS, seconds)] += 1
        self.total += seconds


class MetricsText:
    """Collects metrics, and returns their text."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def gauge(self, name: str, value: float, about: str) -> None:
        self._begin(name, "gauge", about)
        self._lines.append(f"{name} {_number(value)}")

    def info(self, name: str, labels: Mapping[str, str], about: str) -> None:
        self._begin(name, "info", about)
        self._lines.append(f"{name}_info{_labels(labels)} 1")

    def counter(self, name: str, value: float, about: str) -> None:
        """``name`` is without ``_total``."""
        self._begin(name, "counter", about)
        self._lines.append(f"{name}_total {_number(value)}")

    def counters(self, name: str, labels: Sequence[str], values: Mapping[Labels, float], about: str) -> None:
        """One counter for each combination of the labels' values."""
        self._begin(name, "counter", about)
        for key, value in sorted(values.items()):
            self._lines.append(f"{name}_total{_labels(dict(zip(labels, key, strict=True)))} {_number(value)}")

    def histogram(self, name: str, histogram: Histogram, about: str) -> None:
        """``name`` ends in its unit, seconds."""
        self._begin(name, "histogram", about, unit="seconds")
        below = 0
        for bound, count in zip((*map(_number, SECONDS), "+Inf"), histogram.counts, strict=True):
            below += count
            self._lines.append(f'{name}_bucket{{le="{bound}"}} {below}')
        self._lines += [f"{name}_count {below}", f"{name}_sum {_number(histogram.total)}"]

    def text(self) -> str:
        return "\n".join((*self._lines, "# EOF", ""))

    def _begin(
        self, name: str, kind: Literal["gauge", "info", "counter", "histogram"], about: str, *, unit: str = ""
    ) -> None:
        self._lines.append(f"# TYPE {name} {kind}")
        if unit:
            self._lines.append(f"# UNIT {name} {unit}")
        self._lines.append(f"# HELP {name} {_escaped(about)}")


class LimitedCounter:
    """A counter with a limit on how many label values there are; the others are counted as ``other``."""

    def __init__(self, *, limit: int = 200) -> None:
        self._limit = limit
        self.values: dict[Labels, float] = {}

    def add(self, labels: Labels, value: float = 1) -> None:
        if labels not in self.values and len(self.values) >= self._limit:
            labels = ("other", *labels[1:])
        self.values[labels] = self.values.get(labels, 0) + value


def _number(value: float) -> str:
    return repr(int(value) if value == int(value) and abs(value) < 1 << 53 else float(value))


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
