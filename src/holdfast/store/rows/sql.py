"""What the functions of this package need of a connection: `sqlite3.Connection` has it, `PostgresConnection` too.

Statements are the SQL that both databases understand, with ``?`` or ``:name`` for parameters. Rows are tuples.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol


class SqlRows(Protocol):
    """The result of a statement."""

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...

    @property
    def rowcount(self) -> int: ...

    @property
    def lastrowid(self) -> int | None: ...


class Sql(Protocol):
    """A connection in a transaction."""

    def execute(self, sql: str, parameters: Any = ..., /) -> SqlRows: ...

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> SqlRows: ...


class SearchIndex(Protocol):
    """The index of the texts of messages. Each database has its own kind."""

    def exists(self, sql: Sql) -> bool: ...

    def add(self, sql: Sql, texts: list[tuple[int, str]]) -> None:
        """Index texts by the number of their message's row."""
        ...

    def remove(self, sql: Sql, texts: list[tuple[int, str]]) -> None:
        """Remove texts, which are those that were added."""
        ...

    def find(self, sql: Sql, words: list[str], *, workspace_id: str | None, limit: int) -> list[Any]:
        """Return workspace, session, title and body of messages with words that begin with these, best first."""
        ...
