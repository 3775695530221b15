"""The tokens of devices, as hashes."""

from __future__ import annotations

from holdfast.schema.devices import Device
from holdfast.store.records import TokenRecord
from holdfast.store.rows.sql import Sql
from holdfast.store.rows.transaction import Transaction


def put(tx: Transaction, token: TokenRecord) -> None:
    device = token.device
    tx.sql.execute(
        "INSERT INTO tokens (id, digest, name, scope, created_at, last_used_at, revoked_at, person) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET "
        "name = excluded.name, scope = excluded.scope, last_used_at = excluded.last_used_at, "
        "revoked_at = coalesce(tokens.revoked_at, excluded.revoked_at)",
        (
            *(device.id, token.digest, device.name, device.scope),
            *(device.created_at, device.last_used_at, device.revoked_at, device.person),
        ),
    )


def tokens(sql: Sql) -> tuple[TokenRecord, ...]:
    rows = sql.execute(
        "SELECT digest, id, name, scope, created_at, last_used_at, revoked_at, person FROM tokens "
        "ORDER BY created_at, id"
    )
    return tuple(TokenRecord(digest, Device(*fields)) for digest, *fields in rows)
