"""Fetching from the web: allowed addresses, bounded requests, HTML as text."""
