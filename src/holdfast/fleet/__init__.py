"""Several servers on one database: which of them owns a workspace, and how requests reach it.

A workspace is owned through a lease on its row. The lease has a fencing number that grows with every change of its
holder; every commit carries the number, and the database refuses a stale one. A server renews one row for all its
leases. A server that does not renew it is declared dead by another one, for ever; then its leases can be taken. All
times are the database's. `lease_rules` has the rules without I/O; tests explore them exhaustively.

Nothing of this package is imported by a server with a database of its own.
"""

from __future__ import annotations
