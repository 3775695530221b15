"""Requests to the web for tools: allowed addresses, limited responses, pages as text.

Only public addresses are reached, unless the settings allow private ones; each redirect is checked again. Responses are
limited in size and time. The package knows no tools.
"""
