"""A directory's live parts: opening and closing it, its sessions, tools, jobs, snapshots and undo, and the turns of its
runs.

Everything that happens in a session passes through its lane (`runs`); what is here gives a run what it works with, and
does what needs no lane. One workspace never touches another (`W3`), and opening one runs nothing of its directory
(`W1`). It knows nothing of HTTP.
"""
