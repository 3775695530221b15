"""Others of the same user cannot look into the server's process (W8)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_HIDES = """
import sys
from holdfast.server.process_privacy import hide_process
hide_process()
print("hidden", flush=True)
sys.stdin.read()
"""


@pytest.mark.promise("W8")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can hide a process from its own user")
def test_the_environment_of_a_hidden_process_belongs_to_nobody_else() -> None:
    process = subprocess.Popen([sys.executable, "-c", _HIDES], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"hidden\n"
        environ = Path(f"/proc/{process.pid}/environ")
        assert environ.stat().st_uid == 0
        if os.getuid() != 0:
            with pytest.raises(PermissionError):
                environ.read_bytes()
    finally:
        process.communicate()
