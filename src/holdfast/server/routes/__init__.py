"""HTTP routes, one module per resource. A route translates a request into a service call, and the result back.

The first line of a handler's docstring is its summary in the OpenAPI description and in docs/protocol.md.
"""
