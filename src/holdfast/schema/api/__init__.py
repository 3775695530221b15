"""The bodies of the HTTP interface, defined once for the server and the client.

`request_bodies` is what clients send: the server reads it strictly (unknown fields are refused, bounds are checked).
`response_bodies` is what the server answers beyond the values in the rest of `schema`: every field that a client can do
without has a default, so a client understands older and newer servers.
"""
