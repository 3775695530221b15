"""Running commands: supervised process trees, captured output, environment, sandbox."""
