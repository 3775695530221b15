"""Record the database of this version under tests/store/sqlite/old_databases, for the tests of later versions.

``python -m dev.record_database`` runs two prompts on a server in a temporary directory and writes the dump of its
database to ``version_N.sql``. Run it when a migration is added, and commit the new file. Older dumps stay as they are.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from holdfast.store.rows.migrations import MIGRATIONS
from tests.store.sqlite.old_databases import DUMPS
from tests.support.app_harness import open_app_harness, saying

PROMPTS = ("hello number one", "hello number two")


async def _work(directory: Path) -> None:
    async with open_app_harness(directory, saying("You said:\n{prompt}")) as harness:
        first = await harness.run(PROMPTS[0])
        await harness.run(PROMPTS[1], session_id=first.session_id)


def _dump(path: Path, *, directory: Path) -> Iterator[str]:
    """The statements that make this database again, without the search index, which is derived."""
    with closing(sqlite3.connect(path)) as sql:
        for name in ("application_id", "user_version"):
            (value,) = sql.execute(f"PRAGMA {name}").fetchone()
            yield f"PRAGMA {name} = {value};"
        sql.execute("DROP TABLE IF EXISTS search")
        sql.execute("VACUUM")
        for line in sql.iterdump():
            if line not in ("BEGIN TRANSACTION;", "COMMIT;"):
                yield (
                    " ".join(line.split())
                    .replace(str(directory), "/project")
                    .replace(_hex(directory), _hex("/project"))
                )


def _hex(text: object) -> str:
    return str(text).encode().hex().upper()


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="hf-") as name:
        directory = Path(name).resolve()
        asyncio.run(_work(directory))
        (database,) = directory.glob("home/**/holdfast.db")
        target = DUMPS / f"version_{len(MIGRATIONS)}.sql"
        target.write_text("\n".join(_dump(database, directory=directory)) + "\n")
    print(f"wrote {target}")


if __name__ == "__main__":
    main()
