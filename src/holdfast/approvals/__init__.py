"""Decide whether a tool call may run, and ask the user where the rules leave it open.

`decision.Approver` decides about a call: `Allow`, `Deny` or `Ask`. `pending_approvals.PendingApprovals` stores a
request, waits for the answer and records it (`W4`). A decision depends only on its arguments and on the symlinks at
that moment; the tool checks again what can change between the decision and the call. This package does not know tools,
turns or HTTP. The caller passes in the rules, and whether the workspace is trusted and the run can ask.
"""
