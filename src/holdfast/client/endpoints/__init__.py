"""Every route of the API as a function that builds its call, one module per resource. Both clients send the same calls.

A call may be sent again when its response is lost, and has its effect once: runs carry their id, other changes carry an
idempotency key. Pure, except that ids and keys are generated.
"""
