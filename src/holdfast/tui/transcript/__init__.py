"""The transcript of a session as one widget on Textual's line API.

Blocks become rows once per width, palette and revision; the widget draws only the rows that are visible. The package
knows the view that `client` makes of the events, and nothing of the server.
"""
