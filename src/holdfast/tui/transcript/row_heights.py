"""The heights of many entries, with their sums: which entry is at a row, and at which row an entry starts. Pure."""

from __future__ import annotations

from collections.abc import Iterable


class RowHeights:
    """A Fenwick tree. Setting a height, adding one at the end and finding a row take logarithmic time."""

    def __init__(self, heights: Iterable[int] = ()) -> None:
        self._heights = list(heights)
        self._tree = [0, *self._heights]
        for index in range(1, len(self._tree)):
            parent = index + (index & -index)
            if parent < len(self._tree):
                self._tree[parent] += self._tree[index]
        self.total = sum(self._heights)

    def __len__(self) -> int:
        return len(self._heights)

    def __getitem__(self, index: int) -> int:
        return self._heights[index]

    def append(self, height: int) -> None:
        index = len(self._tree)
        low = index & -index
        value = height + self.start_of(index - 1) - self.start_of(index - low)
        self._heights.append(height)
        self._tree.append(value)
        self.total += height

    def set(self, index: int, height: int) -> int:
        """Change a height. Returns by how much it grew."""
        grown = height - self._heights[index]
        if grown:
            self._heights[index] = height
            self.total += grown
            position = index + 1
            while position < len(self._tree):
                self._tree[position] += grown
                position += position & -position
        return grown

    def start_of(self, index: int) -> int:
        """The first row of an entry: the sum of the heights before it."""
        found = 0
        while index > 0:
            found += self._tree[index]
            index -= index & -index
        return found

    def find(self, row: int) -> tuple[int, int]:
        """The entry at a row, and the row within it. Rows outside give the first or last entry."""
        if not self._heights:
            return 0, 0
        row = max(min(row, self.total - 1), 0)
        position, rest = 0, row
        step = 1 << (len(self._heights).bit_length() - 1)
        while step:
            following = position + step
            if following < len(self._tree) and self._tree[following] <= rest:
                position, rest = following, rest - self._tree[following]
            step >>= 1
        return min(position, len(self._heights) - 1), rest
