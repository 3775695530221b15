"""Open directories: settings, tools, background jobs, session titles, undo, and the turns of their runs.

A workspace gives each run what its turn works with. It does not decide what runs: that is the lane's part (`runs`).
Opening a workspace runs no code of its directory, and one workspace never affects another. It knows nothing of HTTP.
"""
