"""One file per command. Its `configure` function adds its arguments; it is imported when the command is called."""
