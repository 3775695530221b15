"""What a model can do to the world: one file per tool or family of tools, and what they share.

`protocol` says what a tool is; `registry` knows them all, offers the right ones to a run and checks their arguments.
Commands are started through `processes`, whose trees are ended for certain; `jobs` keeps those that go on in the
background; `web` reaches only where it may. A tool knows nothing of the store, the turn or the server: what it needs
comes in its `Context`, and its errors become results.

This module imports nothing, because the keeper program passes through it.
"""
