"""One turn of a run: build the request, stream the answer, run the tools, commit each step, compact, count usage.

A turn gets a `TurnHandle` from the engine and its `TurnDependencies` from the workspace. It writes only through the
handle, and it knows nothing of lanes, queues or HTTP. A cancel may arrive at any await; whatever was streamed or run
until then is in the messages of the run's end.
"""
