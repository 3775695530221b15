"""Servers of the Model Context Protocol as a source of tools, prompts and resources.

`McpServers` holds the servers of one workspace. They start in the background when they are first needed, side by side,
and nothing waits for them except runs without a person. `mcp_session` and `stdio_transport` alone import the protocol's
library, which is slow to import, in a thread, when the first server starts. All other modules work with plain JSON
values. What a server sends is data of a stranger: it is limited in size, cleaned and marked with its origin. This
package does not know runs, sessions or approvals.
"""
