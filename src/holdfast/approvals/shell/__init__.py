"""How a command line is judged.

`shell_parser` turns the line into the commands, redirections and globs that the shell would run (`shell_commands`,
made of `shell_words`). `wrapper_commands` and `git_commands` find the commands that a command runs in turn; scripts for
other shells than bash must be written in the subset of `posix_subset`. `judge` compares the result with the deny rules
and lists the permissions that it needs; `readonly_commands`, `readonly_programs` and `git_reads` list the commands that
need none, option by option (`option_parser`). Whatever is not understood exactly needs approval.
"""
