"""The fast commands import no heavy modules."""

import subprocess
import sys

import pytest

from tests.cli.cli_shell import CliShell

FORBIDDEN = {
    *("asyncio", "starlette", "uvicorn", "httpx2", "textual", "tree_sitter", "markdownify", "mcp", "tomlkit"),
    *("ssl", "subprocess", "threading", "inspect", "typing_extensions", "json", "logging", "sqlite3"),
    *(
        "argparse",
        "gettext",
        "locale",
        "platform",
        "socket",
        "selectors",
        "signal",
        "struct",
        "textwrap",
        "pathlib",
        "dataclasses",
        "rich",
    ),
}
PROGRAM = """
import sys
from holdfast.cli import main
status = main(sys.argv[1:])
print("\\n" + " ".join(sys.modules), file=sys.stderr)
sys.exit(status)
"""


def _loaded(sh: CliShell, *words: str, program: str = PROGRAM) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        capture_output=True,
        text=True,
        check=True,
        stdin=subprocess.DEVNULL,
        cwd=sh.work,
        env=sh.env,
        timeout=50,
    )
    return set(done.stderr.rsplit("\n", 2)[-2].split())


def test_help_and_mistakes_are_left_to_argparse(sh: CliShell) -> None:
    assert "argparse" in _loaded(sh, "run", "--help")


@pytest.mark.parametrize("words", [("--version",), ("--help",), ("run", "!bash echo a tool ran")])
def test_no_heavy_module_is_imported(sh: CliShell, words: tuple[str, ...]) -> None:
    sh.ok("run", "!say the server is there")
    loaded = _loaded(sh, *words)
    assert loaded & FORBIDDEN == set()
    assert not [name for name in loaded if name.startswith(("holdfast.server", "holdfast.models", "holdfast.app"))]


SCHEMA = """
from holdfast.cli import _import_msgspec
_import_msgspec()
import msgspec
class Named(msgspec.Struct):
    'What it is.'
print(msgspec.json.schema(Named)["$defs"]["Named"]["description"])
"""


def test_schemas_have_their_descriptions_though_msgspec_was_imported_without_textwrap() -> None:
    done = subprocess.run([sys.executable, "-c", SCHEMA], capture_output=True, text=True, check=True, timeout=50)
    assert done.stdout == "What it is.\n"


SERVE = """
import sys
import holdfast.app
from holdfast.cli import main
holdfast.app.serve_until_stopped = lambda *args, **options: True
status = main(sys.argv[1:])
print("\\n" + " ".join(sys.modules), file=sys.stderr)
sys.exit(status)
"""


def test_a_server_reads_its_options_without_argparse(sh: CliShell) -> None:
    loaded = _loaded(sh, "serve", "--listen", "127.0.0.1:0", "--idle-exit", program=SERVE)
    assert loaded & {"argparse", "gettext"} == set()


AT_REQUESTS = """
import sys
from holdfast.cli import main
from holdfast.client.sync_http import Connection

send = Connection._send

def noting_send(connection, request):
    print(request.split()[1].decode().partition("?")[0], *sys.modules, file=sys.stderr)
    send(connection, request)

Connection._send = noting_send
status = main(sys.argv[1:])
print("end", *sys.modules, file=sys.stderr)
sys.exit(status)
"""


def _loaded_at_requests(sh: CliShell, *words: str) -> dict[str, set[str]]:
    """The modules of Holdfast that were loaded when each request was sent, by the last step of its path."""
    done = subprocess.run(
        [sys.executable, "-c", AT_REQUESTS, *words],
        capture_output=True,
        text=True,
        check=True,
        stdin=subprocess.DEVNULL,
        cwd=sh.work,
        env=sh.env,
        timeout=50,
    )
    noted = (line.split() for line in done.stderr.splitlines() if " sys " in line)
    return {
        target.rpartition("/")[2]: {name for name in loaded if name.startswith("holdfast")} for target, *loaded in noted
    }


def test_a_run_sends_its_prompt_before_it_imports_what_follows_it(sh: CliShell) -> None:
    sh.ok("run", "!say the server is there")
    loaded = _loaded_at_requests(sh, "run", "--quiet", "hello")
    assert list(loaded) == ["health", "workspaces", "runs", "events", "end"]
    late = {"cli.run_follower", "cli.event_printer", "cli.run_result", "client.stream_state", "schema.events"}
    assert loaded["runs"] & {f"holdfast.{name}" for name in late} == set()


def test_a_run_imports_nothing_once_it_is_followed(sh: CliShell) -> None:
    """Another version may be installed before a long run ends."""
    sh.ok("run", "!say the server is there")
    loaded = _loaded_at_requests(sh, "run", "!bash echo a tool ran")
    assert loaded["end"] - loaded["events"] == set()
