"""The directories that the user trusts.

Opening a directory runs none of its code and reads none of its settings until the user trusts it (W1). Trust covers the
directories below. Paths are resolved, so that a link does not inherit the trust of its own location.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from holdfast.config.config_files import WRITABLE_BY_OTHERS, exclusive, problem_with, read_bytes, write_bytes
from holdfast.errors import ConfigError
from holdfast.schema.base import LateDecoder


class _TrustFile(msgspec.Struct):
    directories: list[str] = []
    version: int = 1


_trust_file = LateDecoder(_TrustFile)


class TrustStore:
    """The file with the trusted directories. Its methods block: call them in a thread."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def directories(self) -> tuple[Path, ...]:
        """The trusted directories, sorted."""
        data = read_bytes(self._path, forbidden_mode=WRITABLE_BY_OTHERS)
        if data is None:
            return ()
        try:
            document = _trust_file.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise problem_with(self._path, "is damaged; remove it and trust your directories again") from None
        return tuple(sorted(Path(directory) for directory in document.directories))

    def is_trusted(self, directory: Path) -> bool:
        return self.covering(directory) is not None

    def covering(self, directory: Path) -> Path | None:
        """The trusted directory that equals or contains this one."""
        real = _real(directory)
        return next((root for root in self.directories() if real.is_relative_to(root)), None)

    def trust(self, directory: Path) -> Path:
        """Trust a directory and everything below it. Returns its real path."""
        real = _real(directory)
        if not real.is_dir():
            raise ConfigError(f"cannot trust {str(directory)!r}: it is not a directory")
        if real == Path(real.anchor):
            raise ConfigError(f"cannot trust {str(real)!r}: it contains every directory on this machine")
        with exclusive(self._path):
            self._write({*self.directories(), real})
        return real

    def revoke(self, directory: Path) -> Path | None:
        """Stop trusting a directory and everything below it. Returns a trusted parent that still covers it, if any."""
        real = _real(directory)
        with exclusive(self._path):
            before = set(self.directories())
            left = {root for root in before if not root.is_relative_to(real)}
            if left != before:
                self._write(left)
        return next((root for root in sorted(left) if real.is_relative_to(root)), None)

    def _write(self, directories: set[Path]) -> None:
        document = _TrustFile(directories=sorted(str(directory) for directory in directories))
        write_bytes(self._path, msgspec.json.encode(document) + b"\n")


def _real(directory: Path) -> Path:
    return Path(os.path.realpath(directory))
