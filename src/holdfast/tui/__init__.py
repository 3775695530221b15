"""The terminal interface: a client like any other, on Textual. Imported only when it is opened.

`open_tui` shows it until the user leaves, and restores the terminal whatever happened. The interface holds no truth:
everything comes from the server's snapshots and events, so it may be killed at any moment. It knows nothing about how
the server works.
"""

from __future__ import annotations

__all__ = ["open_tui"]

from holdfast.tui.open_tui import open_tui
