"""The tools that a model can call: one module per tool, and sub-packages for what they share.

`protocol` defines a tool and its context. `registry` holds the tools of a workspace and chooses those that a run is
offered. A tool knows nothing of the store, the turn or the server: everything it needs is in its `ToolContext`. Errors
are raised as `ToolError`; the model gets the message.

This module imports nothing, because the supervisor program imports it.
"""
