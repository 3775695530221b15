"""How a shell line is read: which commands it would run, which files they touch, and whether they only read.

Anything that cannot be read with certainty is unclear, and an unclear line needs approval.
"""
