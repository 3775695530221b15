"""Finds damage in the write-ahead log that a crash left. All functions block.

SQLite reads the log up to the first frame whose checksum is wrong, and ignores what follows without a word. After a
power failure that is right: the last transaction may be half written. But a transaction begins only after the one
before it was flushed. So if a frame follows the last frame of an ignored transaction and continues its checksum, that
transaction was accepted, and ignoring it would lose it. Left-over frames of refused commits are not continued in this
way.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO, NamedTuple

_HEADER = struct.Struct(">8I")
_FRAME = struct.Struct(">6I")
_MAGIC = (0x377F0682, 0x377F0683)
_LAST_FRAME_OFFSET = 16
"""Where the shared index has the number of the last frame that SQLite reads."""
_MOST_FRAMES = 4096
"""How many ignored frames are looked at. It bounds the time of a start."""


class _Frame(NamedTuple):
    ends_transaction: bool
    salts: tuple[int, int]
    checksum: tuple[int, int]


def loses_transactions(database: Path) -> bool:
    """Whether SQLite ignores transactions that were accepted. The index must be that of an open connection."""
    with database.with_name(database.name + "-wal").open("rb") as file:
        header = file.read(_HEADER.size)
        if len(header) < _HEADER.size or not any(header):
            return False
        magic, _, page, _, *salts_and_checksum = _HEADER.unpack(header)
        order = ">" if magic == _MAGIC[1] else "<"
        is_sound = magic in _MAGIC and _checksum(header[:24], (0, 0), order) == tuple(salts_and_checksum[2:])
        frames = _IgnoredFrames(file, page_size=page if is_sound else 4096, order=order)
        first = _last_frame(database) + 1 if is_sound else 1
        salts = (salts_and_checksum[0], salts_and_checksum[1]) if is_sound else None
        return frames.has_accepted(first, salts=salts)


def _last_frame(database: Path) -> int:
    with database.with_name(database.name + "-shm").open("rb") as index:
        index.seek(_LAST_FRAME_OFFSET)
        return int(struct.unpack("=I", index.read(4))[0])


class _IgnoredFrames:
    def __init__(self, file: BinaryIO, *, page_size: int, order: str) -> None:
        self._file = file
        self._page_size = page_size
        self._order = order

    def has_accepted(self, first: int, *, salts: tuple[int, int] | None) -> bool:
        """``salts``: those of the log's frames. None: its header is damaged, and any will do."""
        for number in range(first, first + _MOST_FRAMES):
            frame = self._frame(number)
            if frame is None:
                return False
            is_ours = salts is None or frame.salts == salts
            if is_ours and frame.ends_transaction and self._continues(number + 1, frame):
                return True
        return False

    def _continues(self, number: int, previous: _Frame) -> bool:
        """Whether a frame was written after ``previous``, in the same log."""
        frame = self._frame(number)
        if frame is None or frame.salts != previous.salts:
            return False
        self._file.seek(self._position(number))
        data = self._file.read(_FRAME.size + self._page_size)
        if len(data) < _FRAME.size + self._page_size:
            return False
        checked = data[:8] + data[_FRAME.size :]
        return _checksum(checked, previous.checksum, self._order) == frame.checksum

    def _frame(self, number: int) -> _Frame | None:
        self._file.seek(self._position(number))
        data = self._file.read(_FRAME.size)
        if len(data) < _FRAME.size:
            return None
        _, size_after, salt_1, salt_2, sum_1, sum_2 = _FRAME.unpack(data)
        return _Frame(size_after > 0, (salt_1, salt_2), (sum_1, sum_2))

    def _position(self, number: int) -> int:
        return _HEADER.size + (number - 1) * (_FRAME.size + self._page_size)


def _checksum(data: bytes, seed: tuple[int, int], order: str) -> tuple[int, int]:
    first, second = seed
    for one, two in struct.iter_unpack(f"{order}2I", data):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + two + first) & 0xFFFFFFFF
    return first, second
