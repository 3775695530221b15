"""What must not be made up: commands, paths and ports of this machine, and waits that last.

Whatever would be accepted is replaced by something harmless that is accepted too; what is malformed is sent as it is.
"""

import itertools
import json
import os
from typing import Any

import schemathesis

_WORK = os.environ["HOLDFAST_TEST_WORK"]
_KNOWN: dict[str, str] = json.loads(os.environ["HOLDFAST_TEST_IDS"])
_numbers = itertools.count()


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    _know(case)
    path, body, query = case.operation.path, case.body, case.query
    if isinstance(body, dict):
        if path.endswith("/shell") and _fits(body.get("command"), longest=20_000):
            body["command"] = "true"
        elif path == "/v1/workspaces" and _is_path(body.get("path")):
            body["path"] = _WORK
        elif path == "/v1/server/backup" and _is_path(body.get("path")):
            body["path"] = f"{_WORK}/backup-{next(_numbers)}"
        elif path == "/v1/web" and _is_path(body.get("certificate")) and _is_path(body.get("key")):
            for name in ("certificate", "key", "host"):
                body.pop(name, None)
        if path == "/v1/web" and _is_port(body.get("port")):
            body["port"] = 0
    if isinstance(query, dict) and "wait" in query and _seconds(query["wait"]):
        query["wait"] = 0.01


def _know(case: Any) -> None:
    """Most made-up ids lead nowhere: two of three become ids of something that is there. It is not to be deleted."""
    if case.method == "DELETE" or next(_numbers) % 3 == 0:
        return
    for name in case.path_parameters or ():
        case.path_parameters[name] = _KNOWN.get(name, case.path_parameters[name])


def _fits(value: object, *, longest: int) -> bool:
    return isinstance(value, str) and bool(value.strip()) and len(value) <= longest


def _is_path(value: object) -> bool:
    return isinstance(value, str) and value.startswith("/") and len(value) <= 4096


def _is_port(value: object) -> bool:
    return isinstance(value, int) and 0 <= value <= 65535


def _seconds(value: object) -> bool:
    try:
        return 0 <= float(str(value)) <= 600
    except ValueError:
        return False
