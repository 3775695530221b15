"""Programs for developers, run by the Makefile. They are not part of the package."""
