"""The commands, one file per command or group of related commands. A file is imported when its command is called."""
