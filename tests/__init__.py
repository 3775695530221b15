"""Tests mirror the tree under `src/holdfast`; shared parts are in `tests.support`."""
