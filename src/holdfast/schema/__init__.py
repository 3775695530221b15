"""The values that are stored, sent and returned, as frozen typed structs.

Reading is forward compatible: an unknown part, event kind or field never makes a value unreadable. `api` has the
request and response bodies of the HTTP interface. The package does no I/O and knows no rules.
"""
