"""Tests that every implementation of `Store` must pass."""
