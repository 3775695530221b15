"""The request and response bodies of the HTTP interface, for the server and the clients.

The server decodes requests strictly: unknown fields are refused and limits are checked. In responses, every field that
a client can do without has a default, so that a client understands older and newer servers.
"""
