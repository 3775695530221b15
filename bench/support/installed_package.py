"""The package as pip installs it, below a directory `site-packages`.

In a source tree each command and each server also looks at all its files, to find out whether a server has older code.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import holdfast

_SOURCE = Path(holdfast.__file__).parent


def install_package(directory: Path) -> str:
    """Copy the package below the directory. Returns the ``PYTHONPATH`` with which programs use the copy."""
    installed = directory / "site-packages"
    shutil.copytree(_SOURCE, installed / _SOURCE.name, ignore=shutil.ignore_patterns("__pycache__"))
    return str(installed)
