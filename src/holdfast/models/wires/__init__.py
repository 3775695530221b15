"""The provider protocols: one module per wire builds the request body and reads the answer's event stream.

A wire is pure: it does no I/O and knows neither connections nor retries. Providers may send anything; a reader raises
leaves of `errors.ModelError` and nothing else. `protocol` defines the interface, and four modules hold what the wires
share: request parts, the request cache, JSON values and the stream reader.
"""
