"""The values that are stored, sent and returned, as frozen typed structs.

Reading is forward compatible: an unknown part, event kind or field never makes a value unreadable. `api` has the
request and response bodies of the HTTP interface. The package does no I/O and knows no rules.

The modules whose values every client decodes do not import `annotations` from `__future__`: msgspec would compile each
annotation from its text when it makes a decoder, which takes longer than all that a short command decodes.
"""
