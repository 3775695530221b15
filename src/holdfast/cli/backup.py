"""`holdfast backup`: a consistent copy of the database, also while it is used."""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

from holdfast.cli.exits import Exit
from holdfast.cli.here import Here
from holdfast.cli.parsing import Parser
from holdfast.cli.result import as_text
from holdfast.cli.wording import size


def configure(parser: Parser) -> None:
    parser.explain(
        "Copy the database, consistently, while everything goes on. To restore it: 'holdfast stop', then put the copy\n"
        "where 'holdfast doctor' shows the database.",
        examples=(("holdfast backup ~/holdfast.db", "to a file that does not exist yet"),),
    )
    parser.add_argument("file", nargs="?", metavar="FILE", help="holdfast-DATE.db here, if none is named")
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    path = os.path.abspath(args.file or time.strftime("holdfast-%Y%m%d-%H%M%S.db"))
    with Here() as here:
        made = here.client.request("POST", "/v1/server/backup", {"path": path}, dict[str, Any], wait=600.0)
    print(as_text(made) if args.json else f"{made['path']}  {size(made['size'])}")
    return Exit.COMPLETED
