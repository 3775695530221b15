"""Programs that keep the repository true; run by the Makefile, not part of the package."""
