"""What a directory and a person add to the agent: instruction files and skills now; MCP servers, language servers,
hooks and custom commands come through the same door. Reading never runs anything of the directory.
"""
