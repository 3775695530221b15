"""The fast commands import no heavy modules."""

import subprocess
import sys

import pytest

from tests.cli.cli_shell import CliShell

FORBIDDEN = {
    *("asyncio", "starlette", "uvicorn", "httpx2", "textual", "tree_sitter", "markdownify", "mcp", "tomlkit"),
    *("ssl", "subprocess", "threading", "inspect", "typing_extensions", "json", "logging", "sqlite3"),
}
PROGRAM = """
import sys
from holdfast.cli import main
status = main(sys.argv[1:])
print("\\n" + " ".join(sys.modules), file=sys.stderr)
sys.exit(status)
"""


def _loaded(sh: CliShell, *words: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        capture_output=True,
        text=True,
        check=True,
        stdin=subprocess.DEVNULL,
        cwd=sh.work,
        env=sh.env,
        timeout=50,
    )
    return set(done.stderr.rsplit("\n", 2)[-2].split())


@pytest.mark.parametrize("words", [("--version",), ("--help",), ("run", "!bash echo a tool ran")])
def test_no_heavy_module_is_imported(sh: CliShell, words: tuple[str, ...]) -> None:
    sh.ok("run", "!say the server is there")
    loaded = _loaded(sh, *words)
    assert loaded & FORBIDDEN == set()
    assert not [name for name in loaded if name.startswith(("holdfast.server", "holdfast.models", "holdfast.app"))]
