"""The terminal interface: a client like any other, on Textual. Imported only when it is opened."""
