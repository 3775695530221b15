"""One file per provider protocol: how a request body is built, and how the stream of its answer is read. No I/O."""
