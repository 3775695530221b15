"""A server with a database of its own does not pay for fleets."""

import subprocess
import sys

_PROGRAM = """
import sys
import holdfast.app, holdfast.server, holdfast.services
paid = [name for name in sys.modules if name.startswith(("holdfast.fleet", "holdfast.store.postgres", "psycopg"))]
assert paid == [], paid
"""


def test_a_server_without_postgresql_imports_nothing_of_the_fleet() -> None:
    subprocess.run([sys.executable, "-c", _PROGRAM], check=True, timeout=60)
