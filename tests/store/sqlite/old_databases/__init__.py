"""One dump of a database for each version, made by `dev.record_database`: a session with two runs of that version."""

from pathlib import Path

DUMPS = Path(__file__).parent
