"""Patches as text. Pure. Two forms are read:

The envelope::

    *** Begin Patch
    *** Update File: src/app.py
    *** Move to: src/main.py          (optional)
    @@ def main():                    (optional: the hunk lies below this line; several may follow each other)
     a line that stays
    -a line that goes
    +a line that comes
    *** End of File                   (optional: the hunk lies at the end)
    *** Add File: notes.txt
    +its lines
    *** Delete File: old.txt
    *** End Patch

and unified diffs, as ``diff -u`` and ``git diff`` write them. Line numbers and counts there are hints only: what is
found decides.
"""

from __future__ import annotations

from holdfast.errors import ToolError
from holdfast.tools.patch.envelope import BEGIN, parse_envelope
from holdfast.tools.patch.patch_operations import Operation
from holdfast.tools.patch.unified_diff import parse_unified


def parse_patch(text: str) -> tuple[Operation, ...]:
    """`ToolError` says what is not understood."""
    lines = text.replace("\r\n", "\n").strip("\n").split("\n")
    start = next((at for at, line in enumerate(lines) if line.strip() == BEGIN), None)
    operations = parse_unified(lines) if start is None else parse_envelope(lines, start=start + 1)
    if not operations:
        raise ToolError(f"the patch names no file; begin it with {BEGIN!r}, or give a unified diff")
    return operations
