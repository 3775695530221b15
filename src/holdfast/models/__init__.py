"""Models: a request in, a stream of typed deltas out, closed at once when its task is cancelled.

`protocol` is the contract with the turn, `factory.Models` opens what the configuration names, `retry.retry_wait` says
whether and when to ask again, `pricing` what it cost, `scripted` is the model that needs no provider.

Each wire has a pure body and a pure incremental reader (`anthropic`, `openai_chat`, `openai_responses`, `gemini`);
`transport` is the only I/O. Whatever a provider sends, a stream raises leaves of `errors.ModelError` and nothing else,
and none of them carries a key. Models know nothing of runs, sessions or stores, and never retry by themselves.
"""
