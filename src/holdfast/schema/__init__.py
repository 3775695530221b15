"""The words of the system, as frozen typed structs: what is stored, what is sent, what is answered.

Reading is forward compatible: an unknown part, kind or field never makes anything unreadable. The modules are the
subjects: `messages`, `runs`, `sessions`, `approvals`, `events`, `usage`; `base` says how they are written and read.
"""
