"""Language servers: what they say about an edit, and the tools that ask them.

A server of the catalogue or of the configuration starts when a file of its kind is first read or written, only in a
trusted directory, and only if it is installed. It runs under the supervisor, cannot write the workspace where a sandbox
works, and ends with the workspace. A server that crashes, hangs, floods or sends rubbish is stopped, reported and
started again after a pause; it never fails an edit. Nothing here is imported before a directory is trusted.
"""
