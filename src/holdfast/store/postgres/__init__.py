"""The store in a PostgreSQL database, for several machines or more than one directory of sessions (docs/fleet.md).

It has the tables and the SQL of `rows`. It hides how transactions of several servers are ordered, how a lost connection
is survived, and who may write. Imported only when it is used: it needs psycopg (``pip install 'holdfast[fleet]'``).
"""

from __future__ import annotations

from holdfast.store.postgres.postgres_store import PostgresStore, open_postgres_store, with_password

__all__ = ["PostgresStore", "open_postgres_store", "with_password"]
