"""What every face may do with workspaces, sessions, runs and settings. Routes translate to it; it knows no HTTP."""
