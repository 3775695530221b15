"""Language models: a request goes in, a stream of typed deltas comes out.

`protocol` is the contract with the turn, and `ModelFactory` opens the models that the configuration names. Each
provider protocol is a pure module in `wires/`; `HttpTransport` is the only I/O. The scripted model needs no provider.

A stream raises leaves of `errors.ModelError` and nothing else, whatever the provider sends, and no error contains a
key. Cancelling the reader closes the connection at once. Models know nothing of runs, sessions or stores, and do not
retry: the turn asks `retry_wait`.
"""
