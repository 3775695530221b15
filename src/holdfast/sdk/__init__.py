"""The Python interface for programs: `holdfast.Client` (asynchronous) and `holdfast.sync.Client`.

`AgentClient` is the client that all user interfaces use, with sessions and runs as objects, typed output, handlers for
approvals and questions, and tools written in Python, which run in the program's own process. The synchronous client
runs the asynchronous one in a thread, so both behave the same. The work belongs to the server: when the program ends,
its runs go on, and its tools are gone.
"""
