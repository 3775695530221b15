"""How a command line is judged.

`shell_parser` turns the line into the commands, redirections and globs that the shell would run (`shell_commands`,
made of `shell_words`). `wrapper_commands` and `git_commands` find the commands that a command runs in turn. `judge`
compares the result with the deny rules and lists the permissions that it needs; `readonly_commands` knows the commands
that need none. Whatever cannot be parsed with certainty is unclear, and an unclear line needs approval.
"""
