"""Importing and loading the configuration stays cheap: nothing heavy comes along."""

import json
import subprocess
import sys

_HEAVY = {
    "asyncio",
    "subprocess",
    "tomlkit",
    "difflib",
    "httpx2",
    "starlette",
    "ssl",
    "hashlib",
    "tempfile",
    "dataclasses",
}


def test_loading_a_configuration_imports_nothing_heavy() -> None:
    program = (
        "import json, os, sys\n"
        "before = set(sys.modules)\n"
        "from holdfast.config import Catalogue, load_config\n"
        "from holdfast.locations import Locations\n"
        "config = load_config(Locations.from_env(os.environ), env=os.environ)\n"
        "Catalogue(config.settings, env={'ANTHROPIC_API_KEY': 'x'}).large()\n"
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    assert {name.partition(".")[0] for name in json.loads(done.stdout)} & _HEAVY == set()
