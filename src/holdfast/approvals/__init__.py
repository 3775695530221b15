"""Whether a call may happen: rules, shell lines read with tree-sitter, and a person's answers as durable records.

`Approver.consider` decides about a call (`Allow`, `Deny`, `Ask`); `pending.Approvals` asks and waits (`W4`). The
decision is pure but for symlinks, which are followed when it is made: what changes between it and the call is the
tool's to check again. It knows nothing of tools, turns or HTTP; where rules are kept, and which run is trusted or
interactive, it is told. A rule is a fence for honest mistakes, not a wall: a program that may run can do what it likes.
"""
