"""`holdfast acp`: Holdfast as an agent of the Agent Client Protocol, for editors. A thin client of the same server.

An editor starts the command and speaks JSON-RPC with it on stdin and stdout. Its sessions are ordinary sessions: they
survive the editor and can be watched and driven from anywhere else. What is shown, how prompts are read and what an
answer means is decided by pure modules; `acp_connection`, `editor_session` and `acp_agent` do the I/O. The protocol's
library checks what the editor sends, and is imported only by `acp_connection` and `acp_agent`. The package knows the
HTTP API through `client` and nothing else of the server.
"""
