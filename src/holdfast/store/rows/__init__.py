"""The rows of the ledger: the SQL that SQLite and PostgreSQL share, and the tables as migrations.

Each function takes a connection (`Sql`) or the transaction of a batch. Threads, and how transactions begin and end, are
in the packages beside this one: there the databases differ.
"""
