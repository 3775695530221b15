"""HTTP for the routes: read requests, send responses and event streams, map errors, describe the API.

It knows endpoints, not what they do.
"""
