"""What happens after the agent edited files: formatters run, and later steps check the result.

A step gets the files that a call wrote and returns a text, which is added to the result of the call. Steps run in a
fixed order: those that change files come before those that look at them. A step is limited in time, and its failure
never fails the edit. Steps run code of the project, so they run only in trusted directories.
"""
