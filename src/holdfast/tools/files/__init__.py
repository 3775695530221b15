"""Files for tools: paths, reads with limits, planned changes, and writes that are all or nothing.

A write happens only if each file still has the content from which the change was planned; otherwise nothing is written.
Changes by other programs are never overwritten. The package does not know which tool asks; it records reads and writes
through the `FileLedger` of the tool's context.
"""
