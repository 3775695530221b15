"""Hooks: programs of the user that judge, change or accompany what the agent does.

`hook_definitions` and `claude_settings` read where hooks are configured, `hook_answers` what a program answered and
what several answers mean together, `claude_dialect` speaks to hooks that were written for Claude Code. These are pure.
`hook_process` runs one program. `workspace_hooks` has the hooks of an open workspace. Nothing here is imported unless a
hook is configured. This package does not know turns, stores or approvals.
"""
