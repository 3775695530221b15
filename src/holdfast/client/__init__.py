"""The client: how the faces talk to the server."""
