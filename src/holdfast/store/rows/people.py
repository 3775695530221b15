"""The people that use the server."""

from __future__ import annotations

import msgspec

from holdfast.schema.people import Person
from holdfast.store.rows.sql import Sql
from holdfast.store.rows.transaction import Transaction


def put(tx: Transaction, person: Person) -> None:
    workspaces = None if person.workspaces is None else msgspec.json.encode(person.workspaces).decode()
    tx.sql.execute(
        "INSERT INTO people (name, role, workspaces, created_at, removed_at) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (name) DO UPDATE SET role = excluded.role, workspaces = excluded.workspaces, "
        "created_at = excluded.created_at, removed_at = excluded.removed_at",
        (person.name, person.role, workspaces, person.created_at, person.removed_at),
    )


def people(sql: Sql) -> tuple[Person, ...]:
    rows = sql.execute("SELECT name, role, workspaces, created_at, removed_at FROM people ORDER BY name")
    return tuple(
        Person(
            name=name,
            role=role,
            workspaces=None if workspaces is None else msgspec.json.decode(workspaces, type=tuple[str, ...]),
            created_at=created_at,
            removed_at=removed_at,
        )
        for name, role, workspaces, created_at, removed_at in rows
    )
