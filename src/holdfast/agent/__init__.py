"""One turn: build the request, stream the answer, run the tools, commit, compact, count usage."""
