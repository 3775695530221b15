"""The tables, as migrations. Each runs in one transaction and is never edited after a release."""

from __future__ import annotations

APPLICATION_ID = 0x486F6C64
"""``Hold``: distinguishes our database from other SQLite files."""

_LOG = (
    """CREATE TABLE log (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        id TEXT NOT NULL,
        last INTEGER NOT NULL,
        pruned INTEGER NOT NULL)""",
    """CREATE TABLE events (
        number INTEGER PRIMARY KEY,
        workspace_id TEXT,
        session_id TEXT,
        root_id TEXT,
        kind TEXT NOT NULL,
        at TEXT NOT NULL,
        body BLOB NOT NULL)""",
    "CREATE INDEX events_of_root ON events (root_id)",
)

_SESSIONS = (
    "CREATE TABLE workspaces (id TEXT PRIMARY KEY, path TEXT NOT NULL UNIQUE, body BLOB NOT NULL)",
    """CREATE TABLE sessions (
        id TEXT PRIMARY KEY,
        workspace_id TEXT NOT NULL REFERENCES workspaces,
        parent_id TEXT REFERENCES sessions,
        root_id TEXT NOT NULL REFERENCES sessions,
        forked_from TEXT,
        activity INTEGER NOT NULL,
        title TEXT NOT NULL,
        folded_title TEXT NOT NULL,
        archived INTEGER NOT NULL,
        usage BLOB NOT NULL,
        created_at TEXT NOT NULL,
        updated_at TEXT NOT NULL,
        deleted_at TEXT)""",
    "CREATE INDEX sessions_newest ON sessions (workspace_id, activity) WHERE parent_id IS NULL AND deleted_at IS NULL",
    "CREATE INDEX sessions_of_parent ON sessions (parent_id, activity) WHERE parent_id IS NOT NULL",
)

_RUNS = (
    """CREATE TABLE runs (
        id TEXT PRIMARY KEY,
        session_id TEXT NOT NULL REFERENCES sessions,
        seq INTEGER NOT NULL,
        state TEXT NOT NULL,
        live INTEGER NOT NULL,
        floor INTEGER NOT NULL,
        body_hash TEXT NOT NULL,
        verdict TEXT NOT NULL,
        position INTEGER,
        host_run_id TEXT,
        body BLOB NOT NULL,
        UNIQUE (session_id, seq))""",
    "CREATE INDEX runs_live ON runs (session_id, seq) WHERE live = 1",
    # R4: the database itself refuses a second active run of a session.
    "CREATE UNIQUE INDEX runs_one_active ON runs (session_id) WHERE state IN ('active', 'stopping')",
    """CREATE TABLE lanes (
        session_id TEXT PRIMARY KEY REFERENCES sessions,
        next_seq INTEGER NOT NULL,
        mark INTEGER NOT NULL,
        hold TEXT,
        last_end TEXT,
        lifecycle TEXT NOT NULL)""",
)

_MESSAGES = (
    """CREATE TABLE messages (
        n INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        session_id TEXT NOT NULL REFERENCES sessions,
        seq INTEGER NOT NULL,
        summary INTEGER NOT NULL,
        body BLOB NOT NULL,
        UNIQUE (session_id, seq))""",
    "CREATE INDEX messages_summaries ON messages (session_id, seq) WHERE summary = 1",
    """CREATE TABLE message_text (
        n INTEGER PRIMARY KEY REFERENCES messages ON DELETE CASCADE,
        text TEXT NOT NULL,
        indexed INTEGER NOT NULL DEFAULT 0)""",
    "CREATE INDEX message_text_new ON message_text (n) WHERE indexed = 0",
)

_APPROVALS = (
    """CREATE TABLE approvals (
        n INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        workspace_id TEXT NOT NULL,
        session_id TEXT NOT NULL REFERENCES sessions,
        run_id TEXT NOT NULL,
        state TEXT NOT NULL,
        body BLOB NOT NULL)""",
    "CREATE INDEX approvals_open ON approvals (workspace_id) WHERE state = 'open'",
    "CREATE INDEX approvals_of_session ON approvals (session_id)",
    """CREATE TABLE questions (
        n INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        workspace_id TEXT NOT NULL,
        session_id TEXT NOT NULL REFERENCES sessions,
        run_id TEXT NOT NULL,
        state TEXT NOT NULL,
        body BLOB NOT NULL)""",
    "CREATE INDEX questions_open ON questions (workspace_id) WHERE state = 'open'",
    "CREATE INDEX questions_of_session ON questions (session_id)",
    """CREATE TABLE grants (
        n INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        workspace_id TEXT NOT NULL,
        session_id TEXT,
        rule TEXT NOT NULL,
        body BLOB NOT NULL)""",
    "CREATE UNIQUE INDEX grants_once ON grants (workspace_id, coalesce(session_id, ''), rule)",
)

_TOOL_RECORDS = (
    """CREATE TABLE jobs (
        n INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        workspace_id TEXT NOT NULL,
        session_id TEXT NOT NULL,
        state TEXT NOT NULL,
        body BLOB NOT NULL)""",
    "CREATE INDEX jobs_of_workspace ON jobs (workspace_id, state)",
    "CREATE INDEX jobs_of_session ON jobs (session_id)",
    "CREATE TABLE todos (session_id TEXT PRIMARY KEY REFERENCES sessions, body BLOB NOT NULL)",
    """CREATE TABLE reads (
        session_id TEXT NOT NULL REFERENCES sessions,
        path TEXT NOT NULL,
        content_hash TEXT NOT NULL,
        PRIMARY KEY (session_id, path)) WITHOUT ROWID""",
    """CREATE TABLE call_outputs (
        call_id TEXT PRIMARY KEY,
        session_id TEXT NOT NULL REFERENCES sessions,
        path TEXT NOT NULL,
        size INTEGER NOT NULL,
        message_id TEXT NOT NULL DEFAULT '')""",
    "CREATE INDEX call_outputs_of_session ON call_outputs (session_id)",
    """CREATE TABLE snapshots (
        id TEXT PRIMARY KEY,
        session_id TEXT NOT NULL REFERENCES sessions,
        seq INTEGER NOT NULL,
        path TEXT NOT NULL,
        before TEXT,
        after TEXT,
        state TEXT NOT NULL,
        body BLOB NOT NULL,
        UNIQUE (session_id, seq))""",
    "CREATE INDEX snapshots_before ON snapshots (before)",
    "CREATE INDEX snapshots_after ON snapshots (after)",
    """CREATE TABLE answers (
        key TEXT PRIMARY KEY,
        request_hash TEXT NOT NULL,
        status INTEGER NOT NULL,
        body BLOB NOT NULL,
        created_at TEXT NOT NULL)""",
    "CREATE INDEX answers_by_age ON answers (created_at)",
    """CREATE TABLE usage_days (
        day TEXT NOT NULL,
        model TEXT NOT NULL,
        input INTEGER NOT NULL,
        output INTEGER NOT NULL,
        cache_read INTEGER NOT NULL,
        cache_write INTEGER NOT NULL,
        cost REAL NOT NULL,
        estimated INTEGER NOT NULL,
        runs INTEGER NOT NULL,
        steps INTEGER NOT NULL,
        PRIMARY KEY (day, model)) WITHOUT ROWID""",
    """CREATE TABLE tool_days (
        day TEXT NOT NULL,
        tool TEXT NOT NULL,
        calls INTEGER NOT NULL,
        failed INTEGER NOT NULL,
        PRIMARY KEY (day, tool)) WITHOUT ROWID""",
)

_DRAFTS_AND_SHORT_EVENTS = (
    # The attempt that a message's text belongs to. Drafts of another attempt are not its text.
    "ALTER TABLE messages ADD COLUMN attempt INTEGER NOT NULL DEFAULT 1",
    # How many of a message's parts events need.
    "ALTER TABLE messages ADD COLUMN referenced INTEGER NOT NULL DEFAULT 0",
    # The message or run that has what the body leaves out, and which of the message's parts.
    "ALTER TABLE events ADD COLUMN source TEXT",
    "ALTER TABLE events ADD COLUMN first_part INTEGER",
    "ALTER TABLE events ADD COLUMN part_count INTEGER",
    # The message that has the run's answer, which the body then leaves out.
    "ALTER TABLE runs ADD COLUMN text_from TEXT",
    # The text for the search is in the message.
    "UPDATE message_text SET text = ''",
)

_ENVIRONMENTS = (
    # The variables that clients sent with runs. Most runs share theirs with others.
    "CREATE TABLE environments (digest TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID",
    "ALTER TABLE runs ADD COLUMN environment TEXT",
    "CREATE INDEX runs_environments ON runs (environment) WHERE environment IS NOT NULL",
)

_SESSION_AGENTS = ("ALTER TABLE sessions ADD COLUMN agent TEXT",)

_TOKENS = (
    # Tokens of devices. The token itself is not stored.
    """CREATE TABLE tokens (
        id TEXT PRIMARY KEY,
        digest TEXT NOT NULL UNIQUE,
        name TEXT NOT NULL,
        scope TEXT NOT NULL,
        created_at TEXT NOT NULL,
        last_used_at TEXT NOT NULL,
        revoked_at TEXT)""",
)

_PEOPLE_AND_AUDIT = (
    # ``workspaces`` is a JSON array of directories; NULL stands for all.
    """CREATE TABLE people (
        name TEXT PRIMARY KEY,
        role TEXT NOT NULL,
        workspaces TEXT,
        created_at TEXT NOT NULL,
        removed_at TEXT)""",
    "ALTER TABLE tokens ADD COLUMN person TEXT",
    # Who changed what. ``status`` and ``code`` are those of the answer; NULL while there is none.
    """CREATE TABLE audit (
        n INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        at TEXT NOT NULL,
        person TEXT,
        device_id TEXT,
        client TEXT NOT NULL,
        action TEXT NOT NULL,
        target TEXT NOT NULL,
        status INTEGER,
        code TEXT,
        made TEXT)""",
)

_COMPRESSED_MESSAGES: tuple[str, ...] = ()
"""The tables stay as they are, but older versions cannot read the bodies of messages."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (*_LOG, *_SESSIONS, *_RUNS, *_MESSAGES, *_APPROVALS, *_TOOL_RECORDS),
    _DRAFTS_AND_SHORT_EVENTS,
    _ENVIRONMENTS,
    _SESSION_AGENTS,
    _TOKENS,
    _PEOPLE_AND_AUDIT,
    _COMPRESSED_MESSAGES,
)
"""``MIGRATIONS[n]`` migrates version n to version n + 1."""

SEARCH_INDEX = """CREATE VIRTUAL TABLE IF NOT EXISTS search USING fts5(
    text, content='message_text', content_rowid='n', tokenize='unicode61 remove_diacritics 2')"""
"""Not a migration: it is derived from ``message_text``, and a SQLite without FTS5 works without it."""
