"""What tests of several packages share. Nothing here knows a package's internals."""
