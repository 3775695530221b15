"""Reading, comparing, diffing and replacing files, shared by all tools that touch them."""
